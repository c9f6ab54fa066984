"""One scenario: the capture analysis against counters and log of the senders' kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.metrics import retransmission_log
from tcpf_lab.metrics.retransmission_log import CAUSES, ENTRY
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.trace.analysis import (
    KINDS,
    RETRANSMISSIONS,
    RTO,
    SYN_RTO,
    UNKNOWN,
    Analysis,
    Options,
    analyse,
)
from tools.accuracy import agreement, spurious
from tools.accuracy.agreement import Agreement
from tools.accuracy.scenario import Scenario
from tools.accuracy.spurious import Spurious

#: Checks of a run for what the scenario requires of the testbed.  The others judge
#: the analysis, which is the subject here, or want every flow to come up, which loss may prevent.
NEEDED = (
    "offloads_off",
    "qdisc_in_force",
    "marker_in_force",
    "sysctls_in_force",
    "routes_in_force",
    "captures_complete",
    "no_unplanned_loss",
    "impairments_in_force",
)
#: Causes and kinds that are expiries of the retransmission timer.
_EXPIRIES = agreement.EXPIRIES
_TIMEOUTS = (RTO, SYN_RTO)


@dataclass(frozen=True)
class Difference:
    """A flow whose timeouts by the capture are not the kernel's."""

    flow: int
    capture: int
    kernel: int
    first: str  #: its first event that is a timeout for one side only; empty without the log


@dataclass(frozen=True)
class Outcome:
    """What a scenario showed.

    Attributes
    ----------
    seed : int
        The scenario's.
    settings : dict
        `Scenario.settings`.
    state : str
        ``compared``, ``unusable`` (the testbed did not do what the scenario requests, or the log or
        the capture has gaps) or ``failed``.
    reasons : tuple of str
        Why it is not ``compared``.
    flows, flows_exact, packets, retransmissions, unknown : int
        Flows of the scenario, those whose timeouts are exact; records in the sender's capture,
        retransmissions in it, and those that the analysis cannot explain.
    timeouts, timeouts_kernel : int
        SYN's and back-offs included.
    differences : tuple of Difference
        Flows that are not exact.
    confusion, right : dict
        Cause -> kind -> packets; the second only where the kind is what the cause calls for.  Empty
        if the kernel has no log.
    spurious : Spurious, optional
        Spurious retransmissions by the packets that passed the bottleneck, and the marks; None if
        data is lost behind it.
    """

    seed: int
    settings: dict[str, Any]
    state: str
    reasons: tuple[str, ...] = ()
    flows: int = 0
    flows_exact: int = 0
    packets: int = 0
    retransmissions: int = 0
    unknown: int = 0
    timeouts: int = 0
    timeouts_kernel: int = 0
    differences: tuple[Difference, ...] = ()
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    right: dict[str, dict[str, int]] = field(default_factory=dict)
    spurious: Spurious | None = None


def compare(files: RunFiles, scenario: Scenario) -> Outcome:
    """Compare a run's capture at the sender with the kernel's counters and log.

    The marks of spurious retransmissions are compared with the capture behind the bottleneck.

    Parameters
    ----------
    files : RunFiles
        A complete run of the scenario, its captures included.
    scenario : Scenario
        What was run.

    Raises
    ------
    LabError
        If something of the run is missing or damaged.
    """
    metrics = read_json(files.metrics)
    failed = [
        f"{check['name']}: {check['detail']}"
        for check in metrics["validity"]["checks"]
        if check["ok"] is False and check["name"] in NEEDED
    ]
    if failed:
        return Outcome(scenario.seed, scenario.settings(), "unusable", tuple(failed))
    found = analyse(files.capture("S"), options=_options(scenario))
    logs = retransmission_log.read_logs(files)
    entries = [each.entries for each in logs.values()]
    log = np.concatenate(entries) if entries else None
    against = None if log is None else agreement.compare(found, log)
    reason = _gap(sum(each.missing for each in logs.values()), against)
    if reason:
        return Outcome(scenario.seed, scenario.settings(), "unusable", (reason,))
    outcome = _outcome(scenario, metrics["per_flow"], found, log, against)
    if not spurious.known(outcome.settings["forward"]):
        return outcome
    judged = spurious.judge(found, files.capture("S"), files.capture("R1-out"))
    return replace(outcome, spurious=judged)


def _gap(lost: int, against: Agreement | None) -> str:
    """Say what the log, of which ``lost`` entries are missing, or the capture lacks; else empty."""
    if lost:
        return f"the kernel's log lacks {lost} entries"
    if against is not None and against.elsewhere:
        return f"the capture lacks flows with {against.elsewhere} entries of the kernel's log"
    return ""


def _options(scenario: Scenario) -> Options:
    """What the lab knows of its own senders."""
    tcp = scenario.experiment.tcp
    return Options(probes=tcp.sack and tcp.profile == "modern", at="sender")


