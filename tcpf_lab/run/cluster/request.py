"""Runs on a cluster, as they are asked for: what is refused, and what is loaded only then."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager

from tcpf_lab.base.errors import RequestError
from tcpf_lab.run import campaign
from tcpf_lab.run.selection import Choice
from tcpf_lab.testbed.base import Testbed
from tcpf_lab.testbed.uml.guest import UmlTestbed

#: What the extra `cluster` installs.
NEEDED = "distributed"


def check(address: str | None, choice: Choice, jobs: int) -> None:
    """Refuse what does not go together, before anything is built or touched.

    Raises
    ------
    RequestError
        If a cluster is asked for together with ``--jobs`` or with another testbed than ``uml``, or
        what it needs is not installed.
    """
    if address is None:
        return
    where = f"--cluster {address}"
    if jobs:
        raise RequestError(
            "--jobs is for this machine; a cluster makes as many runs at a time as it has workers",
            where=where,
            hint="leave one of the two out",
        )
    if choice.testbed_name != "uml":
        raise RequestError(
            f"testbed '{choice.testbed_name}' has its own machines; only 'uml' runs on a cluster",
            where=where,
            hint="leave --cluster out",
        )
    if importlib.util.find_spec(NEEDED) is None:
        raise RequestError(
            f"a cluster needs the Python package '{NEEDED}'",
            where=where,
            hint="pip install 'tcpf-lab[cluster]'",
        )


def executor(
    address: str, testbed: Testbed, choice: Choice, tell: Callable[[str], None]
) -> AbstractContextManager[Executor]:
    """Return the executor of a cluster; its libraries are loaded only now.

    Raises
    ------
    RequestError, TestbedError
        On entering it: as `tcpf_lab.run.cluster.executor.cluster_executor`.
    """
    from tcpf_lab.run.cluster.executor import cluster_executor

    assert isinstance(testbed, UmlTestbed), "held by `check`"
    return cluster_executor(address, testbed, campaign.samples(choice), tell)
