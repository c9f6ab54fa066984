"""Hosts as SSH reaches them: Fabric's connections, on which a program runs or a file passes.

Where to connect, as whom and with which key is decided as Fabric does: the SSH configuration, the
agent, the keys.  A host's own key must be known: Fabric would accept any, so its policy is
replaced, for gateways too.
"""

from __future__ import annotations

import logging
import re
import shlex
import socket
import threading
import tomllib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fabric import Config, Connection
from paramiko import (
    AuthenticationException,
    BadHostKeyException,
    Channel,
    RejectPolicy,
    SSHException,
)
from paramiko.ssh_exception import NoValidConnectionsError

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.results.command import command
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.uml import kernel

#: How much of a command's output a message shows.
TAIL_LINES = 20
#: Output of a command -> likely cause and advice; the first match counts.
_CAUSES = tomllib.loads(Path(__file__).with_name("causes.toml").read_text("utf-8"))["cause"]
_MISSING_PROGRAM = 127
#: Directory of the cache for what has been built for hosts.
BUILT = "hosts"


def likely(output: str, status: int | None, testbed: str, failed_command: str = "") -> str:
    """Return the likely cause of a failed command, and what to try."""
    found = next((each["advice"] for each in _CAUSES if re.search(each["output"], output)), None)
    if found is None and status == _MISSING_PROGRAM:
        found = "a program is missing on the host; {doctor} names its package"
    found = found or "see the output above; {doctor} checks all hosts"
    built = _built(failed_command) if "{built}" in found else ""
    verbs = {verb: f"`{command(verb, '--testbed', testbed)}`" for verb in ("clean", "doctor")}
    return found.format(built=built, **verbs)


def _built(command: str) -> str:
    """Name the directories, there and here, of the module that a command was to load."""
    place = re.search(r"(/\S+/modules/([0-9a-f]{16}))/", command)
    here = kernel.cache_directory().parent / BUILT
    if place is None:
        return f"`modules` in the state directory of the host and {here} on this machine"
    return f"{place[1]} on the host and {here / place[2]} on this machine"


def failed(
    where: str, testbed: str, command: Sequence[str] | str, status: int | None, output: str
) -> TestbedError:
    """Give the error of a command that ended with a status it should not have."""
    text = command if isinstance(command, str) else shlex.join(command)
    how = "failed" if status is None else f"ended with {_ending(status)}"
    lines = tail(output)
    message = f"`{text}` {how}" + (f":{lines}" if lines else ", without output")
    error = TestbedError(message, where=where, hint=likely(output, status, testbed, text))
    error.status = status
    return error


def refused(where: str, testbed: str, step: str, error: Mapping[str, Any]) -> TestbedError:
    """Give the error that an agent's reply describes.

    Parameters
    ----------
    where : str
        Host and role.
    testbed : str
        The testbed's name, for advice.
    step : str
        The step of the plan, shown if the reply names no command.
    error : mapping
        ``message``, ``command``, ``status`` and ``output`` of the protocol.
    """
    message, output = str(error.get("message", "")), str(error.get("output") or "")
    command, status = error.get("command"), error.get("status")
    if command and status is not None:
        return failed(where, testbed, command, status, output or message)
    lines = tail(output)
    what = shlex.join(command) if command else step
    about = f"`{what}`: " if what and what not in message else ""
    hint = likely(f"{message}\n{output}", status, testbed)
    return TestbedError(f"{about}{message}{lines}", where=where, hint=hint)


