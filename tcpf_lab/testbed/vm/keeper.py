"""The process that runs the guests: ``python -m tcpf_lab.testbed.vm.keeper DIRECTORY LOCK``.

It daemonizes and writes its number to LOCK, a descriptor of a locked file.  It starts the emulators
of ``DIRECTORY/commands.json``, joined by sockets, and ends with all of them: on SIGTERM, when one
of them ends, when the directory is gone.  If it is killed, the kernel kills them.  The lock shows
that it lives.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from tcpf_lab.testbed.base import bound

COMMANDS, PROCESSES, ENDED = "commands.json", "processes.json", "ended.txt"
LOOK_EVERY_S = 0.5
#: How long an emulator may take to end by itself.
GRACE_S = 3.0


def main(directory: Path) -> None:
    """Run the guests of ``directory`` until it is time to end."""
    signal.signal(signal.SIGTERM, _end)
    identity = directory.stat().st_ino
    commands: dict[str, list[str]] = json.loads((directory / COMMANDS).read_text())
    guests: dict[str, subprocess.Popen[bytes]] = {}
    try:
        start(commands, directory, guests)
        (directory / PROCESSES).write_text(json.dumps({n: g.pid for n, g in guests.items()}))
        while _is_there(directory, identity):
            states = {name: guest.poll() for name, guest in guests.items()}
            ended = {name: status for name, status in states.items() if status is not None}
            if ended:
                how = ", ".join(f"of '{n}' with status {status}" for n, status in ended.items())
                (directory / ENDED).write_text(f"the emulator {how}\n")
                break
            time.sleep(LOOK_EVERY_S)
    finally:
        end_all(list(guests.values()))


def start(
    commands: dict[str, list[str]], directory: Path, guests: dict[str, subprocess.Popen[bytes]]
) -> None:
    """Start the emulators and put them into ``guests``.

    ``{wire0}`` in their commands is the descriptor of one end of the first socket, and so on; the
    first guest that names a wire gets one end of it, the second one the other.
    """
    wires: dict[str, list[socket.socket]] = {}
    for name, words in commands.items():
        own = {}
        for number in _wires(words):
            ends = wires.setdefault(number, list(socket.socketpair()))
            own[number] = ends.pop()
        with (directory / f"{name}.emulator").open("wb") as log:
            guests[name] = subprocess.Popen(
                bound(filled(words, own)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[end.fileno() for end in own.values()],
            )
        for end in own.values():
            end.close()


def filled(words: list[str], wires: dict[str, socket.socket]) -> list[str]:
    """Put the descriptors of sockets into a command."""
    for mark, end in wires.items():
        words = [word.replace(mark, str(end.fileno())) for word in words]
    return words


def end_all(guests: list[subprocess.Popen[bytes]]) -> None:
    """End the emulators, and wait for them."""
    for guest in guests:
        guest.terminate()
    until = time.monotonic() + GRACE_S
    for guest in guests:
        with suppress(subprocess.TimeoutExpired):
            guest.wait(max(0.0, until - time.monotonic()))
        guest.kill()
        guest.wait()


def _wires(words: list[str]) -> list[str]:
    marks = (f"{{wire{number}}}" for number in range(len(words)))
    return [mark for mark in marks if any(mark in word for word in words)]


def _is_there(directory: Path, identity: int) -> bool:
    try:
        return directory.stat().st_ino == identity
    except FileNotFoundError:
        return False


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)


def go_on_alone(lock: int) -> None:
    """Leave a child behind that does the work; return in it."""
    if child := os.fork():
        os.write(lock, f"{child}\n".encode())
        os._exit(0)
    os.setsid()


if __name__ == "__main__":
    go_on_alone(int(sys.argv[2]))
    main(Path(sys.argv[1]))
