"""What the extra `calibrate` installs: asked for before anything is run, loaded when it is used."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager
from typing import Any

from tcpf_lab.errors import RequestError

#: scikit-learn and what it brings, which keeps linear algebra to one thread.
NEEDED = ("sklearn", "threadpoolctl")


def check_installed() -> None:
    """Refuse to go on without the libraries.

    Raises
    ------
    RequestError
        If one is missing.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise RequestError(
            f"a calibration needs the Python package '{missing[0]}'",
            hint="pip install 'tcpf-lab[calibrate]'",
        )


def one_thread() -> AbstractContextManager[Any]:
    """Keep linear algebra to one thread: runs have the other processors, and sums stay the same.

    Several threads add in another order, and the last digits would depend on the machine.
    """
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(1)
    return limits
