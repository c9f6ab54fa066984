"""Checks that only real time needs: whether clocks agree, and whether everything began on time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tcpf_lab.metrics.clock import EPOCH_FILE
from tcpf_lab.metrics.evidence import stats_json
from tcpf_lab.metrics.in_force import Finding, verdict
from tcpf_lab.metrics.record import Record
from tcpf_lab.results import RunFiles

#: A node's clock must be known this well throughout: 0.03 % of a window of a minute.  Delays are
#: differences of one clock and do not depend on it.
CLOCK_TOLERANCE_NS = 20_000_000
#: An exchange with a node during the run may be so far off the straight line, beyond what its own
#: round trip and the line's ends leave open.  A clock left to itself bends by microseconds in the
#: minutes of a run; one that is slewed by 500 ppm comes so far in 10 s.
STRAY_TOLERANCE_NS = 5_000_000
#: A clock that strays more is being set: Linux corrects rates by 500 parts in a million at most.
DRIFT_TOLERANCE_PPM = 500.0
#: Programs may start, and samples be read, this late; start times are spread over seconds.
LATENESS_TOLERANCE_S = 0.25
_VIRTUAL: Finding = (None, "virtual time: one clock, and it waits for everything")


def clocks_agree(files: RunFiles, run: Record) -> Finding:
    """The clocks must be known well enough, and have run straight between the measurements.

    ``stats/clock.json`` has the two measurements and, between them, single exchanges every few
    seconds: a clock that was slewed or set there and back is found by those only.
    """
    if not run.real_time:
        return _VIRTUAL
    nodes = stats_json(files, EPOCH_FILE).get("nodes") or {}
    measured = stats_json(files, "clock.json")
    if not nodes:
        return False, f"stats/{EPOCH_FILE} has no clock of any node"
    problems = []
    for node, clock in nodes.items():
        strayed = _strayed_ns(clock, measured.get(node, ()), run.epoch_ns)
        problems += [f"{node}: {text}" for text in _clock_problems(clock, strayed)]
    worst = max(int(clock["uncertainty_ns"]) for clock in nodes.values())
    fastest = max(abs(float(clock["drift_ppm"])) for clock in nodes.values())
    good = f"{len(nodes)} clocks, known to {worst / 1e6:.2f} ms, drift up to {fastest:.1f} ppm"
    return verdict(problems, good)


def _strayed_ns(
    clock: Mapping[str, Any], measured: Iterable[Mapping[str, Any]], epoch_ns: int
) -> float | None:
    """How far measured offsets are from the straight line, beyond what both leave open."""
    off = [
        abs(one["offset_ns"] - clock["offset_ns"] - 1e-6 * clock["drift_ppm"] * passed)
        - one["round_trip_ns"] / 2
        - clock["uncertainty_ns"]
        for one in measured
        for passed in (one["at_ns"] - epoch_ns,)
    ]
    return max(0.0, *off) if off else None


def _clock_problems(clock: Mapping[str, Any], strayed: float | None) -> Iterator[str]:
    """Yield what is wrong with a node's clock."""
    most = f"at most {CLOCK_TOLERANCE_NS / 1e6:g} ms"
    if clock["uncertainty_ns"] > CLOCK_TOLERANCE_NS:
        yield f"known to {clock['uncertainty_ns'] / 1e6:.1f} ms only, {most} are taken"
    if abs(clock["drift_ppm"]) > DRIFT_TOLERANCE_PPM:
        yield f"drifts by {clock['drift_ppm']:.0f} ppm, at most {DRIFT_TOLERANCE_PPM:g} are taken"
    if strayed is None:
        yield "stats/clock.json has no measurement of it"
    elif strayed > STRAY_TOLERANCE_NS:
        allowed = f"at most {STRAY_TOLERANCE_NS / 1e6:g} ms are taken"
        yield f"{strayed / 1e6:.1f} ms off a steady drift, {allowed}"


def started_on_time(files: RunFiles, run: Record) -> Finding:
    """Programs must have started, and samples have been read, when the plan says."""
    if not run.real_time:
        return _VIRTUAL
    late = {str(name): float(s) for name, s in stats_json(files, "lateness.json").items()}
    late |= _samples_late(run)
    problems = [
        f"{name}: {seconds:.3f} s late"
        for name, seconds in sorted(late.items(), key=lambda item: -abs(item[1]))
        if abs(seconds) > LATENESS_TOLERANCE_S
    ]
    more = f"; {len(problems) - 3} more of {len(late)}" if len(problems) > 3 else ""
    told = "; ".join(problems[:3]) + f"{more}; at most {LATENESS_TOLERANCE_S:g} s are taken"
    if problems:
        return False, told
    worst = max(late.values(), default=0.0)
    return True, f"{len(late)} instants, at most {1e3 * worst:.1f} ms late"


def _samples_late(run: Record) -> dict[str, float]:
    """The latest reading of TCP_INFO at either end of the window, s."""
    found = {}
    for label, wanted in zip(("start", "end"), run.window_ns, strict=True):
        late = [run.epoch_ns + int(row["time_ns"]) - wanted for row in run.samples.get(label, ())]
        if late:
            found[f"TCP_INFO at the window's {label}"] = max(late, key=abs) / 1e9
    return found
