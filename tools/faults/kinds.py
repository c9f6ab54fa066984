"""The kinds of faults, how often each is drawn, and the order in which they are told."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

from tools.faults import damage, inside, kills, places
from tools.faults.stage import Fault, Inject, run_ids


@dataclass(frozen=True)
class Kind:
    """One way to do harm.

    Parameters
    ----------
    inject : callable
        Does it, and says how the program answered.
    about : str
        For a table.
    weight : int
        So many of a hundred, about.
    finished : bool
        Whether all runs are there before.
    mounts : bool
        Whether it needs a mount namespace, which takes root.
    cache : bool
        Whether it needs a kernel's cache of its own.
    """

    inject: Inject
    about: str
    weight: int
    finished: bool = False
    mounts: bool = False
    cache: bool = False


KINDS = {
    "controller": Kind(kills.controller, "kill -9 of `tcpf-lab run`", 12),
    "worker": Kind(kills.worker, "kill -9 of a worker process", 8),
    "guest": Kind(kills.guest, "kill -9 of a guest", 8),
    "guest-process": Kind(kills.guest_program, "kill -9 of a guest's process on the host", 4),
    "tcpdump": Kind(inside.capture_program, "kill -9 of tcpdump in the guest", 6),
    "traffic": Kind(inside.traffic_program, "kill -9 of the traffic generator in the guest", 3),
    "interrupt": Kind(kills.interrupt_once, "SIGINT or SIGTERM once", 6),
    "interrupts": Kind(kills.interrupt_twice, "SIGINT or SIGTERM twice, to the group", 5),
    "disk-small": Kind(places.disk_small, "little disk space for results", 4, mounts=True),
    "disk-full": Kind(places.disk_filled, "disk filled at a random moment", 6, mounts=True),
    "read-only": Kind(
        places.read_only, "results read-only, from the start or at work", 4, mounts=True
    ),
    "clock-forward": Kind(inside.clock_forward, "the watchdog's clock jumps forward", 3),
    "clock-back": Kind(inside.clock_back, "the watchdog's clock jumps back", 2),
    "capture": Kind(damage.capture, "a stored capture damaged, then `analyze`", 8, finished=True),
    "counters": Kind(
        damage.counters, "counters or manifest damaged, then `analyze`", 6, finished=True
    ),
    "record": Kind(damage.record, "a run's record damaged, then `report`", 8, finished=True),
    "cache": Kind(damage.cache, "the kernel's cache damaged", 6, cache=True),
    "two": Kind(inside.two_controllers, "a second command on the same results", 6),
    "guest-memory": Kind(inside.guest_memory_eaten, "the guest out of memory, under way", 4),
    "guest-small": Kind(inside.guest_memory_small, "the guest out of memory, at boot", 2),
    "host-memory": Kind(
        inside.host_memory, "a guest or a worker out of the host's memory (RLIMIT_AS)", 4
    ),
    "place-small": Kind(places.memory_small, "no space for guest memory", 2, mounts=True),
    "place-full": Kind(
        places.memory_filled, "space for guest memory filled during runs", 4, mounts=True
    ),
}


# Which faults, in which order, at which moments: all from one seed.

#: What an earlier end by force leaves beside complete runs.
_SUFFIXES = (".partial", ".replaced.partial")
#: Longest delay of a moment, s: about what the rest of a command takes.
_STARTING_S, _WORKING_S = 6.0, 2.5


def draw(seed: int, number: int, only: Collection[str] = ()) -> list[Fault]:
    """Draw faults.

    Parameters
    ----------
    seed : int
        Any.
    number : int
        How many; the first ones are the same for every number.
    only : collection of str
        Kinds, if not all.
    """
    kinds = [name for name in KINDS if not only or name in only]
    deck: list[str] = []
    rng = random.Random(f"order {seed}")
    while len(deck) < number:
        # Every kind comes early, and in a hundred as often as it is to.
        hand = [name for name in kinds for _ in range(KINDS[name].weight)]
        rng.shuffle(hand)
        deck += (rng.sample(kinds, len(kinds)) if not deck else []) + hand
    return [_fault(seed, index, kind) for index, kind in enumerate(deck[:number])]


def _fault(seed: int, index: int, kind: str) -> Fault:
    rng = random.Random(f"fault {seed} {index} {kind}")
    runs = run_ids()
    count = len(runs) if KINDS[kind].finished else rng.randrange(len(runs))
    finished = tuple(sorted(rng.sample(runs, count)))
    leftovers = {name: rng.choice(_SUFFIXES) for name in runs if rng.random() < 0.15}
    at_work = rng.random() < 0.75
    delay = rng.uniform(0, _WORKING_S if at_work else _STARTING_S)
    return Fault(index, kind, finished, leftovers, at_work, delay, rng.getrandbits(48))
