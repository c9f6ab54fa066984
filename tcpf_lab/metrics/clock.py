"""Each node's clock, and the one clock that a run's times are counted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.base.errors import TraceError
from tcpf_lab.results.layout import RunFiles, read_json
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
        """Give a capture that was taken on a node with the times of the run's clock, in order.

        Several processors of a host may hand packets over in another order than they were stamped.
        """
        clock = self.of(node)
        if clock is None:
            return capture
        packets = capture.packets.copy()
        packets["time_ns"] = clock.run_time(packets["time_ns"])
        return replace(capture, packets=_in_order(packets))

    def sampled(self, row: dict[str, Any], node: str) -> dict[str, Any]:
        """Give a sample of a node's program, its ``time_ns`` after the epoch by the run's clock.

        The program counted from the epoch that it was told, ``epoch_ns`` of the sample; the node's
        clock has been measured again since then.
        """
        clock = self.of(node)
        if clock is None:
            return row
        told = int(row.get("epoch_ns", clock.own_epoch_ns))
        at = clock.run_time(np.asarray([told + int(row["time_ns"])], np.int64))
        return {**row, "time_ns": int(at[0]) - self.epoch_ns}


def _in_order(packets: Packets) -> Packets:
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
