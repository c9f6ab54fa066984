"""``serve`` on a host; ``undo`` and ``list`` what has been left there."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from tcpf_lab.testbed.ssh.agent import journal, modules, namespaces, undo
from tcpf_lab.testbed.ssh.agent.journal import Record
from tcpf_lab.testbed.ssh.agent.serve import Agent
from tcpf_lab.testbed.ssh.agent.system import AgentError


def unfinished(state: Path) -> list[dict[str, Any]]:
    """Describe all runs that have not been undone, and what would be.

    Returns
    -------
    list of dict
        As `journal.unfinished` gives them, and as ``records`` the ``kind`` and ``name`` of each
        change, in the order in which they would be undone.
    """
    return [{**run, "records": _records(state, run)} for run in journal.unfinished(state)]


def _records(state: Path, run: dict[str, Any]) -> list[dict[str, str]]:
    """List what would be undone; the last is the journal with the run's files."""
    root = journal.runs(state) / run["token"]
    records = journal.read(root)[1:] if run["this_boot"] else []
    left = [record for record in reversed(records) if not record["undone"]]
    names = ((r["kind"], _NAME[r["kind"]](r) if r["kind"] in _NAME else "") for r in left)
    return [{"kind": kind, "name": name} for kind, name in (*names, ("run", str(root)))]


#: How what a record is about is called.
_NAME: dict[str, Callable[[Record], str]] = {
    "namespace": lambda r: namespaces.name(r["node"]),
    "veth": lambda r: " - ".join(f"{end['device']} in {end['node']}" for end in r["ends"]),
    "nic": lambda r: f"{r['state']['interface']} ({r['device']} in {r['node']})",
    "sysctl": lambda r: f"{r['key']} = {r['value']}",
    "module": lambda r: str(r["name"]),
    "modules_before": lambda r: ", ".join(modules.new(r["names"])),
    "netns_directory": lambda _: str(namespaces.NAMED),
}


STATE = Path("/var/lib/tcpf-lab")
SILENCE_S = 20.0


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Execute a command; the exit status is 0 if nothing is left to undo."""
    parser = _parser()
    options = parser.parse_args(arguments)
    state: Path = options.state.absolute()
    if options.word == "serve":
        _detach_descriptors()
        Agent(state, options.silence).serve()
    if options.word == "leave":
        sys.exit(_leave(state, options.run, options.reason))
    try:
        if options.word == "undo":
            sys.exit(_undo(state, options))
        sys.stdout.write(json.dumps(unfinished(state)) + "\n")
        sys.exit()
    except (AgentError, OSError) as error:  # the state directory cannot be read
        sys.exit(f"tcpf-agent: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tcpf-agent", description=__doc__)
    words = parser.add_subparsers(dest="word", required=True)
    for word, text in (
        ("serve", "execute requests until the end of the run"),
        ("undo", "undo runs whose agent has ended"),
        ("list", "list runs that have not been undone, as JSON"),
        ("leave", "undo a run in place of its agent"),
    ):
        sub = words.add_parser(word, help=text)
        sub.add_argument("--state", type=Path, default=STATE, help="the state directory")
        if word == "serve":
            sub.add_argument("--silence", type=float, default=SILENCE_S, help="s")
        if word in ("undo", "leave"):
            sub.add_argument("--run", help="only this one")
        if word == "undo":
            sub.add_argument("--force", action="store_true", help="end its agent before")
        if word == "leave":
            sub.add_argument("--reason", default="")
    return parser


def _undo(state: Path, options: argparse.Namespace) -> int:
    reports = undo.by_hand(state, options.run, options.force)
    sys.stdout.write(json.dumps(reports) + "\n")
    return 1 if any(report["left"] or "refused" in report for report in reports) else 0


def _leave(state: Path, token: str, reason: str) -> int:
    """Undo in place of the agent; one line of standard error for each thing that is left."""
    lines = [f"the agent ends: {reason}"]
    try:
        left = undo.undo(state, token, agent=os.getpid()).left
    except Exception as error:  # noqa: BLE001 - reported, whatever it is
        left = [undo.reason(error)]
    with suppress(OSError):  # the controller is gone
        sys.stderr.write("".join(f"{line}\n" for line in ([*lines, *left] if left else [])))
        sys.stderr.flush()
    return 1 if left else 0


def _detach_descriptors() -> None:
    """Let programs inherit none of the descriptors that this was started with, but its streams."""
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # that of the listing itself
            if int(path.name) > 2:
                os.set_inheritable(int(path.name), False)


if __name__ == "__main__":
    main()
