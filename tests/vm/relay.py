"""A place between us and the hosts' sshds where connections are cut, or fall silent."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from tcpf_lab.testbed.vm.layout import HERE

_AT_ONCE = struct.pack("ii", 1, 0)
_PIECE = 1 << 16


class Relay:
    """Passes connections on to a port.

    Parameters
    ----------
    target : int
        The port of this machine that they lead to.

    Attributes
    ----------
    port : int
        Where they come in.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._passes = threading.Event()
        self._passes.set()
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server((HERE, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def used(self) -> bool:
        """Whether a connection has come in since the last `cut`."""
        with self._lock:
            return bool(self._ends)

    def cut(self) -> None:
        """End all connections at both ends, as a firewall does that has forgotten them."""
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                end.shutdown(socket.SHUT_RD)  # wakes whoever reads
            end.close()
        self._passes.set()

    def silence(self) -> None:
        """Let nothing pass any more, as if the cable were out; `cut` puts an end to it."""
        self._passes.clear()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._join(near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection((HERE, self._target))
        except OSError:
            near.close()
            return
        with self._lock:
            self._ends += [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_PIECE):
                self._passes.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
