"""Closed-loop users by the project's own generator, and what they need of a kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tcpf_lab.plan.step import EPOCH, PROGRAMS, Phase, Ready, Start, Step, Sysctl
from tcpf_lab.plan.traffic.flows import (
    PORT,
    SOURCE_PORT,
    Pair,
    Traffic,
    count,
    end_of,
    pairs,
    seconds,
    window,
)
from tcpf_lab.spec.axis import shown
from tcpf_lab.spec.graph import Role
from tcpf_lab.spec.sweep import Run
from tcpf_lab.spec.traffic import Users

#: Real seconds that a virtual one may take, for each user: thousands of connections a second.
SLOWNESS_PER_USER = 0.01
#: A user is a thread at either end, with a stack in the kernel, and has sockets that linger.
MEMORY_KB_PER_USER = 128
#: A small guest would allow fewer threads than there are users.
MOST_THREADS = 131072
#: So many long-lived flows are no more threads than any guest allows.
USUAL_FLOWS = 500


def traffic(run: Run, asked: Users) -> Traffic:
    """One sending and one receiving program for each pair of hosts, a thread per user."""
    receivers = tuple(_receive(run, pair) for pair in pairs(run))
    senders = tuple(_send(run, pair, asked) for pair in pairs(run))
    return Traffic(
        receivers=Phase("receivers", receivers),
        senders=Phase("users", senders),
        end=end_of("end of the traffic", run, (*senders, *receivers)),
        programs=(),
        slowness=2.0 + SLOWNESS_PER_USER * run.flows,
        memory_mb=math.ceil(MEMORY_KB_PER_USER * run.flows / 1024),
    )


def of_the_kernel(run: Run) -> tuple[Step, ...]:
    """Set what users, or very many flows, need of a whole kernel: else nothing."""
    if run.experiment.traffic.users is None and count(run) <= USUAL_FLOWS:
        return ()
    return (Sysctl(None, "kernel.threads-max", str(MOST_THREADS)),)


def sysctls(run: Run, role: Role) -> dict[str, str]:
    """Give the sysctls that users need at an end, by its role: none where there are no users.

    A sender's port is in use for a minute after each connection; its send buffer follows the window
    instead of holding a whole file.  A receiver hears from many users at once: without room for
    them the kernel would refuse a connection when the path is loaded.
    """
    if run.experiment.traffic.users is None:
        return {}
    buffer = run.experiment.traffic.socket_buffer
    if role == "sender":
        return {
            "net.ipv4.ip_local_port_range": "1024 65535",
            "net.ipv4.tcp_tw_reuse": "1",
            "net.ipv4.tcp_max_tw_buckets": "262144",
            "net.ipv4.tcp_wmem": f"4096 16384 {2 * buffer}",
        }
    return {"net.core.somaxconn": "8192", "net.ipv4.tcp_max_syn_backlog": "8192"}


def expect(run: Run) -> dict[str, Any]:
    """Say what the users are, for the analysis; of long-lived flows, the port of the first."""
    asked = run.experiment.traffic.users
    if asked is None:
        return {"source_port": SOURCE_PORT}
    return {
        "users": {
            "think_s": asked.think,
            "size_bytes": asked.size,
            "shape": asked.shape,
            "largest_bytes": asked.largest,
            "senders": [pair.sender for pair in pairs(run)],
        }
    }


def _receive(run: Run, pair: Pair) -> Start:
    buffer = str(run.experiment.traffic.socket_buffer)
    words = ("recv", "--listen", pair.address, "--buffer", buffer)
    output = f"stats/receivers-{pair.receiver}.jsonl"
    start = _program(run, pair, pair.receiver, "receivers", words, output)
    return replace(start, ready=Ready(output, "listening"))


def _send(run: Run, pair: Pair, asked: Users) -> Start:
    words = (
        *("send", "--connect", pair.address, "--first", str(pair.first)),
        *("--seed", str(run.seed), "--think", seconds(asked.think), "--size", str(asked.size)),
        *("--shape", shown(asked.shape), "--largest", str(asked.largest)),
        *("--spread", seconds(run.experiment.traffic.start_spread)),
    )
    return _program(run, pair, pair.sender, "users", words, f"stats/users-{pair.sender}.bin")


def _program(
    run: Run, pair: Pair, node: str, role: str, words: tuple[str, ...], output: str
) -> Start:
    _, end = window(run)
    argv = (
        *(f"{PROGRAMS}/tcpf-users", *words, "--epoch", EPOCH),
        *("--port", str(PORT), "--users", str(pair.flows), "--until", seconds(end)),
    )
    return Start(node, f"{role}-{node}", argv, output, f"log/{role}-{node}.log")
