"""A flow followed from a capture that was not taken at its sender."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pcap_builder import (
    ACK,
    SYN,
    D,
    Pcap,
    S,
    acknowledgement,
    conversation,
    ethernet,
    ip4,
    segment,
    tcp,
)
from test_analysis import Talk, distant

from tcpf_lab.trace.analysis import Options, analyse
from tcpf_lab.trace.follow import Followed, follow
from tcpf_lab.trace.packet import find_flows, read_capture

MS = 1_000_000


def followed(talk: Talk | Pcap, tmp_path: Path, options: Options | None = None) -> Followed:
    capture = talk.capture if isinstance(talk, Talk) else talk
    packets = read_capture(capture.write(tmp_path / "x.pcap")).packets
    return follow(packets, find_flows(packets), 0, options or Options(probes=False))


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.1999])
def test_what_comes_back_is_where_the_sender_has_it(tmp_path: Path, delay: float) -> None:
    seen = followed(distant(delay), tmp_path)
    assert seen.away_ns == round(1000 * delay * MS)
    assert np.all(np.diff(seen.time_ns) >= 0)
    assert set(seen.rtt_ns[seen.rtt_ns >= 0].tolist()) == {200 * MS}


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.15, 0.1999])
def test_events_are_those_of_the_analysis(tmp_path: Path, delay: float) -> None:
    seen = followed(distant(delay), tmp_path)
    analysis = analyse(tmp_path / "x.pcap", options=Options(probes=False))
    assert seen.kind[seen.kind > 0].tolist() == analysis.events["kind"].tolist()
    assert seen.start[seen.kind > 0].tolist() == analysis.events["start"].tolist()


def test_place_that_is_given_is_believed(tmp_path: Path) -> None:
    seen = followed(distant(0.1), tmp_path, Options(probes=False, at="sender"))
    assert seen.away_ns == 0
    assert seen.row.tolist() == list(range(seen.row.size))


def shaken(ours: int, theirs: int) -> Pcap:
    """Return a flow whose SYNs offer these shifts (-1: none) and whose receiver says 1000."""
    option = [b"" if shift < 0 else bytes([3, 3, shift, 1]) for shift in (ours, theirs)]
    asks = tcp(20000, 5001, seq=0, flags=SYN, options=option[0])
    answers = tcp(5001, 20000, seq=0, ack=1, flags=SYN | ACK, options=option[1], window=1000)
    made = Pcap().add(10**18, ethernet(ip4(asks, src=S, dst=D)))
    made.add(10**18 + 200 * MS, ethernet(ip4(answers, src=D, dst=S)))
    made.add(10**18 + 200 * MS, segment(1, 960), missing=960)
    return made.add(10**18 + 400 * MS, acknowledgement(961))


@pytest.mark.parametrize(
    ("ours", "theirs", "scale"), [(7, 3, 3), (7, -1, 0), (-1, 3, 0), (-1, -1, 0)]
)
def test_window_is_scaled_as_both_syns_agree(
    tmp_path: Path, ours: int, theirs: int, scale: int
) -> None:
    seen = followed(shaken(ours, theirs), tmp_path)
    assert seen.scale == scale
    assert seen.window.tolist() == [-1, 1000, 1000, 1000 << scale], "that of a SYN is not scaled"


def test_window_without_a_syn_is_unknown(tmp_path: Path) -> None:
    made, _ = conversation("0.0 > 1:961\n0.2 < ack 961\n0.2 > 961:1921\n0.4 < ack 1921")
    seen = followed(made, tmp_path)
    assert seen.scale == -1
    assert set(seen.window.tolist()) == {-1}
