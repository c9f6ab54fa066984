"""Hosts as SSH reaches them: Fabric's connections, on which a program runs or a file passes.

Where to connect, as whom and with which key is decided as Fabric does: the SSH configuration, the
agent, the keys.  A host's own key must be known: Fabric would accept any, so its policy is
replaced, for gateways too.
"""

from __future__ import annotations

import logging
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric import Config, Connection
from paramiko import AuthenticationException, BadHostKeyException, RejectPolicy
from paramiko.ssh_exception import NoValidConnectionsError

from tcpf_lab.errors import TestbedError
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh_process import BROKEN, SshProcess, run

CONNECT_TIMEOUT_S = 20
#: Something is sent so often, and acknowledged within so long unless the host is lost, s.
KEEP_ALIVE_S = 10
LOST_S = 30
#: Prints who we are there, and where from; sudo would take the second away.
_WHO = 'id -u; echo "${SSH_CONNECTION%% *}"'

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # our messages say it better


class SshHost:
    """A host of an inventory, connected."""

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

    def start(self, argv: Sequence[str], silence: float | None = None) -> SshProcess:
        """Start a program with the rights of root."""
        channel = self._connection.create_session()
        channel.settimeout(silence)
        channel.exec_command(shlex.join((*self._prefix, *argv)))
        return SshProcess(channel)

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
            hint="`user: root` in the inventory, or sudo without a password for that user",
        )


def _notice_loss(connection: Connection) -> None:
    """Let a connection end if the other side acknowledges nothing any more.

    Without it a host that vanishes is noticed by those only who wait for an answer in time.
    """
    connection.transport.set_keepalive(KEEP_ALIVE_S)
    sock = connection.transport.sock
    if isinstance(sock, socket.socket):  # through a gateway that is the gateway's business
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
            f"{target} shows another host key than the known one",
            "if the host was installed again, remove the old key (`ssh-keygen -R`) and log in once "
            "by hand; if not, somebody may be in between",
        )
    elif isinstance(error, AuthenticationException):
        what, hint = (
            f"{target} accepts none of the keys",
            f"`ssh-add` your key, name it under `ssh: {{identity: ...}}`; try `{by_hand}`",
        )
    elif "not found in known_hosts" in str(error):
        what, hint = (
            f"the host key of {target} is not known",
            f"log in once by hand, compare the fingerprint: `{by_hand}`",
        )
    elif isinstance(error, socket.gaierror):
        what, hint = (
            f"the name {connection.host} cannot be resolved",
            f"correct `address` of {name}, or add it to the SSH configuration",
        )
    elif isinstance(error, NoValidConnectionsError):
        what = f"no connection to {target}: refused, or no way there"
        hint = f"is the host up, and sshd? Try `{by_hand}`"
    else:
        what = f"no connection to {target}: {error or type(error).__name__}"
        hint = f"is the host up, and sshd? Try `{by_hand}`"
    return TestbedError(what, where=f"host {name} ({_roles(inventory, name)})", hint=hint)


def _roles(inventory: Inventory, name: str) -> str:
    roles = inventory.hosts[name].roles
    return f"role{'s' if len(roles) > 1 else ''} {', '.join(roles)}"
