"""Real hosts: the plan is carried out by agents that are reached over SSH.

Each role of the topology is a network namespace on its host, and the host's interfaces are moved
into it, so that the control network cannot be touched by any step.  Whatever is changed on a host
is recorded there before, and undone at the end, whatever the end is.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from tcpf_lab.command import command
from tcpf_lab.errors import LabError, TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import AddLink, AddNode, LoadModule
from tcpf_lab.results import RunFiles, as_json
from tcpf_lab.testbed import ssh_hosts, ssh_modules, ssh_probe, ssh_programs
from tcpf_lab.testbed.base import ON_HOSTS
from tcpf_lab.testbed.beside import side_by_side
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh_needs import starts_ours
from tcpf_lab.testbed.ssh_run import REQUESTS, HostRun, RequestLog
from tcpf_lab.testbed.ssh_session import BY_HAND, Connect, Session

#: Keys of an inventory that say how hosts are reached and kept, not what runs on what.
_NOT_IDENTITY = {"title", "ssh", "state_directory"}
_NOT_IDENTITY_OF_HOSTS = {"user", "port", "control", "kernel"}


@dataclass(frozen=True)
class SshTestbed:
    """Run plans on the hosts of an inventory."""

    inventory: Inventory
    kernel: str = ""  #: release of the hosts' kernels, where it is known without asking them
    connect: Connect = ssh_hosts.SshHost
    _seen: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    clock = "real"
    generator = ON_HOSTS
    parallel = False

    @property
    def name(self) -> str:
        """The inventory's name."""
        return self.inventory.name

    def identity(self, plan: Plan) -> dict[str, str]:
        """Identify the inventory, the kernel, and the sources of what ``plan`` loads and starts.

        Asks no host: the state of results can be told without them.  Kernels that are not known
        beforehand are recorded in the facts of each run.
        """
        parts = {"inventory": as_json(_what_matters(self.inventory)), "kernel": self.kernel}
        if _modules(plan):
            parts["modules"] = ssh_modules.source_hash(ssh_modules.sources())
        if any(map(starts_ours, plan.steps)):
            parts["programs"] = ssh_programs.source_hash()
        return parts

    def check(self, plan: Plan) -> tuple[str, ...]:
        """Look at the plan, then at every host, changing nothing; return all problems."""
        roles = [step.node for step in plan.steps if isinstance(step, AddNode)]
        links = [step for step in plan.steps if isinstance(step, AddLink)]
        rates = {(link.ends[0].node, link.ends[1].node): link.rate for link in links}
        wires = [(link.ends[0].node, link.ends[1].node) for link in links if link.ring]
        found = [*self.inventory.misfits(roles, rates, wires)]
        files = ssh_modules.sources()
        found += [
            f"there is no kernel module {name} in tcpf-lab (kernel/sched/{name}.c)"
            for name in ssh_modules.missing(_modules(plan), files)
        ]
        return (*found, *self._problems_of_hosts(plan))

    def execute(self, plan: Plan, run: RunFiles, seed: int) -> None:  # noqa: ARG002 - in the plan
        """Carry ``plan`` out; whatever happens, have everything undone on all hosts."""
        token = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
        session = Session(self.inventory, token, self.connect, RequestLog(run.root / REQUESTS))
        work = HostRun(plan, session, run)
        try:
            session.open()
            self._seen["hosts"] = work.carry_out()
        except LabError as error:
            work.bring_logs()
            raise _with_remainder(error, session.end(), self.inventory.testbed, run) from None
        except BaseException:
            _tell(session.end())
            raise
        if left := session.end():
            raise _with_remainder(
                TestbedError("not everything was undone"), left, self.inventory.testbed, run
            )

    def facts(self, plan: Plan) -> dict[str, Any]:
        """Describe the inventory and, after a run of this process, the hosts as they were then."""
        return {
            "inventory": _what_matters(self.inventory),
            "modules": list(_modules(plan)),
            "hosts": {name: _brief(facts) for name, facts in self._seen.get("hosts", {}).items()},
        }

    def _problems_of_hosts(self, plan: Plan) -> list[str]:
        def look(name: str) -> list[str]:
            try:
                with contextlib.closing(self.connect(self.inventory, name)) as host:
                    return [*ssh_probe.problems(host, self.inventory, plan)]
            except TestbedError as error:
                return [f"{error.where}: {error.message} ({error.hint})"]

        found = side_by_side(look, self.inventory.hosts)
        return [sentence for each in found.values() for sentence in each]


def _modules(plan: Plan) -> tuple[str, ...]:
    """List the modules that ``plan`` loads, each once."""
    return tuple(dict.fromkeys(step.name for step in plan.steps if isinstance(step, LoadModule)))


def _what_matters(inventory: Inventory) -> dict[str, Any]:
    """Give what of an inventory may change results."""
    data: dict[str, Any] = inventory.model_dump(mode="json", exclude=_NOT_IDENTITY)
    for host in data["hosts"].values():
        for key in _NOT_IDENTITY_OF_HOSTS:
            host.pop(key, None)
    return data


def _brief(facts: dict[str, Any]) -> dict[str, Any]:
    kept = ("roles", "uname", "os", "cpus", "virtualization", "tools", "project_modules")
    return {key: facts[key] for key in kept if key in facts}


def _with_remainder(error: LabError, left: tuple[str, ...], name: str, run: RunFiles) -> LabError:
    """Give the first error, and after it what could not be undone."""
    more = "".join(f"\n  {sentence}" for sentence in left)
    hints = [error.hint] if error.hint else []
    if any(BY_HAND not in sentence for sentence in left):
        hints.append(f"`{command('clean', '--testbed', name)}` undoes what is left")
    if any(BY_HAND in sentence for sentence in left):
        hints.append("what is lost is to be mended by hand: no record of it is kept")
    message = f"{error.message}{more}\n  log: {run.log}"
    return type(error)(message, where=error.where, hint="; ".join(hints))


def _tell(left: tuple[str, ...]) -> None:
    """Say what could not be undone when nobody takes an error any more."""
    for sentence in left:
        logging.getLogger(__name__).warning(sentence)
