"""What every run left behind, read once, on one clock: with captures there is more (`captured`)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.results.layout import FORMAT, RunFiles, read_json
from tcpf_lab.spec.tcp import LINUX22_SYSCTL, RENO_SYSCTL
from tcpf_lab.trace.follow import RTO_MIN_NS
from tcpf_lab.trace.packet import Capture, Packets

EPOCH_FILE = "epoch.json"


@dataclass(frozen=True)
class Clock:
    """A node's clock.

    Attributes
    ----------
    epoch_ns : int
        The run's epoch on the run's clock.
    own_epoch_ns : int
        The same instant on the node's clock.
    drift : float
        What the node's clock gains, seconds per second of the run's clock.
    """

    epoch_ns: int
    own_epoch_ns: int
    drift: float

    def run_time(self, own_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        r"""Give instants of the node's clock on the run's clock.

        .. math:: t = e + (t_{own} - e_{own}) / (1 + d)

        Parameters
        ----------
        own_ns : int64, shape (n,)
            Nanoseconds since 1970, as the node has them.

        Returns
        -------
        int64, shape (n,)
            In the same order: a later instant never becomes an earlier one.

        Examples
        --------
        A clock that is 5 ns ahead and gains 100 parts in a million:

        >>> Clock(1000, 1005, 1e-4).run_time(np.array([1005, 20_003_005]))
        array([    1000, 20001000])
        """
        passed: NDArray[np.int64] = np.asarray(own_ns, np.int64) - self.own_epoch_ns
        # The correction alone is small enough for a float; the time itself is not.
        gained = np.rint(passed * (self.drift / (1 + self.drift))).astype(np.int64)
        result: NDArray[np.int64] = self.epoch_ns + passed - gained
        return result


@dataclass(frozen=True)
class Clocks:
    """All clocks of a run.

    Attributes
    ----------
    epoch_ns : int
        Instant that all times of the run count from.
    nodes : mapping of str to Clock
        Empty where every node has the run's clock.
    """

    epoch_ns: int
    nodes: Mapping[str, Clock]

    def of(self, node: str) -> Clock | None:
        """Give the clock of a node, None if it is the run's.

        Raises
        ------
        TraceError
            If the clocks of other nodes are known and this one's is not.
        """
        if not self.nodes:
            return None
        if node not in self.nodes:
            raise TraceError(
                f"the clock of {node} is not known, only those of {', '.join(self.nodes)}",
                where=f"stats/{EPOCH_FILE}",
                hint="repeat the run",
            )
        return self.nodes[node]

    def shifted(self, capture: Capture, node: str) -> Capture:
        """Give a capture that was taken on a node with the times of the run's clock, in order."""
        return replace(capture, packets=self.on_run_clock(capture.packets, node))

    def on_run_clock(self, packets: NDArray[Any], node: str) -> NDArray[Any]:
        """Give packets, or marks, of a node with the times of the run's clock, in order.

        Several processors of a host may hand packets over in another order than they were stamped.
        """
        clock = self.of(node)
        if clock is None:
            return packets
        packets = packets.copy()
        packets["time_ns"] = clock.run_time(packets["time_ns"])
        return in_order(packets)

    def sampled(self, row: dict[str, Any], node: str) -> dict[str, Any]:
        """Give a sample of a node's program, its ``time_ns`` after the epoch by the run's clock.

        The program counted from the epoch ``epoch_ns`` of the sample; the node's
        clock has been measured again since then.
        """
        clock = self.of(node)
        if clock is None:
            return row
        epoch = int(row.get("epoch_ns", clock.own_epoch_ns))
        at = clock.run_time(np.asarray([epoch + int(row["time_ns"])], np.int64))
        return {**row, "time_ns": int(at[0]) - self.epoch_ns}


def in_order(packets: Packets) -> Packets:
    """Give packets in the order of time; those of one instant stay as they are."""
    time = packets["time_ns"]
    return packets[np.argsort(time, kind="stable")] if np.any(np.diff(time) < 0) else packets


