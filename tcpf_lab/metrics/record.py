"""Everything a run left behind, read once."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.errors import TraceError
from tcpf_lab.metrics.clock import Clocks, read_clocks
from tcpf_lab.results import FORMAT, RunFiles, read_json
from tcpf_lab.spec.tcp import RENO_SYSCTL
from tcpf_lab.trace.bottleneck import MAX_DELAY_NS, Crossing, cross
from tcpf_lab.trace.flow import Flows, find_flows
from tcpf_lab.trace.pcap import Capture, read_capture
from tcpf_lab.trace.recovery import RTO_MIN_NS, Recovery, classify

#: What of the manifest, and of its ``expect``, every metric needs.
_NEEDED = ("flows", "window_s", "expect", "captures", "bottleneck", "port", "qdisc")
#: A queue may hold a packet a little longer than its limit and rate say.
_MARGIN_NS = 100_000_000
#: Where packets overtake each other, a few of one flow may wait as long as the others keep coming.
_OVERTAKEN_NS = 60_000_000_000
#: A machine with a clock of its own may stand still, with packets in its queues; virtual ones wait.
_STALL_NS = 10_000_000_000


@dataclass(frozen=True)
class Record:
    """One run, ready for the metrics.

    Attributes
    ----------
    manifest : dict
        ``manifest.json``.
    expect : dict
        Its ``expect``: what the plan asked for.
    epoch_ns : int
        Instant that all times of the run count from; they are all by the run's clock.
    window_ns : (int, int)
        The measured window.
    captures : dict of str to Capture
        By role: ``sender``, ``ingress``, ``egress``.
    flows, recovery : Flows, Recovery
        Of the capture at the sender.
    row : int64, shape (n,)
        For each flow of the plan its row in `flows`, -1 if none was captured.
    crossing : Crossing
        The bottleneck.
    max_delay_ns : int
        Longest stay in the bottleneck's queue while the machine does not stand still.
    samples : dict of str to list
        TCP_INFO by label (``start``, ``end``), one dict per flow; empty without the native senders.
    """

    manifest: dict[str, Any]
    expect: dict[str, Any]
    epoch_ns: int
    window_ns: tuple[int, int]
    captures: dict[str, Capture]
    flows: Flows
    recovery: Recovery
    row: NDArray[np.int64]
    crossing: Crossing
    max_delay_ns: int
    samples: dict[str, list[dict[str, Any]]]

    @property
    def count(self) -> int:
        """Number of flows of the plan."""
        return int(self.row.size)

    @property
    def real_time(self) -> bool:
        """Whether the nodes had clocks and processors of their own; virtual time waits for all."""
        return _real_time(self.manifest)

    @property
    def rto_min_ns(self) -> int:
        """Least variance term of the senders' timer."""
        return _rto_min_ns(self.expect)

    @property
    def probes(self) -> bool:
        """Whether the senders send tail loss probes."""
        return _probes(self.expect)

    def instant(self, flow: int, label: str) -> int:
        """When a flow's window starts or ends: when its TCP_INFO was read, if it was."""
        rows = self.samples.get(label, [])
        if rows:
            return self.epoch_ns + int(rows[flow]["time_ns"])
        return self.window_ns[0 if label == "start" else 1]


def read_record(files: RunFiles) -> Record:
    """Read the manifest, the counters and the captures of a run.

    Raises
    ------
    TraceError
        If a capture or a record cannot be read, or the manifest is not one of this format.
    RequestError
        If the manifest is missing.
    """
    manifest = _manifest(files)
    expect = manifest["expect"]
    clocks = read_clocks(files)
    start, end = (clocks.epoch_ns + round(1e9 * at) for at in manifest["window_s"])
    captures = {
        role: _capture(files, expect["captures"][role], clocks)
        for role in ("sender", "ingress", "egress")
    }
    packets = captures["sender"].packets
    flows = find_flows(packets)
    delay = max_delay_ns(expect)
    overtaken = 0 if expect["qdisc"].get("in_order", True) else _OVERTAKEN_NS
    stay = delay + overtaken + (_STALL_NS if _real_time(manifest) else 0)
    return Record(
        manifest=manifest,
        expect=expect,
        epoch_ns=clocks.epoch_ns,
        window_ns=(start, end),
        captures=captures,
        flows=flows,
        recovery=classify(
            packets,
            flows,
            rto_min_ns=_rto_min_ns(expect),
            probes=_probes(expect),
            classic=_classic(expect),
        ),
        row=_rows(flows, packets, expect, int(manifest["flows"])),
        crossing=cross(captures["ingress"].packets, captures["egress"].packets, max_delay_ns=stay),
        max_delay_ns=delay,
        samples=read_samples(files, int(manifest["flows"]), clocks),
    )