def tail(output: str) -> str:
    """Give the last lines of an output, each on a line of its own."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()][-TAIL_LINES:]
    return "".join(f"\n  | {line}" for line in lines)


def _ending(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"


#: A program without output for so long counts as hung, s.
SILENCE_S = 120.0
#: What a channel, a socket and the library below raise when a connection breaks.
BROKEN = (SSHException, OSError, EOFError)
_PIECE = 1 << 15


@dataclass(frozen=True)
class Reply:
    """How a program on a host has ended."""

    status: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.output.decode("utf-8", "replace")


def run(host: Host, argv: Sequence[str], feed: bytes = b"", silence: float = SILENCE_S) -> Reply:
    """Run a program on ``host`` to its end.

    Raises
    ------
    TestbedError
        If the connection breaks, or the program prints nothing for ``silence`` seconds.
    """
    try:
        process = host.start(argv, silence)
        feeder = threading.Thread(target=_feed, args=(process, feed), daemon=True)
        feeder.start()
        output = process.output.read()
        status = process.status(silence)
        process.close()
        feeder.join(silence)
    except BROKEN as error:
        raise lost(host.name, f"during `{_short(argv)}`", error) from None
    if status is None:
        raise lost(host.name, f"during `{_short(argv)}`", EOFError())
    return Reply(status, output, process.errors())


def _feed(process: Process, data: bytes) -> None:
    try:
        for start in range(0, len(data), _PIECE):
            process.write(data[start : start + _PIECE])
        process.end_input()
    except BROKEN:
        pass  # it ended before its input did; its status is checked


def _short(argv: Sequence[str]) -> str:
    text = " ".join(shlex.join(argv).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def lost(name: str, when: str, error: BaseException) -> TestbedError:
    """Give the error of a connection that broke."""
    silent = isinstance(error, TimeoutError)
    what = "no data for too long" if silent else "the connection broke"
    detail = f" ({error})" if str(error) and not silent else ""
    return TestbedError(
        f"{what} {when}{detail}",
        where=f"host {name}",
        hint="check that the host and the control network are up; without a connection the host "
        "undoes all changes",
    )


class Process:
    """A program that runs on a host, at the other end of a channel.

    Attributes
    ----------
    output : binary file
        Its standard output.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.output: IO[bytes] = channel.makefile("rb")
        self._errors: deque[str] = deque(maxlen=TAIL_LINES)
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def _read_errors(self) -> None:
        try:
            for line in self._channel.makefile_stderr("rb"):
                self._errors.append(line.decode("utf-8", "replace").rstrip())
        except BROKEN:
            pass  # the reader of the output gets the error

    def write(self, data: bytes) -> None:
        """Write to its standard input."""
        self._channel.sendall(data)

    def end_input(self) -> None:
        """Let it read the end of its input."""
        self._channel.shutdown_write()

    def errors(self) -> str:
        """Give the last lines of its standard error."""
        self._reader.join(1.0)
        return "\n".join(self._errors)

    def status(self, timeout: float) -> int | None:
        """Give its exit status, None if it is not known within ``timeout`` seconds."""
        if not self._channel.status_event.wait(timeout):
            return None
        status: int = self._channel.recv_exit_status()
        return None if status < 0 else status

    def close(self) -> None:
        """Give it up."""
        self._channel.close()


CONNECT_TIMEOUT_S = 20
#: Something is sent so often, and acknowledged within so long unless the host is lost, s.
KEEP_ALIVE_S = 10
LOST_S = 30
#: Prints who we are there, and where from; sudo would take the second away.
_WHO = 'id -u; echo "${SSH_CONNECTION%% *}"'

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # our errors cover it


class Host:
    """A host of an inventory, connected.

    Attributes
    ----------
    name : str
        Its name in the inventory.
    client_address : str
        Our address as the host sees it; empty if that is not known.
    """

    def __init__(self, inventory: Inventory, name: str) -> None:
        self.name = name
        self._connection = _connection(inventory, name)
        self._prefix: tuple[str, ...] = ()
        self.client_address = ""
        try:
            self._connection.open()
            _notice_loss(self._connection)
            self._prefix = self._become_root()
        except BaseException as error:
            self.close()
            if isinstance(error, BROKEN):
                raise _no_connection(inventory, name, self._connection, error) from None
            raise

    def start(self, argv: Sequence[str], silence: float | None = None) -> Process:
        """Start a program with the rights of root."""
        channel = self._connection.create_session()
        channel.settimeout(silence)
        channel.exec_command(shlex.join((*self._prefix, *argv)))
        return Process(channel)

    def close(self) -> None:
        """Close the connection, and those it goes through."""
        for connection in _with_gateways(self._connection):
            connection.close()

    def _become_root(self) -> tuple[str, ...]:
        uid, self.client_address = run(self, ("sh", "-c", _WHO)).text.split("\n")[:2]
        if uid == "0":
            return ()
        prefix = ("sudo", "-n")
        reply = run(self, (*prefix, "true"))
        if reply.status == 0:
            return prefix
        raise TestbedError(
            f"{self._connection.user} is not root and `sudo -n true` ended with status "
            f"{reply.status}: {reply.errors.strip()}",
            where=f"host {self.name}",
            hint="set `user: root` in the inventory, or allow that user passwordless sudo",
        )


