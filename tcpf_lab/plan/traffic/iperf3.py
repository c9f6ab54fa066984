"""iperf3: one server and one client per flow, each client's JSON kept.

Every block of data is several system calls of two processes, so in a virtual-time guest this is
much slower than real time; the native generator is there for that.
"""

from __future__ import annotations

import math

from tcpf_lab.plan.step import Finish, Phase, Ready, Start
from tcpf_lab.plan.traffic.flows import PORT, SOURCE_PORT, Pair, Traffic, pairs, start_times, window
from tcpf_lab.spec.sweep import Run

#: A client exchanges results through the congested path before it ends.
EXCHANGE_S = 60.0
#: Ten flows over 10 Mbit/s took eight real seconds for a virtual one on a busy machine.
SLOWNESS = 60.0


def traffic(run: Run) -> Traffic:
    """One server and one client per flow, on a port of their own."""
    _, end = window(run)
    starts = start_times(run)
    servers, clients = [], []
    for pair in pairs(run):
        for flow in range(pair.first, pair.first + pair.flows):
            servers.append(_server(pair, flow))
            clients.append(_client(run, pair, flow, starts[flow]))
    names = tuple(start.name for start in (*clients, *servers))
    return Traffic(
        receivers=Phase("receivers", tuple(servers)),
        senders=Phase("senders", tuple(clients)),
        end=Phase("end of the traffic", (Finish(names, end + EXCHANGE_S),)),
        programs=("iperf3",),
        slowness=SLOWNESS,
    )


def _server(pair: Pair, flow: int) -> Start:
    log = f"log/iperf3-server-{flow}.log"
    argv = (
        *("iperf3", "--server", "--bind", pair.address, "--port", str(PORT + flow)),
        *("--one-off", "--forceflush"),
    )
    return Start(pair.receiver, f"server-{flow}", argv, log, ready=Ready(log, "Server listening"))


def _client(run: Run, pair: Pair, flow: int, start: float) -> Start:
    _, end = window(run)
    argv = (
        *("iperf3", "--client", pair.address, "--port", str(PORT + flow)),
        *("--cport", str(SOURCE_PORT + flow), "--time", str(math.ceil(end - start))),
        *("--window", str(run.experiment.traffic.socket_buffer), "--json", "--zerocopy"),
    )
    name = f"client-{flow}"
    output = f"stats/iperf3-{flow}.json"
    return Start(pair.sender, name, argv, output, f"log/iperf3-client-{flow}.log", at=start)
