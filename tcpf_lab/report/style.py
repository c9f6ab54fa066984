"""How cases and metrics look, in every table and figure: the one place for it.

The colours run from dark to light in the order of the papers' rows, so that the bars stay apart in
greyscale; markers of the TCP-friendly family are blue, all others run from orange to yellow, a
pair of hues that the common colour deficiencies keep apart. Hatches tell neighbours apart as well.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from tcpf_lab.base.units import format_duration, format_rate
from tcpf_lab.spec.changing import Trace, changes_of, value_at
from tcpf_lab.spec.graph import Graph, Impairment, Link
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.tcp import PROFILES, Tcp

#: How a line can be drawn: matplotlib's lengths of dash and gap, in widths of the line.
Dash = tuple[float, tuple[float, ...] | None]
SOLID: Dash = (0, None)
_DASHES: dict[str, Dash] = {"dashed": (0, (4.2, 1.3)), "dotted": (0, (1.1, 1.1))}
#: What ``style.toml`` has.
_LOOKS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True)
class CaseStyle:
    """Look of one case: ``colour`` is ``#rrggbb``, ``hatch`` and ``marker`` are matplotlib's."""

    label: str
    colour: str
    hatch: str
    marker: str
    dash: Dash = SOLID


def _look(label: str = "", dash: str = "", **look: str) -> CaseStyle:
    return CaseStyle(label, **look, dash=_DASHES.get(dash, SOLID))


#: The seven cases of the papers, in the order of their tables.
CASES: dict[str, CaseStyle] = {look["label"]: _look(**look) for look in _LOOKS["cases"]}

#: Looks for cases that the papers do not have, taken in order and repeated when used up.
FALLBACK: tuple[CaseStyle, ...] = tuple(_look(**look) for look in _LOOKS["spare"])


def case_styles(cases: Sequence[str], among: Collection[str] = ()) -> dict[str, CaseStyle]:
    """Give every case its look; a case the papers do not have gets one by its name's place in such.

    Parameters
    ----------
    cases : sequence of str
        Those of a figure.
    among : collection of str
        All of the experiment: a case looks the same in a figure that lacks others of them. They
        count unless there are more than ``DISTINCT``. When ``FALLBACK`` is used up, the looks of
        known cases that are not among them go on.

    Examples
    --------
    >>> case_styles(["CoDel", "TB+RIO"])["CoDel"] == replace(FALLBACK[0], label="CoDel")
    True
    """
    every = {*cases, *among}
    if len(every) > DISTINCT:
        every = set(cases)
    spare = cycle((*FALLBACK, *(style for name, style in CASES.items() if name not in every)))
    others = {name: replace(next(spare), label=name) for name in sorted(every - CASES.keys())}
    looks = CASES | others
    return {name: looks[name] for name in dict.fromkeys(cases)}


def ranked_styles(labels: Sequence[str]) -> dict[str, CaseStyle]:
    """Give looks by place alone, where labels are not those of cases: of settings, or of runs."""
    looks = cycle((*CASES.values(), *FALLBACK))
    return {label: replace(next(looks), label=label) for label in dict.fromkeys(labels)}


#: Places of looks, the most different ones first.
_CONTRAST = (0, 3, 8, 7, 2, 4, 10, 1, 9, 5, 11, 6, 12)


def contrasting_styles(labels: Sequence[str]) -> dict[str, CaseStyle]:
    """Give looks by place alone, few of which are alike: cases do not resemble each other here."""
    looks = (*CASES.values(), *FALLBACK)
    order = cycle(looks[place] for place in _CONTRAST)
    return {label: replace(next(order), label=label) for label in dict.fromkeys(labels)}


#: So many looks differ from each other.
DISTINCT = len(CASES) + len(FALLBACK)


