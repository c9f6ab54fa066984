"""The kernel's list of retransmissions on real guests, and the two recoveries without SACK."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from expected_counters import expected_counters
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log as log
from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.metrics.record import kernel_counters
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.model import Experiment
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.trace.analysis import FAST, PARTIAL_ACK, RTO, SYN_RTO, Options, analyse
from tcpf_lab.trace.packet import ACK, SYN, read_capture
from tools.accuracy.agreement import NO_ENTRY, compare

pytestmark = [pytest.mark.uml, pytest.mark.full]

#: Several losses in a window are common behind tail drop; every packet is acknowledged.
LOSSY = (
    *("tcp.sack=false", "tcp.quickack=true", "matrix.flows=[8]", "traffic.duration=20 s"),
    "cases.NoMark+RED={queue: {kind: bfifo, limit: 30 kB}}",
)
RENO = "tcp.recovery=reno"


@dataclass
class Flow:
    """One flow as its sender sees it, in bytes from its first."""

    isn: int
    una: int = 0
    dups: int = 0  #: duplicates of the last ACK
    sent: int = 0
    timed_out_at: int = 0  #: what was outstanding at a timeout ended here

    def relative(self, number: Any) -> int:
        return (int(number) - self.isn) & 0xFFFFFFFF

    @property
    def after_timeout(self) -> bool:
        """Whether the recovery from a timeout is still under way, which both have alike."""
        return self.una <= self.timed_out_at


@dataclass
class Story:
    """What a run's sender did on duplicates, all flows together."""

    limited_transmits: int = 0  #: new data on the first or second duplicate
    duplicates: list[int] = field(default_factory=list)  #: at each fast retransmission
    within_a_window: int = 0  #: fast retransmissions of what was outstanding at the one before
    early: int = 0  #: retransmissions in a recovery on fewer than three duplicates


@pytest.fixture
def make(
    guest_run: Callable[..., RunFiles], recorded_experiment: Experiment
) -> Callable[..., RunFiles]:
    """Return a function that gives the files of a run with more settings."""
    return lambda *settings: guest_run(
        recorded_experiment, *LOSSY, *settings, case="NoMark+RED", seed="1"
    )


def entries_of(run: RunFiles) -> NDArray[Any]:
    found = log.read_logs(run)["S"]
    assert found.missing == 0
    assert found.entries.size > 0
    return found.entries


def causes(run: RunFiles) -> Counter[int]:
    return Counter(int(cause) for cause in entries_of(run)["cause"])


def packets_of(run: RunFiles) -> Iterator[tuple[Flow, Any]]:
    """Yield the packets of the sender's capture with their flows, SYNs left out."""
    flows: dict[int, Flow] = {}
    for p in read_capture(run.capture("S")).packets:
        port = int(p["sport"] if p["dport"] == 5001 else p["dport"])
        if not p["flags"] & SYN:
            yield flows[port], p
        elif p["dport"] == 5001:
            flows.setdefault(port, Flow(int(p["seq"]) + 1))


def story(run: RunFiles) -> Story:
    """Follow every flow of a run, with the kernel's word on what each retransmission is due to."""
    told: defaultdict[tuple[int, int], deque[Any]] = defaultdict(deque)
    for entry in entries_of(run):
        told[int(entry["sport"]), int(entry["seq"])].append(entry)
    made, outstanding = Story(), dict[int, int]()
    for flow, p in packets_of(run):
        if p["sport"] == 5001:
            ack = flow.relative(p["ack"])
            flow.dups = flow.dups + 1 if ack == flow.una else 0
            flow.una = ack
            continue
        if p["payload"] == 0:
            continue
        start = flow.relative(p["seq"])
        if start >= flow.sent:
            flow.sent = start + int(p["payload"])
            made.limited_transmits += flow.dups in (1, 2) and not flow.after_timeout
            continue
        entry = told[int(p["sport"]), int(p["seq"])].popleft()
        if entry["cause"] == log.RTO:
            flow.timed_out_at = flow.relative(entry["nxt"])
        elif entry["cause"] == log.FAST:
            made.duplicates.append(flow.dups)
            made.within_a_window += start < outstanding.get(int(p["sport"]), 0)
            outstanding[int(p["sport"])] = flow.relative(entry["nxt"])
        elif entry["cause"] == log.RECOVERY:
            made.early += flow.dups < 3
    return made


