"""Where the machines of a path stand in its picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tcpf_lab.spec.graph import Graph

#: Senders, or receivers, that are drawn before the rest becomes an ellipsis.
MOST_HOSTS = 4
#: All in the picture's units, of which a line of text is about ten.
COLUMN, ROW, WIDTH, HEIGHT, EDGE = 134.0, 58.0, 46.0, 30.0, 34.0
#: Between machines beside each other above a router, and between the rows above and below.
_NEIGHBOUR, _STOREY = 62.0, 74.0


@dataclass(frozen=True)
class Place:
    """The middle of a machine."""

    x: float
    y: float


def stages(graph: Graph) -> list[tuple[str, ...]]:
    """Give the columns from left to right: senders, each router between them, receivers."""
    senders, receivers = zip(*graph.pairs, strict=True)
    ends = {senders[0], receivers[0]}
    routers, here = [], senders[0]
    for link in graph.path(senders[0], receivers[0]):
        here = link.b if link.a == here else link.a
        routers += [] if here in ends else [(here,)]
    return [senders, *routers, receivers]


def shown(stage: Sequence[str]) -> Sequence[str]:
    """Give the hosts of a column that are drawn: a few, and the last."""
    if len(stage) <= MOST_HOSTS:
        return stage
    return (*stage[: MOST_HOSTS - 1], stage[-1])


def places(graph: Graph) -> dict[str, Place]:
    """Give the place of every machine that is drawn.

    What joins the path from beside stands above the router where it does, what leaves it stands
    below the router behind.
    """
    columns = stages(graph)
    rows = max(min(len(stage), MOST_HOSTS + 1) for stage in columns)
    beside = _beside(graph, {name for stage in columns for name in stage})
    above = max((storey for _, storey in beside if storey > 0), default=0)
    half = max((rows - 1) * ROW / 2, above * _STOREY)
    middle = HEIGHT / 2 + (12 if rows == 1 else 16) + half
    found: dict[str, Place] = {}
    for column, stage in enumerate(columns):
        some = shown(stage)
        slots = len(some) + (len(stage) > len(some))
        for row, name in enumerate(some):
            # the last of many stands below the place of the ellipsis
            slot = row if len(some) == len(stage) or row < len(some) - 1 else row + 1
            y = middle + (slot - (slots - 1) / 2) * ROW
            found[name] = Place(EDGE + WIDTH / 2 + column * COLUMN, y)
    for (router, storey), names in beside.items():
        for index, name in enumerate(names):
            x = found[router].x + (index - (len(names) - 1) / 2) * _NEIGHBOUR
            found[name] = Place(x, found[router].y - storey * _STOREY)
    return found


def _beside(graph: Graph, path: set[str]) -> dict[tuple[str, int], list[str]]:
    """Group machines beside the path by the router they hang on, and how far above it (or below).

    Links are followed outwards from the path: against the data above it, with the data below.
    """
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    home = {name: (name, 0) for name in path}
    waiting = [name for name in (node.name for node in graph.nodes) if name in path]
    while waiting:
        here = waiting.pop(0)
        router, storey = home[here]
        for link in graph.links:
            if here not in (link.a, link.b):
                continue
            other, step = (link.a, 1) if link.b == here else (link.b, -1)
            if other not in home:
                home[other] = (router, storey + step)
                found[home[other]].append(other)
                waiting.append(other)
    return found
