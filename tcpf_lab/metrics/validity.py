"""Whether a run measured what it was meant to measure.

Each check reads what the testbed wrote down and compares it with the plan.  A file that is missing
is a check that failed, with its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tcpf_lab.metrics.record import Record
from tcpf_lab.results import RunFiles
from tcpf_lab.trace.bottleneck import backlogged_rate
from tcpf_lab.trace.recovery import UNKNOWN

#: Departures of a backlogged queue may be this far from the configured rate.
RATE_TOLERANCE = 0.01
#: At most this share of retransmissions may remain unexplained.
UNKNOWN_TOLERANCE = 0.01
#: tc prints probabilities from 32-bit fractions.
_OPTION_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Check:
    """One check: ``ok`` is None if it does not apply to the run; ``detail`` says why."""

    name: str
    ok: bool | None
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """Give it as ``metrics.json`` holds it."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


class _UnreadableError(Exception):
    """A file that a check needs is missing or damaged."""


def _json(files: RunFiles, name: str) -> Any:
    path = files.stats / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _UnreadableError(f"stats/{name} is missing") from None
    except ValueError as error:
        raise _UnreadableError(f"stats/{name} is not JSON: {error}") from None


def _text(files: RunFiles, directory: Path, name: str) -> str:
    path = directory / name
    if not path.exists():
        raise _UnreadableError(f"{path.relative_to(files.root)} is missing")
    return path.read_text(encoding="utf-8", errors="replace")


def _verdict(problems: list[str], good: str) -> tuple[bool, str]:
    return not problems, "; ".join(problems) or good


def _offloads_off(files: RunFiles, run: Record) -> tuple[bool | None, str]:
    """No device may join or split segments."""
    wanted = run.expect["offloads_off"]
    problems = []
    for device in wanted["devices"]:
        lines = _text(files, files.stats, f"offload-{device}.txt").splitlines()
        states = {key.strip(): value.split() for key, _, value in (x.partition(":") for x in lines)}
        problems += [
            f"{device}: {feature} is {' '.join(state) or 'not reported'}"
            for feature in wanted["features"]
            if (state := states.get(feature, []))[:1] != ["off"]
        ]
    return _verdict(
        problems, f"{len(wanted['features'])} features, {len(wanted['devices'])} devices"
    )