def _outcome(
    scenario: Scenario,
    rows: list[dict[str, Any]],
    found: Analysis,
    entries: NDArray[Any] | None,
    against: Agreement | None,
) -> Outcome:
    if entries is None or against is None:
        timeouts = list(_by_counter(rows))
    else:
        timeouts = list(by_log(rows, found, against, entries))
    counts = found.flows["counts"].sum(axis=0)
    return Outcome(
        seed=scenario.seed,
        settings=scenario.settings(),
        state="compared",
        flows=len(rows),
        flows_exact=sum(each.capture == each.kernel for each in timeouts),
        packets=found.capture.records,
        retransmissions=int(counts[list(RETRANSMISSIONS)].sum()),
        unknown=int(counts[UNKNOWN]),
        timeouts=sum(each.capture for each in timeouts),
        timeouts_kernel=sum(each.kernel for each in timeouts),
        differences=tuple(each for each in timeouts if each.capture != each.kernel),
        confusion=agreement.confusion_table(against.confusion) if against else {},
        right=agreement.confusion_table(against.right) if against else {},
    )


def _by_counter(rows: list[dict[str, Any]]) -> Iterator[Difference]:
    """Timeouts of each flow by ``tcpi_total_rto``, which was read while the flows still ran."""
    for row in rows:
        seen = row["timeouts_whole_run"] + row["syn_timeouts"]
        yield Difference(row["flow"], seen, int(row["kernel"]["total_rto"]), "")


def by_log(
    rows: list[dict[str, Any]], found: Analysis, against: Agreement, entries: NDArray[Any]
) -> Iterator[Difference]:
    """Give the timeouts of each flow by the log, to the end of the capture.

    Parameters
    ----------
    rows : list of dict
        The run's flows: ``flow`` and ``source_port``.
    found : Analysis
        Of the capture.
    against : Agreement
        Of the same capture and the log.
    entries : array of ENTRY, shape (n,)
        The whole log, with flows that the capture lacks.

    Yields
    ------
    Difference
        For every flow, also where both agree.  Connections that used a port in turn are one flow.
    """
    for row in rows:
        port = int(row["source_port"])
        places = np.flatnonzero(found.flows["sport"] == port)
        seen = int(against.timeouts[places, 0].sum())
        mine = entries[entries["sport"] == port]
        logged = int(np.sum(np.isin(mine["cause"], _EXPIRIES)))
        apart = [at for at in places if against.flow_errors[at]] if seen != logged else []
        where = first_difference(found, against, int(apart[0])) if apart else ""
        yield Difference(int(row["flow"]), seen, logged, where)


def first_difference(found: Analysis, against: Agreement, flow: int) -> str:
    """Describe the first packet of a flow that is a timeout for one side only.

    Parameters
    ----------
    found : Analysis
        Of the capture.
    against : Agreement
        Of the same capture and the log.
    flow : int
        Row of the flow in ``found.flows``.

    Returns
    -------
    str
        Time, byte and both causes; empty if there is none.
    """
    packets, kinds = _both(found, against, flow)
    timed = np.isin(packets["cause"], _EXPIRIES), np.isin(kinds["kind"], _TIMEOUTS)
    there = packets["time_ns"] > 0, kinds["record"] >= 0
    differing = np.flatnonzero((timed[0] & there[0]) != (timed[1] & there[1]))
    if not differing.size:
        return ""
    time = np.where(there[0], packets["time_ns"], kinds["time_ns"])
    at = differing[np.argmin(time[differing])]
    isn = int(found.flows["isn"][flow])
    byte = int(kinds["start"][at]) if there[1][at] else (int(packets["seq"][at]) - isn) & 0xFFFFFFFF
    since = (int(time[at]) - found.first_ns) / 1e9
    cause = CAUSES[packets["cause"][at]] if there[0][at] else "not logged"
    seen = KINDS[kinds["kind"][at]] if there[1][at] else "no event"
    rule = f" (rule {kinds['rule'][at]})" if there[1][at] else ""
    record = f", record {kinds['record'][at]}" if there[1][at] else ""
    return f"at {since:.6f} s{record}, byte {byte}: kernel {cause}, capture {seen}{rule}"


def _of_connection(found: Analysis, packets: NDArray[Any], flow: int) -> NDArray[np.bool_]:
    """Entries of a flow: of its ends, from its begin to that of the next between the same ends."""
    flows, row = found.flows, found.flows[flow]
    same = np.full(packets.size, True)
    again = np.full(flows.size, True)
    for name in ("src", "dst", "sport", "dport"):
        wide = (1,) if flows[name].ndim > 1 else ()
        same &= (packets[name] == row[name]).all(axis=wide)
        again &= (flows[name] == row[name]).all(axis=wide)
    begins = np.sort(flows["first_ns"][again])
    place = np.searchsorted(begins, packets["time_ns"] + agreement.EARLY_NS, side="right") - 1
    mine: NDArray[np.bool_] = same & (begins[np.maximum(place, 0)] == row["first_ns"])
    return mine


def _both(found: Analysis, against: Agreement, flow: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The log's packets and the capture's events of a flow side by side.

    What one side lacks has ``time_ns`` 0 in the log, ``record`` -1 in the events.
    """
    mine = _of_connection(found, against.packets, flow)
    own = found.events["flow"] == flow
    left, right = against.pairs[:, 0], against.pairs[:, 1]
    pair = own[right] if right.size else np.zeros(0, bool)
    alone = mine & ~np.isin(np.arange(mine.size), left[pair])
    other = own & ~np.isin(np.arange(own.size), right)
    packets = np.concatenate(
        [against.packets[left[pair]], against.packets[alone], np.zeros(int(other.sum()), ENTRY)]
    )
    nothing = np.zeros(int(alone.sum()), found.events.dtype)
    nothing["record"] = -1
    events = np.concatenate([found.events[right[pair]], nothing, found.events[other]])
    return packets, events
