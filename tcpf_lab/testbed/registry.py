"""Testbeds by name: the virtual-time one, the virtual machines, and whatever an inventory names.

Only what runs on hosts loads the SSH library, which takes a while.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.results.command import command
from tcpf_lab.spec.traffic import Generator
from tcpf_lab.spec.words import unknown
from tcpf_lab.testbed import base
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.inventory import Inventory, inventories, load_inventory
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml.guest import UmlTestbed

VM = "vm"


def _uml() -> Testbed:
    kernel = uml_kernel.find()
    if kernel is None:
        damaged = "; ".join(uml_kernel.damaged())
        other = None if damaged else uml_kernel.any_built()
        if other is not None:
            return UmlTestbed(other, stands_in=True)
        raise TestbedError(
            damaged or "the virtual-time kernel is not built",
            where="testbed uml",
            hint=f"`{command('kernel', 'build')}`",
        )
    return UmlTestbed(kernel)


def _vm() -> Testbed:
    from tcpf_lab.testbed.ssh import builds
    from tcpf_lab.testbed.vm import guests
    from tcpf_lab.testbed.vm import kernel as vm_kernel

    guests.ensure_up()
    state = guests.require_up()
    kernel = vm_kernel.find(state.read_facts()["series"], state.cache)
    build = kernel.build if kernel is not None else None
    if kernel is not None and build is not None:  # else the guests build, which takes minutes
        uname = (kernel.release, build, platform.machine())
        builds.build_modules(kernel.directory, uname, lambda _phase, _share: None)
    return _up()


def _up() -> Testbed:
    """Return the testbed of the virtual machines, whose kernel is known: they must be up."""
    from tcpf_lab.testbed.vm import guests

    state = guests.require_up()
    return on_hosts(load_inventory(state.inventory), str(state.read_facts()["release"]))


#: Those that are not described by an inventory of the user's.
TESTBEDS: dict[str, Callable[[], Testbed]] = {"uml": _uml, VM: _vm}


def on_hosts(inventory: Inventory, kernel: str = "") -> Testbed:
    """Return the testbed of the hosts of an inventory; ``kernel`` is their release, if known."""
    from tcpf_lab.testbed.ssh.run import SshTestbed

    return SshTestbed(inventory, kernel)


def require(name: str) -> str:
    """Return the directory name of a testbed's results; refuse an unknown testbed.

    Raises
    ------
    RequestError
        Listing the allowed names.
    SpecError, SpecErrors
        If it is an inventory with an error.
    """
    return name if name in TESTBEDS else _inventory(name).name


def testbed(name: str) -> Testbed:
    """Return the testbed called ``name``; virtual machines are started for it.

    Raises
    ------
    RequestError
        If there is none of that name.
    TestbedError
        If it cannot be used yet.
    """
    return TESTBEDS[name]() if name in TESTBEDS else on_hosts(_inventory(name))


def inventory(name: str) -> Inventory | None:
    """Return the inventory behind a testbed, starting nothing; None if it has no hosts.

    Raises
    ------
    RequestError
        If there is no testbed of that name.
    TestbedError
        If it is that of the virtual machines, and they are not up.
    """
    if name == VM:
        from tcpf_lab.testbed.vm import guests

        return load_inventory(guests.require_up().inventory)
    return None if name in TESTBEDS else _inventory(name)


def generator(name: str) -> Generator:
    """Return the traffic generator of experiments that name none; no testbed has to be ready."""
    return base.ON_HOSTS if name == VM or name not in TESTBEDS else base.IN_VIRTUAL_TIME


def identity(name: str) -> Callable[[Plan], dict[str, str]] | None:
    """Return what identifies a testbed as it is now for a plan; None if it cannot be used here."""
    try:
        return (_up() if name == VM else testbed(name)).identity
    except TestbedError:
        return None


def _inventory(name: str) -> Inventory:
    allowed = (*TESTBEDS, *inventories())
    if name not in allowed and not Path(name).suffix and len(Path(name).parts) == 1:
        raise RequestError(unknown(f"unknown testbed '{name}'", name, allowed))
    return load_inventory(name)
