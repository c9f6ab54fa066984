"""Work for several hosts side by side, none of which can keep the program from ending."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from tcpf_lab.testbed.uml import guest

#: How often somebody who waits looks for a reason to stop, s.
LOOK_EVERY_S = 0.2
T = TypeVar("T")


def beside(work: Callable[[], T]) -> Future[T]:
    """Do ``work`` in a thread that nobody has to wait for when the program ends."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever awaits the future gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def side_by_side(
    work: Callable[[str], T], names: Iterable[str], look: Callable[[], None] = lambda: None
) -> dict[str, T]:
    """Do ``work`` for each of ``names`` at once.

    Parameters
    ----------
    work : callable
        Told one of the names.
    names : iterable of str
        The hosts.
    look : callable
        Called every now and then meanwhile; what it raises ends the waiting.

    Returns
    -------
    dict of str to what ``work`` returns
        In the order of ``names``.

    Raises
    ------
    KeyboardInterrupt
        If the runs are to stop; what is under way is not waited for.
    """
    futures = {name: beside(partial(work, name)) for name in names}
    pending = set(futures.values())
    while pending:
        done, pending = concurrent.futures.wait(
            pending, LOOK_EVERY_S, concurrent.futures.FIRST_EXCEPTION
        )
        for future in done:
            future.result()
        if guest.stopping():
            raise KeyboardInterrupt
        look()
    return {name: future.result() for name, future in futures.items()}
