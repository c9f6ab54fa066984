"""The kernel's list of retransmissions, in guests: complete, true, and without effect on a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from expected_counters import expected_counters
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.metrics.record import kernel_counters
from tcpf_lab.results.layout import RunFiles
from tcpf_lab.spec.model import Experiment
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.trace.analysis import RTO, SYN_RTO, Options, analyse
from tcpf_lab.trace.packet import ACK, SYN, read_capture
from tools.accuracy.agreement import NO_ENTRY, compare

pytestmark = [pytest.mark.uml, pytest.mark.full]

#: Senders of several generations, each through a queue that drops a tenth.
SENDERS = {
    "sack": (),
    "reno": ("tcp.sack=false",),
    "modern": ("tcp.profile=modern",),
    "bbr": ("tcp.profile=modern", "tcp.congestion=bbr"),
    "linux-2.2": ("tcp.profile=linux-2.2",),
    "linux-2.2 without SACK": ("tcp.profile=linux-2.2", "tcp.sack=false"),
    "timer of linux-2.2": ("tcp.linux22.rto=true", "tcp.linux22.rto_age=true"),
    "go-back-N of linux-2.2": ("tcp.linux22.go_back_n=true", "tcp.sack=false"),
    "recovery of linux-2.2": ("tcp.linux22.go_back_n=true", "tcp.linux22.fast_retransmit=true"),
}
#: What the analysis has to be told of them.
KNOWN = {
    "linux-2.2": Options(probes=False, profile="linux-2.2"),
    "linux-2.2 without SACK": Options(probes=False, profile="linux-2.2"),
    "timer of linux-2.2": Options(probes=False, linux22=("rto", "rto_age")),
    "go-back-N of linux-2.2": Options(probes=False, linux22=("go_back_n",)),
    "recovery of linux-2.2": Options(probes=False, linux22=("go_back_n", "fast_retransmit")),
}
#: Retransmissions are a matter of seconds at this rate; more flows meet more of their kinds.
BUSY = ("matrix.flows=[8]", "traffic.duration=20 s")


@pytest.fixture
def make(
    guest_run: Callable[..., RunFiles], recorded_experiment: Experiment
) -> Callable[..., RunFiles]:
    """Return a function that gives the files of a sender's run."""

    def made(name: str, **bed: UmlTestbed) -> RunFiles:
        return guest_run(recorded_experiment, *BUSY, *SENDERS[name], **bed, seed="1")

    return made


def entries_of(run: RunFiles) -> NDArray[Any]:
    found = log.read_logs(run)["S"]
    assert found.missing == 0
    assert found.entries.size > 0
    return found.entries


def sent_again(run: RunFiles) -> list[tuple[int, int]]:
    """Give (port, first byte) of what the sender's capture has twice, SYN and data."""
    packets = read_capture(run.capture("S")).packets
    seen: Counter[tuple[int, int]] = Counter()
    again = []
    for p in packets[(packets["dport"] == 5001)]:
        if p["payload"] > 0 or (p["flags"] & (SYN | ACK)) == SYN:
            key = (int(p["sport"]), int(p["seq"]))
            if seen[key]:
                again.append(key)
            seen[key] += 1
    return again


def last_samples(run: RunFiles) -> list[tuple[int, int]]:
    """Give the instant of each flow's sample at the end of the window, and its total_rto."""
    epoch = json.loads((run.stats / "epoch.json").read_text())["epoch_ns"]
    rows = map(json.loads, (run.stats / "senders-S.jsonl").read_text().splitlines())
    ends = sorted((r for r in rows if r.get("sample") == "end"), key=lambda r: int(r["flow"]))
    return [(epoch + row["time_ns"], row["total_rto"]) for row in ends]


@pytest.mark.parametrize("name", SENDERS)
def test_list_is_what_the_capture_has_twice_and_the_counters_count(
    make: Callable[..., RunFiles], name: str
) -> None:
    run = make(name)
    entries = entries_of(run)
    packets = log.as_packets(entries)
    # What the device's queue dropped is in the list and not in the capture, and may be sent again.
    listed = [(int(p["sport"]), int(p["seq"])) for p in packets if p["cause"] not in (log.TLP_NEW,)]
    assert Counter(listed) == Counter(sent_again(run))
    told = kernel_counters(run, "S", "TcpExt")
    assert {key: told[key] for key in expected_counters(entries)} == expected_counters(entries)


@pytest.mark.parametrize("name", SENDERS)
def test_expiries_of_each_flow_are_those_of_its_socket(
    make: Callable[..., RunFiles], name: str
) -> None:
    run = make(name)
    entries = entries_of(run)
    timed = entries[np.isin(entries["cause"], (log.RTO, log.SYN_RTO))]
    ports = sorted({int(port) for port in read_capture(run.capture("S")).packets["sport"]} - {5001})
    told = last_samples(run)
    found = [
        int(np.sum((timed["sport"] == port) & (timed["time_ns"] <= until)))
        for port, (until, _) in zip(ports, told, strict=True)
    ]
    assert found == [total for _, total in told]


@pytest.mark.parametrize("name", SENDERS)
def test_every_event_of_the_capture_is_in_the_list_and_every_timeout_is_one(
    make: Callable[..., RunFiles], name: str
) -> None:
    run = make(name)
    probes = name in ("modern", "bbr")
    analysis = analyse(run.capture("S"), options=KNOWN.get(name, Options(probes=probes)))
    found = compare(analysis, entries_of(run))
    assert found.elsewhere == 0
    assert found.confusion[NO_ENTRY].sum() == 0
    assert found.confusion[NO_ENTRY, [RTO, SYN_RTO]].sum() == 0
    if not probes:
        assert found.flow_errors.tolist() == [0] * 8
        assert found.share_right > 0.99


@pytest.mark.parametrize("name", SENDERS)
def test_run_is_the_same_without_the_list(make: Callable[..., RunFiles], name: str) -> None:
    kernel = uml_kernel.find(recipe=recipe.load(variant="unlogged"))
    if kernel is None:
        pytest.skip("not built: `tcpf-lab kernel build --variant unlogged`")
    with_it, without = make(name), make(name, bed=UmlTestbed(kernel))
    assert log.read_logs(without) == {}
    assert data(with_it) == data(without)


def data(run: RunFiles) -> dict[str, bytes]:
    """Give everything that was measured, the list itself left out."""
    paths = [*run.pcap.iterdir(), *run.stats.iterdir(), run.metrics, run.series]
    return {p.name: p.read_bytes() for p in paths if not p.name.startswith("retransmissions-")}