def read_clocks(files: RunFiles) -> Clocks:
    """Read ``stats/epoch.json``.

    Raises
    ------
    TraceError
        If it is missing, or is not what it should be.
    RequestError
        If it is not JSON.
    """
    path = files.stats / EPOCH_FILE
    if not path.exists():
        raise TraceError("missing: without it no time of the run is known", where=str(path))
    content = read_json(path)
    try:
        epoch = int(content["epoch_ns"])
        nodes = {
            str(node): Clock(epoch, int(found["epoch_ns"]), 1e-6 * float(found["drift_ppm"]))
            for node, found in (content.get("nodes") or {}).items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"not an agreed epoch: {type(error).__name__} {error}"
        raise TraceError(reason, where=str(path)) from None
    return Clocks(epoch, nodes)


#: What of the manifest, and of its ``expect``, every metric needs.
_NEEDED = ("flows", "window_s", "expect", "bottleneck", "port", "qdisc")


@dataclass(frozen=True)
class Record:
    """One run, ready for the metrics.

    Attributes
    ----------
    manifest : dict
        ``manifest.json``.
    expect : dict
        Its ``expect``: what the plan requests.
    clocks : Clocks
        Of the nodes; all times of the run count from their epoch, and are by the run's clock.
    window_ns : (int, int)
        The measured window.
    samples : dict of str to list
        TCP_INFO by label (``start``, ``end``), one dict per flow; empty without the native senders.
    cross_samples : dict of str to list
        The same of the cross traffic, whose flows have the numbers behind.
    """

    manifest: dict[str, Any]
    expect: dict[str, Any]
    clocks: Clocks
    window_ns: tuple[int, int]
    samples: dict[str, list[dict[str, Any]]]
    cross_samples: dict[str, list[dict[str, Any]]]

    @property
    def epoch_ns(self) -> int:
        """Instant that all times of the run count from."""
        return self.clocks.epoch_ns

    @property
    def window_s(self) -> tuple[float, float]:
        """The measured window, seconds after the epoch."""
        begin, end = self.window_ns
        return (begin - self.epoch_ns) / 1e9, (end - self.epoch_ns) / 1e9

    @property
    def count(self) -> int:
        """Number of flows of the plan."""
        return int(self.manifest["flows"])

    @property
    def was_captured(self) -> bool:
        """Whether the plan requests captures; they may have been deleted since."""
        return "captures" in self.expect

    @property
    def real_time(self) -> bool:
        """Whether the nodes had clocks and processors of their own; virtual time waits for all."""
        return bool(self.manifest.get("clock") == "real")

    @property
    def seconds(self) -> float:
        """Length of the measured window."""
        return (self.window_ns[1] - self.window_ns[0]) / 1e9

    @property
    def rto_min_ns(self) -> int:
        """Least variance term of the senders' timer: their routes', or else the kernel's."""
        requested = {
            metrics.get("rto_min") for metrics in (self.expect.get("routes") or {}).values()
        }
        given = [milliseconds for milliseconds in requested if milliseconds is not None]
        return 1_000_000 * int(given[0]) if given else RTO_MIN_NS

    @property
    def _sysctls(self) -> list[tuple[str, str]]:
        """Every setting of every end."""
        settings = (self.expect.get("sysctl") or {}).values()
        return [(name, str(value)) for values in settings for name, value in values.items()]

    @property
    def probes(self) -> bool:
        """Whether the senders send tail loss probes: with SACK, unless the plan disables them."""
        needed = ("net.ipv4.tcp_early_retrans", "net.ipv4.tcp_sack")
        return not any((name, "0") in self._sysctls for name in needed)

    @property
    def classic(self) -> bool:
        """Whether the senders recover as the Reno of 1990 did."""
        return (RENO_SYSCTL, "1") in self._sysctls

    @property
    def linux22(self) -> tuple[str, ...]:
        """What the senders' kernel does as Linux 2.2 did."""
        on = (name for name, value in self._sysctls if value == "1")
        switches = (name for name in on if name.startswith(LINUX22_SYSCTL))
        return tuple(dict.fromkeys(name.removeprefix(LINUX22_SYSCTL) for name in switches))

    def stop_ns(self, flow: int) -> int | None:
        """When a flow of a group that stops was reset; None for any other."""
        for group in self.expect.get("groups", ()):
            if group["first"] <= flow < group["first"] + group["flows"]:
                stop = group["stop_s"]
                return None if stop is None else self.at_sender(group, stop)
        return None

    def at_sender(self, group: Mapping[str, Any], seconds: float) -> int:
        """When the sender of a group does what is due so many seconds after the epoch.

        It goes by its own clock, and by the epoch that it was started with.
        """
        sample = self.samples["start"][group["first"]] if self.samples else {}
        due = {**sample, "time_ns": round(1e9 * seconds)}
        return self.epoch_ns + int(self.clocks.sampled(due, str(group["sender"]))["time_ns"])

    def instant(self, flow: int, label: str) -> int:
        """When a flow's window starts or ends: when its TCP_INFO was read, if it was."""
        rows = self.samples.get(label, [])
        if rows:
            return self.epoch_ns + int(rows[flow]["time_ns"])
        return self.window_ns[0 if label == "start" else 1]


def read_record(files: RunFiles) -> Record:
    """Read the manifest, the clocks and the senders' TCP_INFO of a run.

    Raises
    ------
    TraceError
        If a record cannot be read, or the manifest is not one of this format.
    RequestError
        If the manifest is missing.
    """
    manifest = _manifest(files)
    clocks = read_clocks(files)
    start, end = (clocks.epoch_ns + round(1e9 * at) for at in manifest["window_s"])
    expect, own = manifest["expect"], int(manifest["flows"])
    flows = own + sum(int(cross["flows"]) for cross in expect.get("cross", ()))
    samples = read_samples(files, flows, clocks)
    return Record(
        manifest=manifest,
        expect=expect,
        clocks=clocks,
        window_ns=(start, end),
        samples={label: rows[:own] for label, rows in samples.items()},
        cross_samples={label: rows[own:] for label, rows in samples.items()},
    )


def with_captures_instead(files: RunFiles) -> str:
    """Say how a run that was made without captures is made with them."""
    if "users" in read_json(files.manifest).get("expect", {}):
        return "traffic.users takes no captures; make a run of traffic without users"
    return "make the run with --set traffic.captures=true --keep-pcaps"


def made_without_captures(files: RunFiles) -> bool:
    """Tell whether the run's plan had no captures: what its numbers come from is in ``stats/``.

    Raises
    ------
    RequestError
        If the manifest is missing.
    """
    manifest = read_json(files.manifest)
    expect = manifest.get("expect") if isinstance(manifest, dict) else None
    return isinstance(expect, dict) and "window_counters" in expect and "captures" not in expect


def can_be_analysed(files: RunFiles) -> bool:
    """Tell whether what `tcpf_lab.metrics.summary.analyse` reads is still there."""
    return any(files.pcap.glob("*.pcap*")) or made_without_captures(files)


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
    # One or the other: a manifest that lost its captures is no run without any.
    source = "window_counters" if "window_counters" in present else "captures"
    missing = [name for name in (*_NEEDED, source) if name not in present]
    if missing:
        raise TraceError(f"the manifest lacks {', '.join(missing)}", where=str(files.manifest))
    return manifest


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


def read_finished(files: RunFiles) -> dict[int, tuple[float, float]]:
    """Give when each flow that has sent its whole volume started and finished.

    Seconds after the epoch, by the sender's clock.
    """
    return {
        int(row["flow"]): (int(row["start_ns"]) / 1e9, int(row["time_ns"]) / 1e9)
        for path in sorted(files.stats.glob("senders-*.jsonl"))
        for row in _json_lines(path)
        if row.get("event") == "finished"
    }


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            raise TraceError("not a JSON object", where=f"{path}:{number}")
        yield row


class UnreadableError(Exception):
    """A file that a check needs is missing or damaged."""


def stats_json(files: RunFiles, name: str) -> Any:
    """Read a JSON file of ``stats/``."""
    path = files.stats / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableError(f"stats/{name} is missing") from None
    except ValueError as error:
        raise UnreadableError(f"stats/{name} is not JSON: {error}") from None


def text_of(files: RunFiles, directory: Path, name: str) -> str:
    """Read a text file of the run."""
    path = directory / name
    if not path.exists():
        raise UnreadableError(f"{path.relative_to(files.root)} is missing")
    return path.read_text(encoding="utf-8", errors="replace")


def link_drops(files: RunFiles, device: str) -> int:
    """Packets that the interface dropped or found damaged in the run, both directions.

    Packets that the processor had no time for count as well.  An interface of a host may have
    counted long before: what it had then is in ``dev-before-<node>.txt``.
    """
    node = device.partition("-")[0]
    before = f"dev-before-{node}.txt"
    earlier = _link_drops(files, before, device) if (files.stats / before).exists() else 0
    return _link_drops(files, f"dev-{node}.txt", device) - earlier


def _link_drops(files: RunFiles, name: str, device: str) -> int:
    """Drops and errors by ``/proc/net/dev``."""
    for line in text_of(files, files.stats, name).splitlines():
        found, _, counters = line.partition(":")
        if found.strip() == device:
            fields = [int(field) for field in counters.split()]
            return sum(fields[at] for at in (2, 3, 10, 11))
    raise UnreadableError(f"stats/{name} does not describe {device}")


def root_drops(files: RunFiles, device: str) -> int:
    """Drops of the device's root qdisc, which counts those of its child too."""
    roots = [q for q in qdiscs(files, device) if q.get("root")]
    if not roots:
        raise UnreadableError(f"no root qdisc of {device} in stats/qdisc-*.json")
    return int(roots[0]["drops"])


def qdiscs(files: RunFiles, device: str) -> list[dict[str, Any]]:
    """Queues of a device, as its node reported them; ``R1-R2`` is an interface of ``R1``."""
    node = device.partition("-")[0]
    return [q for q in stats_json(files, f"qdisc-{node}.json") if q.get("dev") == device]


def kernel_counters(files: RunFiles, node: str, section: str) -> dict[str, int]:
    """Read a section of a node's ``/proc/net/netstat``: a line of names, then a line of values.

    Raises
    ------
    UnreadableError
        If the file is missing or has no such section, such as ``TcpExt``.
    """
    name = f"netstat-{node}.txt"
    rows = [line.split() for line in text_of(files, files.stats, name).splitlines()]
    for names, values in pairwise(rows):
        if names[:1] == values[:1] == [f"{section}:"] and len(names) == len(values):
            return dict(zip(names[1:], map(int, values[1:]), strict=True))
    raise UnreadableError(f"stats/{name} has no {section}")


def action(files: RunFiles, node: str, kind: str, index: int) -> dict[str, Any] | None:
    """Give what ``tc`` reported of an action on a node, None if it has none of that kind and index.

    ``tc -j actions list`` gives a list of mappings, of which one holds the actions.
    """
    parts = stats_json(files, f"action-{node}.json")
    found = [action for part in parts for action in part.get("actions", ())]
    mine = [a for a in found if (a.get("kind"), a.get("index")) == (kind, index)]
    return mine[0] if mine else None
