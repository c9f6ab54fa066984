"""Packets of two captures that may be the same, by their identity alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcpf_lab.trace.identity import MarkArray

#: Identities that are compared, at most, on either side.
_SAMPLE = 1 << 18
#: Packets with one identity that are all compared with each other, on one side times the other.
_GROUP = 1024
#: Pairs altogether, at most; those of the rarest identities are taken first.
_PAIRS = 1 << 22
#: A difference with this share of the winner's votes is as good.
_AS_GOOD = 0.9


@dataclass(frozen=True)
class Pairs:
    """Packets of both captures that may be the same.

    Attributes
    ----------
    first, second : int64, shape (n,)
        Rows of the marks.
    difference : int64, shape (n,)
        Time in the second capture less time in the first.
    weight : float64, shape (n,)
        1 for an identity that each capture has once, less the oftener they have it.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    difference: NDArray[np.int64]
    weight: NDArray[np.float64]

    def only(self, chosen: NDArray[np.bool_]) -> Pairs:
        """Give a part of them."""
        return Pairs(
            self.first[chosen],
            self.second[chosen],
            self.difference[chosen],
            self.weight[chosen],
        )


def _sampled(marks: MarkArray, share: int) -> tuple[Any, Any, Any, Any]:
    """Rows in the order of their identities; each identity, where it begins, how often it is."""
    bits = np.uint64((1 << share) - 1)
    rows = np.flatnonzero(((marks["identity"] >> np.uint64(40)) & bits) == 0)
    rows = rows[np.argsort(marks["identity"][rows], kind="stable")]
    found, begin, count = np.unique(marks["identity"][rows], return_index=True, return_counts=True)
    return rows, found, begin, count


def coincidences(first: MarkArray, second: MarkArray) -> Pairs:
    """Pair packets of the same identity, whenever they were seen.

    Parameters
    ----------
    first, second : array of MARK, shapes (n,) and (m,)
        The captures; of large ones a sample of identities is taken, the same in both.

    Returns
    -------
    Pairs
        Every packet of an identity with every one of the other capture, unless they are too many.
    """
    largest = max(first.size, second.size, 1)
    share = max(0, int(largest / _SAMPLE).bit_length())
    rows_a, known_a, begin_a, count_a = _sampled(first, share)
    rows_b, known_b, begin_b, count_b = _sampled(second, share)
    _, a, b = np.intersect1d(known_a, known_b, assume_unique=True, return_indices=True)
    m, n = count_a[a], count_b[b]
    rarest = np.argsort(m * n, kind="stable")
    few = rarest[: int(np.searchsorted(np.cumsum((m * n)[rarest]), _PAIRS))]
    few = few[(m * n)[few] <= _GROUP]
    a, b, m, n = a[few], b[few], m[few], n[few]
    each = m * n
    group = np.repeat(np.arange(each.size), each)
    place = np.arange(group.size) - np.repeat(np.cumsum(each) - each, each)
    i = rows_a[begin_a[a][group] + place // n[group]]
    j = rows_b[begin_b[b][group] + place % n[group]]
    difference = second["time_ns"][j] - first["time_ns"][i]
    return Pairs(i, j, difference, 1.0 / np.maximum(m, n)[group])


def most_agreed(pairs: Pairs, width: int) -> tuple[int, bool]:
    """Find the difference that most pairs are near to.

    Parameters
    ----------
    pairs : Pairs
        At least one.
    width : int
        How far differences that agree may be apart, ns.

    Returns
    -------
    tuple of (int, bool)
        The difference, ns, and whether another one is as good; then the smaller is given.
    """
    order = np.argsort(pairs.difference, kind="stable")
    difference, weight = pairs.difference[order], pairs.weight[order]
    total = np.concatenate([[0.0], np.cumsum(weight)])
    end = np.searchsorted(difference, difference + width, side="right")
    votes = total[end] - total[:-1]
    good = np.flatnonzero(votes >= _AS_GOOD * votes.max())
    # The middle of what a window holds: its edge may be a stray pair.
    half = (total[good] + total[end[good]]) / 2
    middle = difference[np.clip(np.searchsorted(total, half) - 1, 0, difference.size - 1)]
    best = int(middle[np.argmin(np.abs(middle))])
    return best, bool(np.any(np.abs(middle - best) > 2 * width))
