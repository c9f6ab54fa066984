"""The words of the conversation, and what each of them does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tcpf_lab.testbed.ssh.agent import network, system
from tcpf_lab.testbed.ssh.agent.session import Session
from tcpf_lab.testbed.ssh.agent.system import AgentError

Request = Mapping[str, Any]
_LOOK_AT_QUEUE_S = 0.25


def carry_out(session: Session, request: Request) -> Any:
    """Do what a request asks for, and return the reply's value.

    Raises
    ------
    AgentError
        If it cannot be done.
    """
    action = ACTIONS.get(request["do"])
    if action is None:
        raise AgentError(f"unknown request '{request['do']}'")
    try:
        return action(session, request)
    except KeyError as error:
        raise AgentError(f"the request '{request['do']}' lacks {error}") from None


def _node(session: Session, request: Request) -> None:
    session.add_node(request["node"])


def _veth(session: Session, request: Request) -> None:
    session.add_veth(request["ends"], request["mtu"], request.get("wire"))


def _nic(session: Session, request: Request) -> None:
    words = ("interface", "node", "device", "mac", "mtu")
    session.take_nic(*(request[word] for word in words))


def _run(session: Session, request: Request) -> dict[str, str]:
    said = session.run(request["node"], request["argv"], request.get("output"))
    return {"output": said}


def _batch(session: Session, request: Request) -> None:
    session.place(request["node"])
    network.batch(request["program"], request["node"], request["lines"], cancel=session.cancel)


def _sysctl(session: Session, request: Request) -> None:
    session.set_sysctl(request["node"], request["key"], request["value"])


def _sysctls(session: Session, request: Request) -> None:
    text = session.inside(request["node"], lambda: system.lines(request["keys"]))
    session.output(request["output"]).write_text(text)


def _read(session: Session, request: Request) -> None:
    path = system.of_this_thread(request["path"])
    try:
        content = session.inside(request["node"], lambda: system.content(path))
    except OSError as error:
        if request.get("optional") and isinstance(error, FileNotFoundError):
            return
        raise AgentError(f"cannot read {request['path']}: {error.strerror}") from None
    session.output(request["output"]).write_bytes(content)


def _offloads(session: Session, request: Request) -> None:
    device, features = request["device"], request["features"]
    text = session.inside(request["node"], lambda: network.switch_off(device, features))
    session.output(request["output"]).write_text(text)


def _module(session: Session, request: Request) -> dict[str, bool]:
    return {"loaded": session.load_module(request["path"], request["name"])}


def _start(session: Session, request: Request) -> None:
    starts = request.get("starts", [request])
    for start in starts:
        session.place(start["node"])
    session.programs.start(starts)


def _finish(session: Session, request: Request) -> None:
    session.programs.finish(request["names"], request["deadline_ns"])


def _stop(session: Session, request: Request) -> None:
    session.programs.stop(request["names"])


def _drained(session: Session, request: Request) -> None:
    """Wait until the queues are empty; what is under way needs a moment before the first look."""
    device, until = request["device"], time.monotonic() + request["timeout"]
    argv = ["tc", "-s", "-j", "qdisc", "show", "dev", device]
    while True:
        session.sleep(_LOOK_AT_QUEUE_S)
        shown = session.inside(request["node"], lambda: system.report(argv, cancel=session.cancel))
        queues = [queue for queue in shown if queue.get("qlen")]
        if not queues:
            return
        if time.monotonic() > until:
            left = ", ".join(f"{queue['qlen']} packets in {queue['kind']}" for queue in queues)
            raise AgentError(
                f"the queue on {device} is not empty after {request['timeout']:g} s: {left}"
            )


def _pass(session: Session, request: Request) -> None:
    session.sleep(request["seconds"])


def _lateness(session: Session, _request: Request) -> dict[str, float]:
    return session.programs.lateness()


ACTIONS: dict[str, Callable[[Session, Request], Any]] = {
    "node": _node,
    "veth": _veth,
    "nic": _nic,
    "run": _run,
    "batch": _batch,
    "sysctl": _sysctl,
    "sysctls": _sysctls,
    "read": _read,
    "offloads": _offloads,
    "module": _module,
    "start": _start,
    "finish": _finish,
    "stop": _stop,
    "drained": _drained,
    "pass": _pass,
    "lateness": _lateness,
}
