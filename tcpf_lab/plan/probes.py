"""Probes: their programs, from hosts of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from tcpf_lab.plan.step import EPOCH, PROGRAMS, Phase, Ready, Start
from tcpf_lab.plan.topology import addresses
from tcpf_lab.plan.traffic import end_of, seconds
from tcpf_lab.spec.graph import Graph, Ip
from tcpf_lab.spec.group import receiver_of, sender_of
from tcpf_lab.spec.probe import Datagrams, Echo, Exchanges, Probe
from tcpf_lab.spec.sweep import Run

#: Where probes' own programs listen.
PORT = 5002
#: How long a receiver waits for the last datagram, s.
_LAST_S = 1.0
#: How long `ping` may take after its stop, s: for the last replies, or as it lags behind its
#: intervals. By itself it would wait ten seconds, or for two of the longest round-trip times.
_ECHO_LAST_S = 4.0
#: Ends `ping` in time. Its status is 1 if no reply comes, of which a check of the run reports.
_PING = 'timeout --preserve-status -s INT "$@"; test $? -le 1'
#: Bytes of IP and ICMP headers: `ping` counts what stands behind.
_ICMP_HEADERS: dict[Ip, int] = {4: 28, 6: 48}


def probes(run: Run) -> Mapping[str, Probe]:
    """Give the probes of a run by name."""
    return run.experiment.traffic.probes or {}


def start(run: Run, graph: Graph) -> Phase:
    """Start the programs: those that answer, then those that ask."""
    found = [step for name, probe in probes(run).items() for step in _programs(run, graph, name)]
    listening = [step for step in found if step.ready]
    return Phase("probes", (*listening, *(step for step in found if not step.ready)))


def end(run: Run, graph: Graph) -> Phase:
    """Wait until all of them have ended."""
    return end_of("end of the probes", run, start(run, graph).steps)


def needed(run: Run) -> tuple[str, ...]:
    """Give the programs of the system that the probes need."""
    return ("ping",) * any(isinstance(probe, Echo) for probe in probes(run).values())


def ends_of_tcp(run: Run) -> tuple[str, ...]:
    """Name the hosts of request probes: those of other kinds have no TCP."""
    asking = [name for name, probe in probes(run).items() if isinstance(probe, Exchanges)]
    return tuple(node for name in asking for node in (sender_of(name), receiver_of(name)))


def expect(run: Run) -> dict[str, Any]:
    """The probes for the analysis; empty if there are none."""
    found = [
        {
            "name": name,
            "kind": probe.kind,
            "direction": probe.way,
            "sender": sender_of(name),
            "receiver": receiver_of(name),
            "records": _records(name, probe),
            "start_s": probe.start,
            "stop_s": _stop(run, probe),
            **(_periodic(run, probe) if isinstance(probe, Datagrams | Echo) else {}),
        }
        for name, probe in probes(run).items()
    ]
    return {"probes": found} if found else {}


def _periodic(run: Run, probe: Datagrams | Echo) -> dict[str, Any]:
    return {"interval_s": probe.interval, "count": probe.count(_stop(run, probe))}


def _records(name: str, probe: Probe) -> str:
    return f"probe-{name}.{'txt' if isinstance(probe, Echo) else 'bin'}"


def _stop(run: Run, probe: Probe) -> float:
    return run.experiment.traffic.end if probe.stop is None else probe.stop


def _programs(run: Run, graph: Graph, name: str) -> Iterator[Start]:
    probe = probes(run)[name]
    near, far = sender_of(name), receiver_of(name)
    reached = addresses(graph)
    records = f"stats/{_records(name, probe)}"
    between = ("--from", seconds(probe.start), "--until", seconds(_stop(run, probe)))
    match probe:
        case Echo():
            count = probe.count(_stop(run, probe))
            headers = _ICMP_HEADERS[run.experiment.traffic.ip_of(probe)]
            longest = seconds(_stop(run, probe) - probe.start + _ECHO_LAST_S)
            argv = (
                *("sh", "-c", _PING, "ping", longest),
                *("ping", "-n", "-D", "-c", str(count), "-i", seconds(probe.interval)),
                *("-s", str(probe.size - headers), reached[far]),
            )
            log = f"log/probe-{name}.log"
            yield Start(near, f"probe-{name}", argv, records, log, at=probe.start)
        case Datagrams():
            until = ("--until", seconds(run.experiment.traffic.end + _LAST_S))
            words: tuple[str, ...] = (
                "udp-recv",
                "--listen",
                reached[far],
                *until,
                "--records",
                records,
            )
            yield _probe(far, f"{name}-receiver", words, listens=True)
            words = (
                *("udp-send", "--connect", reached[far], *between),
                *("--every", seconds(probe.interval), "--size", str(probe.size)),
                *("--tos", str(probe.dscp << 2)),
            )
            yield _probe(near, f"{name}-sender", words)
        case Exchanges():
            until = ("--until", seconds(run.experiment.traffic.end + _LAST_S))
            words = ("answer", "--listen", reached[near], *until)
            yield _probe(near, f"{name}-server", words, listens=True)
            words = (
                *("ask", "--connect", reached[near], *between, "--flows", str(probe.flows)),
                *("--first", str(_loops_before(run, name))),
                *("--seed", str(run.seed), "--think", seconds(probe.think)),
                *("--request", str(probe.request), "--response", str(probe.response)),
                *("--records", records, *(("--reuse",) if probe.reuse else ())),
            )
            yield _probe(far, f"{name}-client", words)


def _loops_before(run: Run, name: str) -> int:
    """Count the closed loops of the probes before one: think times depend on a loop's number."""
    before = takewhile(lambda other: other != name, probes(run))
    return sum(getattr(probes(run)[other], "flows", 0) for other in before)


def _probe(node: str, name: str, words: tuple[str, ...], *, listens: bool = False) -> Start:
    program, output = f"probe-{name}", f"stats/probe-{name}.jsonl"
    argv = (f"{PROGRAMS}/tcpf-probe", *words, "--port", str(PORT), "--epoch", EPOCH)
    ready = Ready(output, "listening") if listens else None
    return Start(node, program, argv, output, f"log/{program}.log", ready)
