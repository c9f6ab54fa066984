"""The project's own generator: flows that block in the kernel and read ``TCP_INFO`` on time."""

from __future__ import annotations

import math
from dataclasses import replace

from tcpf_lab.plan.step import EPOCH, PROGRAMS, Phase, Ready, Start
from tcpf_lab.plan.traffic import users
from tcpf_lab.plan.traffic.flows import (
    PORT,
    SOURCE_PORT,
    Pair,
    Traffic,
    count,
    end_of,
    pairs,
    seconds,
    start_times,
    window,
)
from tcpf_lab.spec.sweep import Run

#: A flow is a thread and a socket at either end.
KB_PER_FLOW = 160
#: Of a socket's buffer, what the kernel needs for it: at an mtu of 576 B, where it is most.
BUFFER_SHARE = 1.25
#: What a guest has for flows before it needs more.
USUAL_MB = 360


def traffic(run: Run) -> Traffic:
    """One sending and one receiving program for each pair of hosts, a thread per flow."""
    if run.experiment.traffic.users is not None:
        return users.traffic(run, run.experiment.traffic.users)
    shares, starts = pairs(run), start_times(run)
    receivers = tuple(_receive(run, pair) for pair in shares)
    senders = tuple(_send(run, pair, starts) for pair in shares)
    return Traffic(
        receivers=Phase("receivers", receivers),
        senders=Phase("senders", senders),
        end=end_of("end of the traffic", run, (*senders, *receivers)),
        programs=(),
        slowness=2.0,
        memory_mb=_memory_mb(run),
    )


def _memory_mb(run: Run) -> int:
    """Give what so many flows need beyond a guest's usual memory: most need nothing.

    A full send buffer takes its size once more for the kernel's words about its packets.
    """
    flow_kb = KB_PER_FLOW + BUFFER_SHARE * run.experiment.traffic.socket_buffer / 1024
    return max(0, math.ceil(count(run) * flow_kb / 1024) - USUAL_MB)


def _receive(run: Run, pair: Pair) -> Start:
    words = ("recv", "--listen", pair.address, "--flows", str(pair.flows))
    start = _program(run, pair, pair.receiver, "receivers", words)
    return replace(start, ready=Ready(str(start.output), "listening"))


def _send(run: Run, pair: Pair, starts: tuple[float, ...]) -> Start:
    own = starts[pair.first : pair.first + pair.flows]
    listed = ",".join(f"{start:.6f}" for start in own)
    words = ("send", "--connect", pair.address, "--start", listed)
    return _program(run, pair, pair.sender, "senders", words)


def _program(run: Run, pair: Pair, node: str, role: str, words: tuple[str, ...]) -> Start:
    begin, end = window(run)
    argv = (
        *(f"{PROGRAMS}/tcpf-traffic", *words, "--epoch", EPOCH),
        *("--port", str(PORT), "--source-port", str(SOURCE_PORT), "--first", str(pair.first)),
        *("--sample", f"start={seconds(begin)},end={seconds(end)}"),
        *("--buffer", str(run.experiment.traffic.socket_buffer)),
    )
    name = f"{role}-{node}"
    return Start(node, name, argv, f"stats/{name}.jsonl", f"log/{name}.log")