def _differs(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or not isinstance(wanted, (int, float)):
        return bool(value != wanted)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return True
    return abs(value - wanted) > _OPTION_TOLERANCE * abs(wanted)


def _qdisc_in_force(files: RunFiles, run: Record) -> tuple[bool | None, str]:
    """The kernel must report the queue that was asked for."""
    wanted = run.expect["qdisc"]
    device, kind = wanted["device"], wanted["kind"]
    found = [q for q in _qdiscs(files, device) if q["kind"] == kind]
    if not found:
        return False, f"{device} has no {kind}"
    options = found[0].get("options", {})
    problems = [
        f"{device}: {kind} {key} is {options.get(key, 'not reported')}, asked for {value}"
        for key, value in wanted.get("options", {}).items()
        if _differs(options.get(key), value)
    ]
    return _verdict(problems, f"{kind} on {device} with {len(wanted.get('options', {}))} options")


def _sysctls_in_force(files: RunFiles, run: Record) -> tuple[bool | None, str]:
    """Every setting of the TCP profile must be read back."""
    problems, checked = [], 0
    for node, settings in run.expect["sysctl"].items():
        lines = _text(files, files.stats, f"sysctl-{node}.txt").splitlines()
        pairs = (line.partition("=") for line in lines if "=" in line)
        found = {key.strip(): " ".join(value.split()) for key, _, value in pairs}
        for key, value in settings.items():
            checked += 1
            if found.get(key) != " ".join(str(value).split()):
                problems.append(f"{node}: {key} is {found.get(key, 'not reported')}, not {value}")
    return _verdict(problems, f"{checked} settings")


def _captures_complete(files: RunFiles, run: Record) -> tuple[bool | None, str]:
    """Tcpdump must have kept up, and its files must be whole."""
    problems, total = [], 0
    for role, point in run.expect["captures"].items():
        name = f"tcpdump-{point}.log"
        text = _text(files, files.log, name)
        dropped = re.search(r"(\d+) packets? dropped by kernel", text)
        captured = re.search(r"(\d+) packets? captured", text)
        capture = run.captures[role]
        total += capture.records
        if not dropped or not captured:
            problems.append(f"log/{name} has no summary: tcpdump did not end by itself")
        elif int(dropped[1]):
            problems.append(f"{point}: the kernel dropped {dropped[1]} packets")
        elif int(captured[1]) != capture.records:
            problems.append(f"{point}: {captured[1]} captured, {capture.records} in the file")
        if capture.truncated:
            problems.append(f"{point}: {capture.truncated}")
    return _verdict(problems, f"{total} packets, none dropped")


def _link_drops(files: RunFiles, device: str) -> int:
    """Packets that the interface dropped or found damaged, both directions (/proc/net/dev)."""
    name = f"dev-{device.partition('-')[0]}.txt"
    for line in _text(files, files.stats, name).splitlines():
        found, _, counters = line.partition(":")
        if found.strip() == device:
            fields = [int(field) for field in counters.split()]
            return sum(fields[at] for at in (2, 3, 10, 11))
    raise _UnreadableError(f"stats/{name} does not describe {device}")


def _root_drops(files: RunFiles, device: str) -> int:
    """Drops of the device's root qdisc, which counts those of its child too."""
    roots = [q for q in _qdiscs(files, device) if q.get("root")]
    if not roots:
        raise _UnreadableError(f"no root qdisc of {device} in stats/qdisc-*.json")
    return int(roots[0]["drops"])


def _qdiscs(files: RunFiles, device: str) -> list[dict[str, Any]]:
    """Queues of a device, as its node reported them; ``R1-R2`` is an interface of ``R1``."""
    node = device.partition("-")[0]
    return [q for q in _json(files, f"qdisc-{node}.json") if q.get("dev") == device]


def _no_unplanned_loss(files: RunFiles, run: Record) -> tuple[bool | None, str]:
    """Only the bottleneck may lose packets."""
    problems = []
    for device in run.expect["lossless_devices"]:
        queue, link = _root_drops(files, device), _link_drops(files, device)
        if queue or link:
            problems.append(f"{device}: {queue} dropped by its queue, {link} by its interface")
    return _verdict(problems, f"{len(run.expect['lossless_devices'])} devices, no drops")


def _loss_matches_qdisc(files: RunFiles, run: Record) -> tuple[bool | None, str]:
    """Over the whole run the captures must miss exactly what the queue says it dropped."""
    dropped = _root_drops(files, run.expect["bottleneck"]["device"])
    lost = int(np.sum(run.crossing.lost))
    detail = f"captures {lost}, qdisc {dropped}, left without entering {run.crossing.unmatched}"
    return lost == dropped and run.crossing.unmatched == 0, detail


def _bottleneck_rate(_: RunFiles, run: Record) -> tuple[bool | None, str]:
    """While packets wait they must leave at the configured rate."""
    wanted = float(run.expect["bottleneck"]["rate_bits_per_s"])
    measured = backlogged_rate(run.crossing)
    if measured is None:
        return None, "the bottleneck was never backlogged"
    rate, packets = measured
    error = rate / wanted - 1
    detail = f"{rate:.0f} bit/s over {packets} packets, configured {wanted:.0f} ({error:+.3%})"
    return abs(error) <= RATE_TOLERANCE, detail


def _all_connected(_: RunFiles, run: Record) -> tuple[bool | None, str]:
    """Every flow of the plan must have come up."""
    if run.samples:
        missing = [row["flow"] for row in run.samples["end"] if not row["connected"]]
    else:
        missing = [flow for flow in range(run.count) if run.row[flow] < 0]
    if missing:
        names = ", ".join(str(flow) for flow in missing[:10])
        return False, f"{len(missing)} of {run.count} flows never connected: {names}"
    return True, f"{run.count} flows"


def acked_by_kernel(sample: dict[str, Any]) -> int:
    """Payload bytes acknowledged according to TCP_INFO, which counts the SYN as a byte."""
    return max(int(sample.get("bytes_acked", 0)) - 1, 0)


def _goodput_matches(_: RunFiles, run: Record, gained: list[int]) -> tuple[bool | None, str]:
    """Acknowledged payload by capture and by TCP_INFO must agree for each flow."""
    if not run.samples:
        return None, f"generator {run.expect.get('generator')} gives no TCP_INFO"
    kernel = [
        acked_by_kernel(end) - acked_by_kernel(start)
        for start, end in zip(run.samples["start"], run.samples["end"], strict=True)
    ]
    wrong = [(f, a, b) for f, (a, b) in enumerate(zip(gained, kernel, strict=True)) if a != b]
    if wrong:
        flow, seen, told = wrong[0]
        return False, f"{len(wrong)} flows differ; flow {flow}: capture {seen}, TCP_INFO {told}"
    return True, f"{run.count} flows, {sum(gained)} bytes"


def _retransmissions_explained(_: RunFiles, run: Record) -> tuple[bool | None, str]:
    """The classifier must know why packets were sent again."""
    total = int(np.sum(run.recovery.kind > 0))
    unknown = int(np.sum(run.recovery.kind == UNKNOWN))
    return unknown <= UNKNOWN_TOLERANCE * total, f"{unknown} of {total} unexplained"


def check_run(files: RunFiles, run: Record, gained: list[int]) -> list[Check]:
    """Apply every check to a run.

    Parameters
    ----------
    files : RunFiles
        Its directory.
    run : Record
        What was read from it.
    gained : list of int
        Payload bytes acknowledged within the window according to the capture, per flow.

    Returns
    -------
    list of Check
        In a fixed order; the run is valid if none has ``ok`` False.
    """
    tests: dict[str, Callable[[RunFiles, Record], tuple[bool | None, str]]] = {
        "offloads_off": _offloads_off,
        "qdisc_in_force": _qdisc_in_force,
        "sysctls_in_force": _sysctls_in_force,
        "captures_complete": _captures_complete,
        "no_unplanned_loss": _no_unplanned_loss,
        "loss_matches_qdisc": _loss_matches_qdisc,
        "bottleneck_rate": _bottleneck_rate,
        "all_connected": _all_connected,
        "goodput_matches_tcp_info": lambda f, r: _goodput_matches(f, r, gained),
        "retransmissions_explained": _retransmissions_explained,
    }
    return [_apply(name, test, files, run) for name, test in tests.items()]


def _apply(
    name: str,
    test: Callable[[RunFiles, Record], tuple[bool | None, str]],
    files: RunFiles,
    run: Record,
) -> Check:
    try:
        ok, detail = test(files, run)
    except _UnreadableError as error:
        return Check(name, False, str(error))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        return Check(name, False, f"unexpected content: {type(error).__name__} {error}")
    return Check(name, ok, detail)