def lightness(colour: str) -> float:
    """Give the CIE lightness L* (0 black, 100 white) of ``#rrggbb``: how it prints in grey."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return 116 * luminance ** (1 / 3) - 16 if luminance > 0.008856 else 903.3 * luminance


def is_dark(colour: str) -> bool:
    """Say whether white shows better than black on ``#rrggbb``."""
    return lightness(colour) < 55


def fill_and_outline(style: CaseStyle) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two looks drawn over each other: matplotlib ties a hatch's colour to the edge's."""
    light = "#ffffff" if is_dark(style.colour) else "#111111"
    fill = {"facecolor": style.colour, "hatch": style.hatch, "edgecolor": light, "linewidth": 0}
    return fill, {"facecolor": "none", "edgecolor": "#111111", "linewidth": 0.7}


@dataclass(frozen=True)
class MetricStyle:
    """Words and number format of one metric.

    ``word`` is what a sentence calls it, and its ``slug`` a figure's file name; ``heading`` is the
    column of a table, ``title`` and ``axis`` belong to a figure; ``decimals`` holds for values
    below ``whole_from``, larger ones are printed whole.
    """

    name: str
    heading: str
    title: str
    axis: str
    unit: str
    word: str
    decimals: int
    whole_from: float = float("inf")

    @property
    def slug(self) -> str:
        """The word, fit for a file name."""
        return self.word.lower().replace(" ", "-")

    def places(self, mean: float) -> int:
        """Give the number of decimals that a mean and its interval are printed with."""
        return 0 if abs(mean) >= self.whole_from else self.decimals


#: The metrics of the tables, in the order of their columns.
METRICS: dict[str, MetricStyle] = {
    metric["name"]: MetricStyle(**metric) for metric in _LOOKS["metrics"]
}


def _other_metric(name: str, word: str, unit: str) -> MetricStyle:
    title = word[0].upper() + word[1:]
    return MetricStyle(name, word, title, title + (f" ({unit})" if unit else ""), unit, word, 2)


#: What can be drawn besides: numbers of ``metrics.json`` that no table has.
OTHER_METRICS: dict[str, MetricStyle] = {
    metric["name"]: _other_metric(**metric) for metric in _LOOKS["other_metrics"]
}

#: Metrics that a published column may have meant instead, and the column.
SECOND_READINGS: dict[str, str] = {
    "retransmitted_percent": "loss_percent",
    "goodput_ip_bytes_per_s": "goodput_bytes_per_s",
}

#: What made a sender send a packet: words, and matplotlib's properties of a marker.
EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    event["kind"]: (
        event["words"],
        {
            "linestyle": "none",
            "marker": event["marker"],
            "markersize": event["size"],
            "markerfacecolor": event["colour"],
            "markeredgecolor": "#111111",
            "markeredgewidth": 0.8,
        },
    )
    for event in _LOOKS["events"]
}


def _mark(**look: Any) -> dict[str, Any]:
    dash = _DASHES.get(look.get("linestyle", ""))
    return look | ({"linestyle": dash} if dash else {})


#: matplotlib's properties of what stands for the same in every figure.
MARKS: dict[str, dict[str, Any]] = {name: _mark(**m) for name, m in _LOOKS["marks"].items()}
#: Shade of the time before the measured window.
WARM_UP = MARKS["warm_up"]

#: What the delay of a probe is, by its kind.
PROBE_WORDS = {
    "icmp": "round-trip time",
    "udp": "one-way delay",
    "request": "completion time",
}

#: Metrics that the thesis draws, Figures 4.c.1 to 4.c.4 of configuration c.
DRAWN: tuple[str, ...] = ("timeouts", "loss_percent", "goodput_bytes_per_s", "goodput_cov")


@contextmanager
def house_style() -> Iterator[None]:
    """Draw with our settings only, whatever the user's own matplotlibrc says."""
    import matplotlib as mpl  # here, because tables use this module and need no matplotlib

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_LOOKS["rc"])
        yield


#: Keeps a number and its unit on one line of a caption.
NO_BREAK_SPACE = "\u00a0"
#: From so many different values on they are not listed one by one.
_FEW = 4


