"""From an event to its packets: a second opinion by dpkt on what the analysis read."""

from __future__ import annotations

from pathlib import Path

import dpkt
import pytest
from pcap_builder import Pcap, conversation, ethernet, ip6, tcp
from typer.testing import CliRunner

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli.main import app

SENDERS = Path(__file__).parents[1] / "data" / "senders"


@pytest.mark.parametrize("sender", ["modern", "bbr", "newreno"])
def test_events_are_what_dpkt_sees_sent_again(sender: str) -> None:
    path = SENDERS / f"{sender}.pcap.zst"
    events = tcpf_lab.analyze(path).events
    assert len(events) > 9
    for _, event in events.iloc[:: len(events) // 9].iterrows():
        frames = tcpf_lab.packets(path, event, around=400)
        (own,) = (frame for frame in frames if frame.record == event["record"])
        assert own.forward
        assert own.time_ns == event["time_ns"]
        assert (own.payload, own.tcp.sport) == (event["payload_bytes"], event["sport"])
        before = [f for f in frames if f.forward and f.record < own.record]
        assert any(f.tcp.seq == own.tcp.seq and f.payload for f in before)
        assert all(f.tcp.dport == event["sport"] for f in frames if not f.forward)


def test_frames_of_ipv6_and_of_no_event(tmp_path: Path) -> None:
    hosts = {"src": bytes(15) + b"\x01", "dst": bytes(15) + b"\x02"}
    frame = ethernet(ip6(tcp(7, 8, seq=1), payload=5, **hosts), kind=0x86DD)
    path = Pcap().add(0, frame).add(10**9, frame).write(tmp_path / "x.pcap")
    event = tcpf_lab.analyze(path).events.iloc[0]
    frames = tcpf_lab.packets(path, event)
    assert [type(frame.packet) for frame in frames] == [dpkt.ethernet.Ethernet] * 2
    with pytest.raises(RequestError, match="no packet of this connection is record 77"):
        tcpf_lab.packets(path, {**event, "record": 77})


def test_frames_that_dpkt_cannot_read_are_refused(tmp_path: Path) -> None:
    hdlc = Pcap(link=104)
    for frame in conversation("0.0 > 1:961\n1.0 > 1:961")[0].records:
        hdlc.add(0, b"\x0f\x00\x08\x00" + frame[16 + 14 :])
    path = hdlc.write(tmp_path / "x.pcap")
    event = tcpf_lab.analyze(path).events.iloc[0]
    with pytest.raises(RequestError, match="cannot read frames of link type 104"):
        tcpf_lab.packets(path, event)


def test_packets_around_an_event_are_shown(tmp_path: Path) -> None:
    talk = "0.0 > SYN\n0.2 < SYN-ACK\n0.2 > 1:961\n0.2 > 961:1921\n0.4 < ack 1 sack 961:1921\n"
    path = conversation(talk + "1.0 > 1:961")[0].write(tmp_path / "x.pcap")
    done = CliRunner().invoke(app, ["analyze", str(path), "--packets", "0"])
    assert done.exit_code == 0
    (own,) = (line for line in done.output.splitlines() if line.startswith("*"))
    assert own.split()[1:] == ["5", "+0.000", ">", "1", "960", "A"]
    assert "961-1921" in done.output


@pytest.mark.parametrize("words", [["--packets", "1"], ["--packets", "0", "--json"]])
def test_packets_of_no_event_or_in_another_form_are_refused(
    words: list[str], tmp_path: Path
) -> None:
    path = conversation("0.0 > 1:961\n1.0 > 1:961")[0].write(tmp_path / "x.pcap")
    done = CliRunner().invoke(app, ["analyze", str(path), *words])
    assert done.exit_code != 0


def test_a_cut_end_is_told_beside_the_packets(tmp_path: Path) -> None:
    path = conversation("0.0 > 1:961\n1.0 > 1:961\n2.0 > 961:1921")[0].write(tmp_path / "x.pcap")
    path.write_bytes(path.read_bytes()[:-4])
    done = CliRunner().invoke(app, ["analyze", str(path), "--packets", "0"])
    assert done.exit_code == 0
    assert f"warning: {path}: truncated in packet 3" in done.stderr
