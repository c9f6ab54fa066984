"""The path of an experiment as a picture: machines, links and the queue under test, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from tcpf_lab.spec.graph import Graph, Link, Node, Role
from tcpf_lab.units import format_duration, format_rate

#: Senders, or receivers, that are drawn before the rest becomes an ellipsis.
MOST_HOSTS = 4

_SVG = "http://www.w3.org/2000/svg"
_INK, _ACCENT, _PAPER = "#111111", "#d2702f", "#eef2f8"
_FONTS = "DejaVu Sans, Verdana, sans-serif"
#: What is written under a machine; the roles are the model's.
_ROLES: dict[Role, str] = {
    "sender": "sender",
    "marker": "marker",
    "bottleneck": "queue under test",
    "router": "router",
    "receiver": "receiver",
}
#: All in the picture's units, of which a line of text is about ten.
_COLUMN, _ROW, _WIDTH, _HEIGHT, _EDGE = 134.0, 58.0, 46.0, 30.0, 34.0


@dataclass(frozen=True)
class _Place:
    x: float
    y: float


def draw_topology(graph: Graph) -> str:
    """Draw a graph from its senders on the left to its receivers on the right.

    Parameters
    ----------
    graph : Graph
        Of one chain of routers; hosts beyond the fourth on a side are told as a number.

    Returns
    -------
    str
        SVG. Links have their rate above them, and below them the delay that is added, with an arrow
        in the direction of the packets that wait.
    """
    places = _places(graph)
    width = 2 * _EDGE + _WIDTH + _COLUMN * (len(_stages(graph)) - 1)
    height = max(place.y for place in places.values()) + _HEIGHT / 2 + 24
    svg = ET.Element(
        "svg",
        {
            "xmlns": _SVG,
            "viewBox": f"0 0 {width:g} {height:g}",
            "width": f"{width:g}",
            "height": f"{height:g}",
            "font-family": _FONTS,
            "font-size": "9",
            "role": "img",
        },
    )
    named: set[tuple[str, str, str]] = set()
    for link in graph.links:
        if link.a in places and link.b in places:
            _draw_link(svg, link, places[link.a], places[link.b], named)
    for node in graph.nodes:
        if node.name in places:
            _draw_node(svg, node, places[node.name])
    _draw_rest(svg, graph, places)
    return ET.tostring(svg, encoding="unicode") + "\n"


def told(graph: Graph) -> str:
    """Say in words what the picture shows."""
    links = "; ".join(
        f"{link.a} to {link.b} at {format_rate(link.rate)}/s" for link in _drawn_links(graph)
    )
    (queue,) = graph.having("bottleneck")
    return (
        f"{len(graph.having('sender'))} sending and {len(graph.having('receiver'))} receiving "
        f"machines with routers in a row between them. Links: {links}. The queue under test is at "
        f"{queue.name} towards {graph.bottleneck.b}."
    )


def _drawn_links(graph: Graph) -> Iterable[Link]:
    shown = {node.name for stage in _stages(graph) for node in stage[:1]}
    return (link for link in graph.links if link.a in shown and link.b in shown)


def _stages(graph: Graph) -> list[tuple[Node, ...]]:
    """Columns from left to right: senders, each router, receivers."""
    routers = [n for n in graph.nodes if n.role not in ("sender", "receiver")]
    return [graph.having("sender"), *((node,) for node in routers), graph.having("receiver")]


def _places(graph: Graph) -> dict[str, _Place]:
    stages = _stages(graph)
    rows = max(min(len(stage), MOST_HOSTS + 1) for stage in stages)
    middle = _HEIGHT / 2 + (12 if rows == 1 else 16) + (rows - 1) * _ROW / 2
    places: dict[str, _Place] = {}
    for column, stage in enumerate(stages):
        shown = _shown(stage)
        slots = len(shown) + (len(stage) > len(shown))
        for row, node in enumerate(shown):
            # the last of many stands below the place of the ellipsis
            place = row if len(shown) == len(stage) or row < len(shown) - 1 else row + 1
            y = middle + (place - (slots - 1) / 2) * _ROW
            places[node.name] = _Place(_EDGE + _WIDTH / 2 + column * _COLUMN, y)
    return places


def _shown(stage: Sequence[Node]) -> Sequence[Node]:
    if len(stage) <= MOST_HOSTS:
        return stage
    return (*stage[: MOST_HOSTS - 1], stage[-1])


def _draw_rest(svg: ET.Element, graph: Graph, places: dict[str, _Place]) -> None:
    """Say how many hosts stand for the ellipsis."""
    for stage in _stages(graph):
        if len(stage) > MOST_HOSTS:
            before, last = places[stage[MOST_HOSTS - 2].name], places[stage[-1].name]
            hidden = f"… {len(stage) - MOST_HOSTS} more"
            _text(svg, last.x, (before.y + last.y) / 2 + 3, hidden)


def _draw_node(svg: ET.Element, node: Node, place: _Place) -> None:
    tested = node.role == "bottleneck"
    box = {
        "x": f"{place.x - _WIDTH / 2:g}",
        "y": f"{place.y - _HEIGHT / 2:g}",
        "width": f"{_WIDTH:g}",
        "height": f"{_HEIGHT:g}",
        "rx": "6",
        "fill": _PAPER,
        "stroke": _ACCENT if tested else _INK,
        "stroke-width": "1.6" if tested else "1",
    }
    ET.SubElement(svg, "rect", box)
    _text(svg, place.x, place.y + 4, node.name, weight="bold", size=11)
    _text(svg, place.x, place.y + _HEIGHT / 2 + 12, _ROLES[node.role])


def _draw_link(
    svg: ET.Element, link: Link, a: _Place, b: _Place, named: set[tuple[str, str, str]]
) -> None:
    """Draw a link; of several equal ones between the same columns only the first is labelled."""
    start, end = a.x + _WIDTH / 2, b.x - _WIDTH / 2
    line = {
        "x1": f"{start:g}",
        "y1": f"{a.y:g}",
        "x2": f"{end:g}",
        "y2": f"{b.y:g}",
        "stroke": _ACCENT if link.bottleneck else _INK,
        "stroke-width": "2.4" if link.bottleneck else "1",
    }
    ET.SubElement(svg, "line", line)
    if link.bottleneck:
        _draw_queue(svg, start, a.y)
    label = (f"{start:g}", format_rate(link.rate), _delay(link))
    if label in named:
        return
    named.add(label)
    middle, top = (start + end) / 2 + (10 if link.bottleneck else 0), min(a.y, b.y) - 6
    below = top + 19 if a.y == b.y else top  # of links that fan out the space below is taken
    rate = top if a.y == b.y or not _delay(link) else top - 11
    _text(svg, middle, rate, f"{format_rate(link.rate)}/s")
    if _delay(link):
        _text(svg, middle, below, _delay(link))


def _delay(link: Link) -> str:
    there = f"{format_duration(link.delay_ab)} →" if link.delay_ab else ""
    back = f"← {format_duration(link.delay_ba)}" if link.delay_ba else ""
    return ", ".join(filter(None, (there, back)))


def _draw_queue(svg: ET.Element, x: float, y: float) -> None:
    """Draw packets that wait at the start of the bottleneck."""
    for place in range(4):
        packet = {
            "x": f"{x + 3 + 4.5 * place:g}",
            "y": f"{y - 7:g}",
            "width": "3",
            "height": "14",
            "fill": _ACCENT,
        }
        ET.SubElement(svg, "rect", packet)


def _text(
    svg: ET.Element, x: float, y: float, text: str, weight: str = "normal", size: float = 9
) -> None:
    place = {"x": f"{x:g}", "y": f"{y:g}", "text-anchor": "middle", "fill": _INK}
    look = {"font-weight": weight, "font-size": f"{size:g}"}
    ET.SubElement(svg, "text", {**place, **look}).text = text