def test_classic_reno_leaves_recovery_at_the_first_partial_acknowledgement(
    make: Callable[..., RunFiles],
) -> None:
    reno, newreno = make(RENO), make()
    assert causes(reno)[log.RECOVERY] == 0
    assert causes(newreno)[log.RECOVERY] > 20
    assert causes(reno)[log.FAST] > 20
    classic, other = story(reno), story(newreno)
    # The second hole of a window: three duplicates of its own, never a partial ACK.
    assert min(classic.duplicates) >= 3
    assert classic.within_a_window > 0
    assert other.within_a_window == 0
    assert other.early > 20


def test_classic_reno_sends_nothing_new_on_the_first_two_duplicates(
    make: Callable[..., RunFiles],
) -> None:
    assert story(make(RENO)).limited_transmits == 0
    assert story(make()).limited_transmits > 20


def test_the_switch_is_in_force_and_the_analysis_follows_it(make: Callable[..., RunFiles]) -> None:
    run = make(RENO, "tcp.mss=496 B")
    validity = read_json(run.metrics)["validity"]
    assert (validity["valid"], validity["reasons"]) == (True, [])
    assert "net.ipv4.tcp_reno_recovery = 1" in (run.stats / "sysctl-S.txt").read_text()
    record = read_captured(run)
    kinds = record.recovery.kind
    assert np.sum(kinds == PARTIAL_ACK) == 0
    assert np.sum(kinds == FAST) == pytest.approx(causes(run)[log.FAST], rel=0.02)
    payload = record.captures["sender"].packets["payload"]
    assert payload.max() == 496


def test_explicit_newreno_is_the_kernels_own(make: Callable[..., RunFiles]) -> None:
    plain, named = make(), make("tcp.recovery=newreno")
    assert plain.capture("S").read_bytes() == named.capture("S").read_bytes()


# The kernel's list of retransmissions, in guests: complete, true, and without effect on a run.

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
def sender(
    guest_run: Callable[..., RunFiles], recorded_experiment: Experiment
) -> Callable[..., RunFiles]:
    """Return a function that gives the files of a sender's run."""

    def made(name: str, **bed: UmlTestbed) -> RunFiles:
        return guest_run(recorded_experiment, *BUSY, *SENDERS[name], **bed, seed="1")

    return made


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
    sender: Callable[..., RunFiles], name: str
) -> None:
    run = sender(name)
    entries = entries_of(run)
    packets = log.as_packets(entries)
    # What the device's queue dropped is in the list and not in the capture, and may be sent again.
    listed = [(int(p["sport"]), int(p["seq"])) for p in packets if p["cause"] not in (log.TLP_NEW,)]
    assert Counter(listed) == Counter(sent_again(run))
    told = kernel_counters(run, "S", "TcpExt")
    assert {key: told[key] for key in expected_counters(entries)} == expected_counters(entries)


@pytest.mark.parametrize("name", SENDERS)
def test_expiries_of_each_flow_are_those_of_its_socket(
    sender: Callable[..., RunFiles], name: str
) -> None:
    run = sender(name)
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
    sender: Callable[..., RunFiles], name: str
) -> None:
    run = sender(name)
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
def test_run_is_the_same_without_the_list(sender: Callable[..., RunFiles], name: str) -> None:
    kernel = uml_kernel.find(recipe=recipe.load(variant="unlogged"))
    if kernel is None:
        pytest.skip("not built: `tcpf-lab kernel build --variant unlogged`")
    with_it, without = (
        sender(name),
        sender(name, bed=UmlTestbed(kernel)),
    )
    assert log.read_logs(without) == {}
    assert data(with_it) == data(without)


def data(run: RunFiles) -> dict[str, bytes]:
    """Give everything that was measured, the list itself left out."""
    paths = [*run.pcap.iterdir(), *run.stats.iterdir(), run.metrics, run.series]
    return {p.name: p.read_bytes() for p in paths if not p.name.startswith("retransmissions-")}