def conditions(experiments: Iterable[Experiment]) -> str:
    """Say in a few words under which conditions every run was made.

    Parameters
    ----------
    experiments : iterable of Experiment
        Those of the runs, in order: of what differs among them all values are listed, or the first
        and the last.
    """
    own = {"kernel", "topology", "tcp", "traffic"}
    different = {one.model_dump_json(include=own): one for one in experiments}
    columns = zip(*map(_conditions, different.values()), strict=True)
    words = []
    for column in columns:
        said = filter(None, column)
        if not (values := list(dict.fromkeys(one.replace(" ", NO_BREAK_SPACE) for one in said))):
            continue
        words.append(" or ".join(values) if len(values) < _FEW else f"{values[0]} to {values[-1]}")
    return ", ".join(words)


def path_delays(graph: Graph, time: float = 0) -> tuple[float, ...]:
    """Give the delay of the links there and back between each sender and its receiver, seconds.

    What impairments hold packets back for is part of it. Pairs are in the order of the hosts.
    ``time`` is the instant, in s, of delays that change.
    """
    senders, receivers = graph.having("sender"), graph.having("receiver")
    return tuple(
        sum(_added(link, time) for link in graph.path(sender.name, receiver.name))
        for sender, receiver in zip(senders, receivers, strict=True)
    )


def _said_of_rate(link: Link) -> str:
    """Give a link's rate; of one that changes the lowest and the highest, or a trace's mean."""
    if isinstance(link.changing, Trace):
        return f"{link.changing.name} (mean {link.changing.mean / 1e6:.3g} Mbit/s)"
    rates = [rate for _, rate in link.changing.steps] if link.changing else [link.rate]
    different = dict.fromkeys((min(rates), max(rates)))
    return f"{' to '.join(format_rate(rate) if rate else '0' for rate in different)}/s"


def _said_of_delays(graph: Graph) -> str:
    """Give the shortest and the longest delay of all pairs and instants."""
    held = (one.delay for link in graph.links for one in _impairments(link))
    instants = (0.0, *changes_of(*(link.delays_ba for link in graph.links), *held))
    delays = [delay for time in instants for delay in path_delays(graph, time)]
    return " to ".join(format_duration(d) for d in dict.fromkeys((min(delays), max(delays))))


def _added(link: Link, time: float) -> float:
    back = link.delay_ba if link.delays_ba is None else link.delays_ba.at(time)
    return link.delay_ab + back + _held_back(link, time)


def _held_back(link: Link, time: float) -> float:
    """What impairments of both directions add, seconds; jitter is about it, and adds nothing."""
    return sum(value_at(one.delay, time) for one in _impairments(link))


def _impairments(link: Link) -> list[Impairment]:
    return [one for one in (link.impairment_ab, link.impairment_ba) if one]


def _said_of_tcp(tcp: Tcp) -> str:
    """Give the profile, and what of Linux 2.2 it has if that is not all its own."""
    if set(tcp.behaviours) == set(PROFILES[tcp.profile].linux22):
        return tcp.profile
    return f"{tcp.profile} with {', '.join(tcp.behaviours) or 'nothing'} of Linux 2.2"


def _conditions(experiment: Experiment) -> tuple[str, ...]:
    graph = experiment.graph
    sack = "SACK" if experiment.tcp.sack else "no SACK"
    impaired = any(link.impairment_ab or link.impairment_ba for link in graph.links)
    return (
        f"{format_duration(experiment.traffic.duration)} after "
        f"{format_duration(experiment.traffic.warmup)} of warm-up",
        f"{_said_of_rate(graph.bottleneck)}{' half duplex' * bool(graph.bottleneck.ring)}",
        _said_of_delays(graph),
        f"{_said_of_tcp(experiment.tcp)} {sack}" + (" over an impaired path" if impaired else ""),
        f"Linux {experiment.kernel}" if experiment.kernel else "",
    )