def _manifest(files: RunFiles) -> dict[str, Any]:
    """Read the manifest; refuse one that lacks what the analysis cannot do without."""
    content = read_json(files.manifest)
    manifest: dict[str, Any] = content if isinstance(content, dict) else {}
    if manifest.get("format") != FORMAT:
        raise TraceError(
            f"not a manifest of format {FORMAT}: format is {manifest.get('format')!r}",
            where=str(files.manifest),
            hint="repeat the run, or analyse it with the version that made it",
        )
    expect = manifest.get("expect")
    present = {*manifest, *(expect if isinstance(expect, dict) else ())}
    missing = [name for name in _NEEDED if name not in present]
    if missing:
        raise TraceError(f"the manifest lacks {', '.join(missing)}", where=str(files.manifest))
    return manifest


def _real_time(manifest: dict[str, Any]) -> bool:
    return bool(manifest.get("clock") == "real")


def max_delay_ns(expect: dict[str, Any]) -> int:
    """Longest stay in the bottleneck's queue: its limit in bytes at its rate, and a margin.

    Half a second at least, and where the queue shows no limit.
    """
    limit = expect["qdisc"].get("options", {}).get("limit")
    if limit is None:
        return MAX_DELAY_NS
    drain = 8e9 * float(limit) / float(expect["bottleneck"]["rate_bits_per_s"])
    return max(MAX_DELAY_NS, round(drain) + _MARGIN_NS)


def read_samples(files: RunFiles, flows: int, clocks: Clocks) -> dict[str, list[dict[str, Any]]]:
    """Read the senders' TCP_INFO, its times by the run's clock.

    Returns
    -------
    dict of str to list
        By label, in the order of the flows; empty if the run has no ``senders-<node>.jsonl``.

    Raises
    ------
    TraceError
        If a line is damaged or a flow is missing.
    """
    paths = sorted(files.stats.glob("senders-*.jsonl"))
    found: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        for row in _json_lines(path):
            if row.get("event") == "sample":
                node = path.stem.partition("-")[2]
                found.setdefault(row["sample"], []).append(clocks.sampled(row, node))
    for label in ("start", "end") if paths else ():
        rows = sorted(found.get(label, []), key=lambda row: int(row["flow"]))
        if [row["flow"] for row in rows] != list(range(flows)):
            raise TraceError(
                f"sample '{label}' has {len(rows)} flows, the plan has {flows}",
                where=str(files.stats),
            )
        found[label] = rows
    return found


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            raise TraceError("not a JSON object", where=f"{path}:{number}")
        yield row


def _capture(files: RunFiles, point: str, clocks: Clocks) -> Capture:
    """Read a capture, its times by the run's clock; a truncated one is taken, the verdict says so.

    ``R1-in`` was taken on ``R1``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        capture = read_capture(files.capture(point), accept_truncated=True)
    return clocks.shifted(capture, point.partition("-")[0])


def _probes(expect: dict[str, Any]) -> bool:
    """Whether the senders send tail loss probes: Linux does with SACK, unless told otherwise."""
    needed = ("net.ipv4.tcp_early_retrans", "net.ipv4.tcp_sack")
    settings = (expect.get("sysctl") or {}).values()
    return not any(str(values.get(name)) == "0" for values in settings for name in needed)


def _classic(expect: dict[str, Any]) -> bool:
    """Whether the senders recover as the Reno of 1990 did."""
    settings = (expect.get("sysctl") or {}).values()
    return any(str(values.get(RENO_SYSCTL)) == "1" for values in settings)


def _rto_min_ns(expect: dict[str, Any]) -> int:
    """The senders' least variance term: their routes', the kernel's where a route has none."""
    asked = {metrics.get("rto_min") for metrics in (expect.get("routes") or {}).values()}
    given = [milliseconds for milliseconds in asked if milliseconds is not None]
    return 1_000_000 * int(given[0]) if given else RTO_MIN_NS


def _rows(flows: Flows, packets: Any, expect: dict[str, Any], count: int) -> NDArray[np.int64]:
    """Find the plan's flows in the capture.

    By source port where the plan fixes it; else the `count` connections to the port that carried
    most, in the order of their source ports (programs like iperf3 have a control connection too).
    """
    row = np.full(count, -1, np.int64)
    first = expect.get("source_port")
    if first is not None:
        for k in np.flatnonzero((flows.sport >= first) & (flows.sport < first + count)):
            row[int(flows.sport[k]) - int(first)] = k
        return row
    towards = np.flatnonzero(flows.dport == int(expect["port"]))
    carried = [int(np.sum(packets["payload"][flows.split(int(k))[0]])) for k in towards]
    chosen = towards[np.argsort(carried, kind="stable")[::-1][:count]]
    chosen = chosen[np.argsort(flows.sport[chosen], kind="stable")]
    row[: chosen.size] = chosen
    return row