def _notice_loss(connection: Connection) -> None:
    """Let a connection end if the other side acknowledges nothing any more.

    Without it only requests with a time limit notice a host that vanishes.
    """
    connection.transport.set_keepalive(KEEP_ALIVE_S)
    sock = connection.transport.sock
    if isinstance(sock, socket.socket):  # behind a gateway, the gateway's connection has it
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_S * 1000)


def _connection(inventory: Inventory, name: str) -> Connection:
    """Prepare a connection, with every policy on host keys replaced."""
    entry, ssh = inventory.hosts[name], inventory.ssh
    settings: dict[str, Any] = {"timeouts": {"connect": CONNECT_TIMEOUT_S}}
    if ssh.identity:
        settings["connect_kwargs"] = {"key_filename": [ssh.identity]}
    connection = Connection(
        inventory.address(name),
        user=entry.user,
        port=entry.port,
        config=Config(runtime_ssh_path=ssh.config, overrides=settings),
    )
    for each in _with_gateways(connection):
        each.client.set_missing_host_key_policy(RejectPolicy())
        for file in _known_hosts(inventory, each):
            each.client.load_system_host_keys(file)
    return connection


def _known_hosts(inventory: Inventory, connection: Connection) -> list[str]:
    """List files of host keys that are there; what stands in an earlier one counts."""
    configured = connection.ssh_config.get("userknownhostsfile", "").split()
    named = [inventory.ssh.known_hosts] if inventory.ssh.known_hosts else []
    usual = ["~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"]
    paths = (Path(file).expanduser() for file in (*named, *configured, *usual))
    return [str(path) for path in paths if path.is_file()]


def _with_gateways(connection: Connection) -> list[Connection]:
    """Give a connection and those it goes through; a ProxyCommand verifies its own."""
    chain = [connection]
    while isinstance(chain[-1].gateway, Connection):
        chain.append(chain[-1].gateway)
    return chain


def _no_connection(
    inventory: Inventory, name: str, connection: Connection, error: BaseException
) -> TestbedError:
    port = f" -p {connection.port}" if connection.port != 22 else ""
    by_hand = f"ssh{port} {connection.user}@{connection.host}"
    target = f"{connection.user}@{connection.host}:{connection.port}"
    if isinstance(error, BadHostKeyException):
        what, hint = (
            f"the host key of {target} differs from the one in known_hosts",
            "if the host was reinstalled, remove the old key (`ssh-keygen -R`) and log in once by "
            "hand; otherwise this may be a man-in-the-middle attack",
        )
    elif isinstance(error, AuthenticationException):
        what, hint = (
            f"{target} rejects all SSH keys",
            f"load your key with `ssh-add`, or set `ssh: {{identity: FILE}}` in the inventory; "
            f"test with `{by_hand}`",
        )
    elif "not found in known_hosts" in str(error):
        what, hint = (
            f"the host key of {target} is not in known_hosts",
            f"log in once by hand and compare the fingerprint: `{by_hand}`",
        )
    elif isinstance(error, socket.gaierror):
        what, hint = (
            f"the name {connection.host} cannot be resolved",
            f"correct `address` of {name} in the inventory, or add it to the SSH configuration",
        )
    elif isinstance(error, NoValidConnectionsError):
        what = f"no connection to {target}: refused or unreachable"
        hint = f"check that the host and its sshd are up: `{by_hand}`"
    else:
        what = f"no connection to {target}: {error or type(error).__name__}"
        hint = f"check that the host and its sshd are up: `{by_hand}`"
    roles = inventory.hosts[name].roles
    played = f"role{'s' if len(roles) > 1 else ''} {', '.join(roles)}"
    return TestbedError(what, where=f"host {name} ({played})", hint=hint)
