"""Programs that are started at an instant: forked early, and made the program when it has come.

To make a hundred processes takes a while, on an emulated processor in particular; to turn waiting
ones into programs takes next to nothing.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tcpf_lab.agent.errors import AgentError

NSEC = 1_000_000_000
#: The clock may be set meanwhile: it is looked at so often, s.
_LONGEST_SLEEP_S = 0.5
_TIME = struct.Struct("=q")
_ERROR = struct.Struct("=i")


@dataclass(frozen=True)
class Launch:
    """A process that waits for its instant."""

    pid: int
    told: int  #: descriptor of the pipe through which it tells how that went

    def await_start(self, argv: Sequence[str], at_ns: int) -> float:
        """Wait until it has become the program; return how late that was, s.

        Raises
        ------
        AgentError
            If it could not become the program, or was ended before.
        """
        with os.fdopen(self.told, "rb") as pipe:
            said = pipe.read()
        if len(said) < _TIME.size:
            raise AgentError("ended before it was to start", argv)
        if len(said) > _TIME.size:
            (number,) = _ERROR.unpack_from(said, _TIME.size)
            raise AgentError(f"cannot be started: {os.strerror(number)}", argv)
        return float(_TIME.unpack(said)[0] - at_ns) / NSEC


def prepare(argv: Sequence[str], at_ns: int, output: int, errors: int) -> Launch:
    """Make a process that becomes the program ``argv`` at ``at_ns``.

    Parameters
    ----------
    argv : sequence of str
        The program's path, and its arguments.
    at_ns : int
        ``CLOCK_REALTIME``, ns.
    output, errors : int
        Descriptors of what are to be its standard output and standard error.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(argv, at_ns, output, errors, writer)
    os.close(writer)
    return Launch(pid, reader)


def _become(argv: Sequence[str], at_ns: int, output: int, errors: int, writer: int) -> NoReturn:
    """Wait, then become the program; only what is safe in a child of many threads is done here."""
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        if writer != 3:
            os.dup2(writer, 3, inheritable=False)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # the watch's pipe among them
        while (left := at_ns - time.time_ns()) > 0:
            time.sleep(min(left / NSEC, _LONGEST_SLEEP_S))
        os.write(3, _TIME.pack(time.time_ns()))
        os.execve(argv[0], list(argv), os.environ)
    except OSError as error:
        os.write(3, _ERROR.pack(error.errno or 0))
    finally:
        os._exit(127)
