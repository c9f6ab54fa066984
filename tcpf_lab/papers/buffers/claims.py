"""What the study of buffers says of its Figures 2 to 4, as checks of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise, product
from typing import Any

from tcpf_lab.papers.buffers.curves import SIZES, UTILISATION, Grid, throughput
from tcpf_lab.report.claims.page import Numbers, ratio
from tcpf_lab.report.claims.paper import PaperCheck, PaperClaim, paired

FEW, SOME, MANY = 1000, 2000, 3000
#: From which buffers on a curve is said to be flat, bytes: use, and transfers of each size.
KNEE = 400e3
PLATEAU = {"100kB": 100e3, "500kB": 300e3, "1000kB": 800e3}
#: Below which buffer throughput is said to be flat with 3000 users, and to grow above it.
TURN = 800e3
#: What counts as no gain in use; as a plateau; as independent; as steep growth; as full use.
NO_GAIN, LEVEL, ALIKE, STEEP, FULL = 1.02, 0.1, 1.25, 1.5, 0.98
_SCALED = "at a scaled size packets do not shrink with the buffer, so no curve turns where it did"

#: A buffer in bytes; in words, ``below 400 kB``, where the grid has no such.
Buffer = float | str
#: A place in the grid: users, buffer, and what is looked at there.
Place = tuple[int, Buffer, str]


def claims(grid: Grid) -> tuple[PaperClaim, ...]:
    """Give every sentence on the figures with its numbers.

    At a scaled size those on where a curve turns have their numbers, and no verdict.
    """
    made = (*_utilisation(grid), *_few_users(grid), *_many_users(grid))
    return tuple(replace(claim, note=_note(claim)) for claim in made)


def _note(claim: PaperClaim) -> str:
    return next((f"not decidable: {c.undecidable}." for c in claim.checks if c.undecidable), "")


def _below(grid: Grid, size: float) -> tuple[Buffer, ...]:
    """Give every smaller buffer; what is needed, in words, where there is none."""
    found = tuple(buffer for buffer in grid.buffers if buffer < size)
    return found or (f"below {_kb(size)}",)


def _beyond(grid: Grid, size: float) -> tuple[Buffer, ...]:
    """Give every larger buffer; what is needed, in words, where there is none."""
    found = tuple(buffer for buffer in grid.buffers if buffer > size)
    return found or (f"beyond {_kb(size)}",)


def _utilisation(grid: Grid) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="003", section="4.1, Figure 2")
    least, most = _below(grid, KNEE)[0], _beyond(grid, KNEE)[-1]
    yield say(
        id="buffers-2-users",
        sentence="The more users, the higher the use of the link.",
        statement="Use with 2000 users over that with 1000, and with 3000 over that with 2000, is "
        "above 1 at every buffer.",
        checks=tuple(
            _ratio(grid, (more, size, UTILISATION), (fewer, size, UTILISATION), 1, strict=True)
            for size, (fewer, more) in product(grid.buffers, pairwise((FEW, SOME, MANY)))
        ),
    )
    yield say(
        id="buffers-2-grows",
        sentence="Use grows with the buffer until it saturates.",
        statement="Use at 400 kB over that at the smallest buffer is above 1 for every number of "
        "users.",
        checks=tuple(
            _ratio(grid, (n, KNEE, UTILISATION), (n, least, UTILISATION), 1, strict=True)
            for n in (FEW, SOME, MANY)
        ),
    )
    yield say(
        id="buffers-2-knee",
        sentence="Buffers beyond 400 kB bring no further use of the link, whatever the load.",
        statement="Use at the largest buffer is at most 1.02 times that at 400 kB.",
        checks=tuple(
            _ratio(grid, (n, most, UTILISATION), (n, KNEE, UTILISATION), high=NO_GAIN, where=True)
            for n in (FEW, SOME, MANY)
        ),
    )
    yield say(
        id="buffers-2-full",
        sentence="With 3000 users the link is fully used.",
        statement="Use with 3000 users at the largest buffer is at least 0.98.",
        checks=(_check(grid, _first, [(MANY, grid.buffers[-1], UTILISATION)], low=FULL),),
    )


def _few_users(grid: Grid) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="003", section="4.2, Figure 3")
    yield say(
        id="buffers-3-size",
        sentence="With 1000 users the larger a transfer, the higher its throughput.",
        statement="Throughput of 500 kB over that of 100 kB, and of 1000 kB over that of 500 kB, "
        "is above 1 at every buffer.",
        checks=tuple(
            _ratio(
                grid,
                (FEW, size, throughput(larger)),
                (FEW, size, throughput(smaller)),
                1,
                strict=True,
            )
            for size, (smaller, larger) in product(grid.buffers, pairwise(SIZES))
        ),
    )
    yield say(
        id="buffers-3-plateau",
        sentence="Throughput of 100, 500 and 1000 kB stays the same from 100, 300 and 800 kB on.",
        statement="Throughput at every larger buffer is within 10 % of that at the buffer named.",
        checks=tuple(
            _ratio(
                grid,
                (FEW, size, throughput(name)),
                (FEW, start, throughput(name)),
                1 - LEVEL,
                1 + LEVEL,
                where=True,
            )
            for name, start in PLATEAU.items()
            for size in _beyond(grid, start)
        ),
    )


def _many_users(grid: Grid) -> Iterator[PaperClaim]:
    yield from _many_users_below(grid)
    yield from _many_users_beyond(grid)


def _many_users_below(grid: Grid) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="003", section="4.2, Figure 4")
    below = _below(grid, TURN)
    several = below if len(below) > 1 else (*below, f"another below {_kb(TURN)}")
    yield say(
        id="buffers-4-flat",
        sentence="With 3000 users throughput does not depend on the buffer below 800 kB.",
        statement="For each size of transfer the highest throughput over the buffers below 800 kB "
        "is at most 1.25 times the lowest.",
        checks=tuple(
            _check(
                grid,
                _spread,
                [(MANY, size, throughput(name)) for size in several],
                high=ALIKE,
                where=True,
                label=f"{SIZES[name]}: highest over lowest below 800 kB",
            )
            for name in SIZES
        ),
    )
    yield say(
        id="buffers-4-alike",
        sentence="With 3000 users and below 800 kB it hardly depends on the size of the transfer.",
        statement="At every buffer below 800 kB throughput of the fastest of the three sizes is "
        "at most 1.25 times that of the slowest.",
        checks=tuple(
            _check(
                grid,
                _spread,
                [(MANY, size, throughput(name)) for name in SIZES],
                high=ALIKE,
                where=True,
                label=f"{_kb(size)}: fastest over slowest size",
            )
            for size in below
        ),
    )


def _many_users_beyond(grid: Grid) -> Iterator[PaperClaim]:
    say = partial(PaperClaim, document="003", section="4.2, Figure 4")
    most = _beyond(grid, TURN)[-1]
    yield say(
        id="buffers-4-steep",
        sentence="Beyond about 800 kB throughput grows sharply.",
        statement="For each size of transfer throughput at the largest buffer is at least 1.5 "
        "times that at 800 kB.",
        checks=tuple(
            _ratio(
                grid,
                (MANY, most, throughput(name)),
                (MANY, TURN, throughput(name)),
                STEEP,
                where=True,
            )
            for name in SIZES
        ),
    )
    ends = [(MANY, size, throughput(name)) for name in ("1000kB", "100kB") for size in (most, TURN)]
    yield say(
        id="buffers-4-more",
        sentence="Beyond about 800 kB it grows the more, the larger the transfer.",
        statement="Growth from 800 kB to the largest buffer is greater for 1000 kB than for "
        "100 kB: their ratio is above 1.",
        checks=(
            _check(
                grid,
                _growth,
                ends,
                low=1,
                strict=True,
                where=True,
                label="growth of 1000 kB over growth of 100 kB",
            ),
        ),
    )


def _first(value: float) -> float:
    return value


def _spread(*values: float) -> float:
    return ratio(max(values), min(values))


def _growth(end: float, start: float, other_end: float, other_start: float) -> float:
    return ratio(ratio(end, start), ratio(other_end, other_start))


def _ratio(
    grid: Grid,
    above: Place,
    below: Place,
    low: float = -math.inf,
    high: float = math.inf,
    **more: Any,
) -> PaperCheck:
    """Ask for the ratio of two places' numbers."""
    return _check(grid, ratio, [above, below], low=low, high=high, **more)


