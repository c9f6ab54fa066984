"""The PFTK formula for each flow of a run, beside what the flow had (paper 001, Figure 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tcpf_lab.metrics.captured import CapturedRecord
from tcpf_lab.metrics.numbers import Extra
from tcpf_lab.metrics.per_flow import gained_bytes
from tcpf_lab.metrics.record import Record
from tcpf_lab.models import pftk
from tcpf_lab.results import RunFiles
from tcpf_lab.trace.events import FAST, RTO
from tcpf_lab.trace.follow import Followed, follow


@dataclass(frozen=True)
class Observed:
    """What the formula needs to know of a flow in a window.

    Attributes
    ----------
    sent : int
        Data packets sent, those sent again included.
    triple_duplicates : int
        Recoveries that duplicate ACKs began.
    timeout_episodes : int
        Sequences of expiries without progress between them; each counts once.
    rtt_s : float or None
        Mean of the samples that the sender took, seconds.
    t0_s : float or None
        Mean length of the first timeouts of episodes, seconds; of the timer, where there was none.
    """

    sent: int
    triple_duplicates: int
    timeout_episodes: int
    rtt_s: float | None
    t0_s: float | None

    @property
    def p(self) -> float | None:
        """Loss indications per packet sent."""
        losses = self.triple_duplicates + self.timeout_episodes
        return losses / self.sent if self.sent else None


def pftk_error(_files: RunFiles, run: Record) -> Extra:
    """Give section ``pftk``, a row per flow, of runs of paper 001 or with background.

    Parameters
    ----------
    run : Record
        Without captures nothing is known of RTT and timer: the section is not there.

    Returns
    -------
    Extra
        A row has ``flow``, ``p``, ``rtt_s``, ``t0_s``, ``full`` and ``approximate`` (the
        predictions, packets/s, with ``b`` = 1: the receivers acknowledge every packet),
        ``sent_packets_per_s`` and ``goodput_packets_per_s`` (in packets of the flow's greatest
        payload); predictions are None for a flow without a loss in the window.
    """
    wanted = run.expect.get("background") or run.expect.get("pftk")
    if not wanted or not isinstance(run, CapturedRecord):
        return Extra()
    rows = [_row(run, flow) for flow in range(run.count) if int(run.row[flow]) >= 0]
    return Extra(sections={"pftk": rows})


def observe(followed: Followed, start_ns: int, end_ns: int) -> Observed:
    """Read off a flow what the formula needs, in a window with its start and without its end."""
    within = (followed.time_ns >= start_ns) & (followed.time_ns < end_ns)
    data = followed.forward & (followed.end > followed.start) & (followed.start > 0)
    first = (followed.kind == RTO) & (followed.backoff == 0) & within
    samples = followed.rtt_ns[within & (followed.rtt_ns >= 0)]
    # The timer that expires is the one that the packet before it left behind.
    before = np.flatnonzero(first) - 1
    timers = followed.rto_ns[before] if before.size else followed.rto_ns[within]
    return Observed(
        sent=int(np.sum(data & within)),
        triple_duplicates=int(np.sum((followed.kind == FAST) & within)),
        timeout_episodes=int(np.sum(first)),
        rtt_s=float(np.mean(samples)) / 1e9 if samples.size else None,
        t0_s=float(np.mean(timers)) / 1e9 if timers.size else None,
    )


def _row(run: CapturedRecord, flow: int) -> dict[str, Any]:
    start, end = run.window_ns
    row, seconds = int(run.row[flow]), (end - start) / 1e9
    packets = run.captures["sender"].packets
    seen = observe(follow(packets, run.flows, row, run.options), start, end)
    largest = int(np.max(packets["payload"][run.flows.split(row)[0]], initial=0))
    predicted: dict[str, float | None] = {"full": None, "approximate": None}
    if seen.p and seen.rtt_s and seen.t0_s:
        arguments = (min(seen.p, 1.0), seen.rtt_s, seen.t0_s)
        predicted = {
            "full": float(pftk.full(*arguments)),
            "approximate": float(pftk.approximate(*arguments)),
        }
    return {
        "flow": flow,
        "p": seen.p,
        "rtt_s": seen.rtt_s,
        "t0_s": seen.t0_s,
        **predicted,
        "sent_packets_per_s": seen.sent / seconds,
        "goodput_packets_per_s": gained_bytes(run, flow) / largest / seconds if largest else 0.0,
    }
