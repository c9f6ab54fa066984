"""Testbeds by name."""

from __future__ import annotations

from collections.abc import Callable

from tcpf_lab.errors import RequestError, TestbedError
from tcpf_lab.plan.compose import Plan
from tcpf_lab.testbed import uml_kernel
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.uml import UmlTestbed


def _uml() -> Testbed:
    kernel = uml_kernel.find()
    if kernel is None:
        raise TestbedError(
            "the virtual-time kernel has not been built",
            where="testbed uml",
            hint="`tcpf-lab kernel build` (./lab does it by itself)",
        )
    return UmlTestbed(kernel)


TESTBEDS: dict[str, Callable[[], Testbed]] = {"uml": _uml}


def require(name: str) -> None:
    """Refuse a name that is not a testbed's.

    Raises
    ------
    RequestError
        Listing the allowed names.
    """
    if name not in TESTBEDS:
        raise RequestError(f"unknown testbed '{name}'; allowed: {', '.join(TESTBEDS)}")


def testbed(name: str) -> Testbed:
    """Return the testbed called ``name``.

    Raises
    ------
    RequestError
        If there is none of that name.
    TestbedError
        If it cannot be used yet.
    """
    require(name)
    return TESTBEDS[name]()


def identity(name: str) -> Callable[[Plan], str] | None:
    """Return what identifies a testbed as it is now for a plan; None if it cannot be used here."""
    try:
        return testbed(name).identity
    except TestbedError:
        return None
