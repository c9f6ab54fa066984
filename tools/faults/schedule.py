"""Which faults, in which order, at which moments: all from one seed."""

from __future__ import annotations

import random
from collections.abc import Collection

from tools.faults.injected import Fault
from tools.faults.kinds import KINDS
from tools.faults.stage import run_ids

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
