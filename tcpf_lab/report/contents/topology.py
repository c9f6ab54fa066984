"""The path of an experiment as a picture: machines, links and the queues under test, as SVG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from tcpf_lab.base.units import format_duration, format_rate
from tcpf_lab.report.contents.model import sentences
from tcpf_lab.spec.graph import Graph, Link, Node

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
    """Give the columns from left to right: hosts, each router between them, hosts.

    Senders stand on the left, but for those of data in the opposite direction.
    """
    first = {link.a for link in graph.links}
    ends = [pair if pair[0] in first else pair[::-1] for pair in graph.pairs]
    left, right = zip(*ends, strict=True)
    routers, here = [], left[0]
    for link in graph.path(left[0], right[0]):
        here = link.b if link.a == here else link.a
        routers += [] if here in (left[0], right[0]) else [(here,)]
    return [left, *routers, right]


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


_SVG = "http://www.w3.org/2000/svg"
_INK, _ACCENT, _PAPER = "#111111", "#d2702f", "#eef2f8"
_FONTS = "DejaVu Sans, Verdana, sans-serif"
#: What is written under a machine where its role is not the word for it.
_ROLES = {"bottleneck": "queue under test"}
#: From the middle of a machine to below the word under it.
_BELOW = HEIGHT / 2 + 16


def draw_topology(graph: Graph) -> str:
    """Draw a graph from its senders on the left to its receivers on the right.

    Parameters
    ----------
    graph : Graph
        Of one chain of routers, whatever joins or leaves it beside; hosts beyond the fourth on a
        side are given as a number.

    Returns
    -------
    str
        SVG. Links have their rate above them, and below them the delay that is added, with an arrow
        in the direction of the packets that wait.
    """
    standing = places(graph)
    width = max(
        2 * EDGE + WIDTH + COLUMN * (len(stages(graph)) - 1),
        max(place.x for place in standing.values()) + WIDTH / 2 + EDGE,
    )
    height = max(place.y for place in standing.values()) + HEIGHT / 2 + 24
    svg = ET.Element("svg", xmlns=_SVG, viewBox=f"0 0 {width:g} {height:g}")
    svg.attrib |= _attributes(
        width=width, height=height, font_family=_FONTS, font_size=9, role="img"
    )
    along = {name for stage in stages(graph) for name in stage}
    named: set[tuple[str, ...]] = set()
    for link in graph.links:
        if {link.a, link.b} <= standing.keys():
            draw = _draw_link if {link.a, link.b} <= along else _draw_beside
            draw(svg, link, standing[link.a], standing[link.b], named)
    for node in graph.nodes:
        if node.name in standing:
            _draw_node(svg, node, standing[node.name])
    _draw_rest(svg, graph, standing)
    return ET.tostring(svg, encoding="unicode") + "\n"


def described(graph: Graph) -> str:
    """Say in words what the picture shows."""
    senders, *_, receivers = stages(graph)
    (words,) = sentences(
        "topology",
        senders=len(senders),
        receivers=len(receivers),
        links=[(link.a, link.b, format_rate(link.rate)) for link in _drawn_links(graph)],
        queues=[f"at {link.a} towards {link.b}" for link in graph.bottlenecks],
        cross=graph.cross,
    )
    return words


def _drawn_links(graph: Graph) -> list[Link]:
    hidden = {name for stage in stages(graph) for name in stage[1:]}
    return [link for link in graph.links if not {link.a, link.b} & hidden]


def _draw_rest(svg: ET.Element, graph: Graph, standing: dict[str, Place]) -> None:
    """Say how many hosts stand for the ellipsis."""
    for stage in stages(graph):
        if len(stage) > MOST_HOSTS:
            *_, last_but_one, last = (standing[name] for name in shown(stage))
            hidden = f"… {len(stage) - MOST_HOSTS} more"
            _text(svg, last.x, (last_but_one.y + last.y) / 2 + 3, hidden)


def _draw_node(svg: ET.Element, node: Node, place: Place) -> None:
    tested = node.role == "bottleneck"
    look = (_ACCENT, 1.6) if tested else (_INK, 1)
    left, top = place.x - WIDTH / 2, place.y - HEIGHT / 2
    _rectangle(svg, left, top, WIDTH, HEIGHT, rx=6, fill=_PAPER, **_stroke(*look))
    _text(svg, place.x, place.y + 4, node.name, weight="bold", size=11)
    _text(svg, place.x, place.y + HEIGHT / 2 + 12, _ROLES.get(node.role, node.role))


def _draw_link(
    svg: ET.Element, link: Link, a: Place, b: Place, named: set[tuple[str, ...]]
) -> None:
    """Draw a link; of several equal ones between the same columns only the first is labelled."""
    start, end = a.x + WIDTH / 2, b.x - WIDTH / 2
    look = (_ACCENT, 2.4) if link.bottleneck else (_INK, 1)
    _line(svg, (start, a.y), (end, b.y), *look)
    if link.bottleneck:
        for packet in range(4):  # that wait at its start
            _rectangle(svg, start + 3 + 4.5 * packet, a.y - 7, 3, 14, fill=_ACCENT)
    column = f"{start:g}"
    rate, delay = f"{format_rate(link.rate)}/s", _delay(link)
    fresh = [word for word in (rate, delay) if word and (column, word) not in named]
    named.update((column, word) for word in fresh)
    middle, top = (start + end) / 2 + (10 if link.bottleneck else 0), min(a.y, b.y) - 6
    if fresh == [delay]:  # unequal delays of a fan each stand at their own end of it
        _text(svg, end - 26, b.y + (-7 if b.y <= a.y else 13), delay, halo=True)
        return
    below = top + 19 if a.y == b.y else top  # of links that fan out the space below is taken
    if rate in fresh:
        _text(svg, middle, top if a.y == b.y or not delay else top - 11, rate)
    if delay in fresh:
        _text(svg, middle, below, delay)


def _draw_beside(
    svg: ET.Element, link: Link, a: Place, b: Place, named: set[tuple[str, ...]]
) -> None:
    """Draw a link downwards, to or from a machine beside the path; equal ones are labelled once."""
    start, end = a.y + _BELOW, b.y - HEIGHT / 2
    _line(svg, (a.x, start), (b.x, end), _INK, 1)
    labels = (format_rate(link.rate), _delay(link, down="↓", up="↑"))
    if (f"{a.y:g}", *labels) in named:
        return
    named.add((f"{a.y:g}", *labels))
    side = -32 if a.x < b.x else 32  # of machines beside each other the left one's is on the left
    words = [f"{labels[0]}/s", *filter(None, labels[1:])]
    for index, text in enumerate(words):
        height = (start + end) / 2 + 3 + 11 * (index - (len(words) - 1) / 2)
        _text(svg, (a.x + b.x) / 2 + side, height, text)


def _delay(link: Link, down: str = "→", up: str = "←") -> str:
    there = f"{format_duration(link.delay_ab)} {down}" if link.delay_ab else ""
    back = f"{up} {format_duration(link.delay_ba)}" if link.delay_ba else ""
    return ", ".join(filter(None, (there, back)))


def _attributes(**values: str | float) -> dict[str, str]:
    """Give the attributes of an element; a dash in a name is an underscore here."""
    return {
        name.replace("_", "-"): value if isinstance(value, str) else f"{value:g}"
        for name, value in values.items()
    }


def _stroke(colour: str, width: float) -> dict[str, str]:
    return {"stroke": colour, "stroke_width": f"{width:g}"}


def _line(
    svg: ET.Element, start: tuple[float, float], end: tuple[float, float], *look: Any
) -> None:
    (x1, y1), (x2, y2) = start, end
    ET.SubElement(svg, "line", _attributes(x1=x1, y1=y1, x2=x2, y2=y2, **_stroke(*look)))


def _rectangle(
    svg: ET.Element, x: float, y: float, width: float, height: float, **look: str | float
) -> None:
    ET.SubElement(svg, "rect", _attributes(x=x, y=y, width=width, height=height, **look))


def _text(
    svg: ET.Element,
    x: float,
    y: float,
    text: str,
    weight: str = "normal",
    size: float = 9,
    *,
    halo: bool = False,
) -> None:
    """Write centred text; with a halo a line behind it is interrupted."""
    place: dict[str, Any] = {"x": x, "y": y, "text_anchor": "middle", "fill": _INK}
    place |= {"font_weight": weight, "font_size": size}
    if halo:
        behind = {**place, "fill": "#ffffff", **_stroke("#ffffff", 3)}
        ET.SubElement(svg, "text", _attributes(**behind)).text = text
    ET.SubElement(svg, "text", _attributes(**place)).text = text