def _check(
    grid: Grid,
    quantity: Callable[..., float],
    places: Iterable[Place],
    *,
    low: float = -math.inf,
    high: float = math.inf,
    strict: bool = False,
    where: bool = False,
    label: str = "",
) -> PaperCheck:
    """Ask for a number made of those of some places; ``where`` says it is about where one is."""
    every = list(places)
    found = [_numbers(grid, *place) for place in every]
    missing = [_said(place) for place, one in zip(every, found, strict=True) if not one]
    return PaperCheck(
        label or " over ".join(map(_said, every)),
        paired(quantity, *found, missing=missing),
        low,
        high,
        strict,
        undecidable=_SCALED if where and grid.study.scaled else "",
    )


def _numbers(grid: Grid, users: int, size: Buffer, path: str) -> Numbers:
    return Numbers({}) if isinstance(size, str) else grid.numbers(users, size, path)


def _said(place: Place) -> str:
    """Name a place: ``use (N = 1000, 400 kB)``."""
    users, size, path = place
    name = next((said for key, said in SIZES.items() if path == throughput(key)), None)
    what = "use" if name is None else f"throughput of {name}"
    return f"{what} (N = {users}, {_kb(size)})"


def _kb(size: Buffer) -> str:
    return size if isinstance(size, str) else f"{size / 1000:g} kB"
