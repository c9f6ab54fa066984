"""The study of buffers in slices of a flow (003): Figures 2 to 4, their numbers, its sentences.

``buffers.toml`` has the words of the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tcpf_lab.metrics.summary import mean_ci
from tcpf_lab.papers.figures import page_of_each
from tcpf_lab.report.claims.page import (
    Block,
    CellRuns,
    Claims,
    Drawing,
    Numbers,
    Page,
    Point,
    Table,
    Text,
    at_units,
    cells_of,
    ratio,
)
from tcpf_lab.report.claims.papers import Measured, PaperClaim, Words, paired
from tcpf_lab.report.contents.subject import Member
from tcpf_lab.report.style import CASES, CaseStyle
from tcpf_lab.spec.graph import Graph
from tcpf_lab.spec.model import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_PAPER = Words(Path(__file__).with_name("buffers.toml"))


def effective_rtt(rtts: Sequence[float]) -> float:
    r"""Give one round-trip time for flows of different ones: their harmonic mean, seconds.

    .. math:: T = \left( \frac 1 n \sum_i \frac 1 {T_i} \right)^{-1}

    A flow's rate is its window over its RTT, so it is the inverses that add up (Dhamdhere and
    Dovrolis 2006, section 2).

    Raises
    ------
    ValueError
        If there are none, or one is not above 0.

    Examples
    --------
    >>> round(effective_rtt([0.03, 0.15]), 6)
    0.05
    """
    times = np.asarray(rtts, np.float64)
    if times.size == 0 or not np.all(times > 0):
        raise ValueError("an effective RTT needs round-trip times above 0")
    return float(times.size / np.sum(1 / times))


def bandwidth_delay_product(rate: float, rtt: float) -> float:
    """Give B = C T, what most routers of the time had (Stergiou et al., section 2).

    Examples
    --------
    >>> bandwidth_delay_product(1e9, 0.075)
    9375000.0
    """
    _positive(rate=rate, rtt=rtt)
    return rate * rtt / 8


def long_flows_rule(rate: float, rtt: float, flows: float) -> float:
    r"""Give :math:`B = C T / \sqrt N` for N long-lived flows (Appenzeller et al. 2004).

    Examples
    --------
    >>> long_flows_rule(1e9, 0.075, 900)
    312500.0
    """
    _positive(flows=flows)
    return bandwidth_delay_product(rate, rtt) / math.sqrt(flows)


def small_buffer_packets(largest_window: float, load: float = 0.8, share: float = 0.9) -> float:
    r"""Give the small-buffer rule's size, packets (Enachescu et al. 2006, Theorem 1).

    .. math:: B \ge \log_{1/\rho} \frac{W_{max}^2}{2 (1 - \theta)}

    Parameters
    ----------
    largest_window : float
        The flows' largest window W, packets.
    load : float
        Share rho of the capacity that is offered, between 0 and 1.
    share : float
        Share theta of that load which is to be carried, between 0 and 1.

    Raises
    ------
    ValueError
        If one is out of its range.

    Examples
    --------
    >>> round(small_buffer_packets(64), 1)
    44.5
    """
    _positive(largest_window=largest_window)
    if not 0 < load < 1 or not 0 < share < 1:
        raise ValueError("load and share must lie between 0 and 1")
    return math.log(largest_window**2 / (2 * (1 - share))) / -math.log(load)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0")


#: Rate of the study's link, bits/s; an experiment with another one is a scaled study.
STUDIED_RATE = 1e9
#: Sizes of the transfers of Figures 3 and 4: how ``metrics.json`` and how a reader calls them.
SIZES = {"100kB": "100 kB", "500kB": "500 kB", "1000kB": "1000 kB"}
#: Largest windows for which the small-buffer rule is marked, packets.
WINDOWS = (8, 1000)
#: Axis of the buffer in an experiment's matrix.
LIMIT = "queue.limit"
UTILISATION = "metrics.utilisation"
_ETHERNET = 14


@dataclass(frozen=True)
class Study:
    """What all runs of an experiment share.

    ``rate`` is that of the link in bits/s, ``rtts`` the round-trip times of its clients in seconds,
    ``packet`` the size of a full packet as the queue counts it.
    """

    rate: float
    rtts: tuple[float, ...]
    packet: float

    @property
    def scale(self) -> float:
        """By which factor rate, users and buffers are smaller than the study's."""
        return STUDIED_RATE / self.rate

    @property
    def scaled(self) -> bool:
        """Whether it is not of the study's own size."""
        return self.rate != STUDIED_RATE

    @property
    def rtt(self) -> float:
        """The effective round-trip time: the harmonic mean, seconds."""
        return effective_rtt(self.rtts)

    @property
    def product(self) -> float:
        """The bandwidth-delay product, bytes."""
        return bandwidth_delay_product(self.rate, self.rtt)

    def many_flows(self, users: int) -> float:
        """Size by the rule for a number of long flows, bytes."""
        return long_flows_rule(self.rate, self.rtt, users)

    @property
    def small(self) -> tuple[float, float]:
        """Sizes by the small-buffer rule for the minimum and maximum of ``WINDOWS``, bytes."""
        low, high = (self.packet * small_buffer_packets(window) for window in WINDOWS)
        return low, high


@dataclass(frozen=True, eq=False)
class Grid:
    """The cells of an experiment by users and buffer, both as the study's own size has them.

    ``cells`` has every cell requested, whether it has runs or not.
    """

    study: Study
    cells: dict[tuple[int, float], CellRuns]

    @cached_property
    def users(self) -> tuple[int, ...]:
        """Every number of users, ascending."""
        return tuple(sorted({users for users, _ in self.cells}))

    @cached_property
    def buffers(self) -> tuple[float, ...]:
        """Every buffer, bytes, ascending."""
        return tuple(sorted({size for _, size in self.cells}))

    @property
    def measured(self) -> int:
        """How many cells have a run."""
        return sum(1 for cell in self.cells.values() if cell.runs)

    def numbers(self, users: int, size: float, path: str) -> Numbers:
        """Give a number of a cell, empty where the cell has none."""
        cell = self.cells.get((users, size))
        return cell.number(path) if cell else Numbers({})


def study_of(experiment: Experiment) -> Study:
    """Give the common part of an experiment's runs."""
    graph = experiment.graph
    frame = _ETHERNET + min(link.mtu for link in graph.links)
    return Study(float(graph.bottleneck.rate), pair_rtts(graph), float(frame))


def pair_rtts(graph: Graph) -> tuple[float, ...]:
    """Give the delay there and back between each sender and its receiver, seconds."""
    senders, receivers = graph.having("sender"), graph.having("receiver")
    hosts = {node.name for node in (*senders, *receivers)}
    result = []
    for sender, receiver in zip(senders, receivers, strict=True):
        others = hosts - {sender.name, receiver.name}
        path = [link for link in graph.links if not {link.a, link.b} & others]
        result.append(float(sum(link.delay_ab + link.delay_ba for link in path)))
    return tuple(result)


def grid_of(study: Study, cells: Iterable[CellRuns]) -> Grid:
    """Sort the cells of an experiment that have a buffer."""
    found = {}
    for cell in cells:
        size = cell.setting(LIMIT)
        if size is not None:
            key = round(cell.flows * study.scale), float(round(size * study.scale))
            found[key] = cell
    return Grid(study, found)


def throughput(size: str) -> str:
    """Where a run has the mean throughput of transfers of a size, bits/s."""
    return f"users.throughput_by_size.{size}.mean_bits_per_s"


FEW, SOME, MANY = 1000, 2000, 3000
#: From which buffers on a curve is to be flat, bytes: use, and transfers of each size.
KNEE = 400e3
PLATEAU = {"100kB": 100e3, "500kB": 300e3, "1000kB": 800e3}
#: Below which buffer throughput is to be flat with 3000 users, and to grow above it.
TURN = 800e3
#: Sentences on where a curve turns.
_TURNS = frozenset(
    f"buffers-{one}" for one in ("2-knee", "3-plateau", "4-flat", "4-alike", "4-steep", "4-more")
)

#: A buffer in bytes; in words, ``below 400 kB``, where the grid has no such.
Buffer = float | str
#: A place in the grid: users, buffer, and quantity.
Place = tuple[int, Buffer, str]
#: A sentence by its id, and the numbers that it is about behind their labels.
Asked = tuple[str, list[tuple[str, Measured]]]


def claims(grid: Grid) -> tuple[PaperClaim, ...]:
    """Give every sentence on the figures with its numbers.

    At a scaled size those on where a curve turns have their numbers, and no verdict.
    """
    undecidable = _PAPER.texts["no_turn"] if grid.study.scaled else ""
    return tuple(
        _PAPER.each(name, numbers, undecidable if name in _TURNS else "")
        for name, numbers in (*_utilisation(grid), *_few_users(grid), *_many_users(grid))
    )


def _below(grid: Grid, size: float) -> tuple[Buffer, ...]:
    """Give every smaller buffer; what is needed, in words, where there is none."""
    found = tuple(buffer for buffer in grid.buffers if buffer < size)
    return found or (f"below {_kb(size)}",)


def _beyond(grid: Grid, size: float) -> tuple[Buffer, ...]:
    """Give every larger buffer; what is needed, in words, where there is none."""
    found = tuple(buffer for buffer in grid.buffers if buffer > size)
    return found or (f"beyond {_kb(size)}",)


def _utilisation(grid: Grid) -> Iterator[Asked]:
    every = (FEW, SOME, MANY)
    least, most = _below(grid, KNEE)[0], _beyond(grid, KNEE)[-1]

    def use(users: int, size: Buffer) -> Place:
        return users, size, UTILISATION

    yield (
        "buffers-2-users",
        [
            _number(grid, [use(more, size), use(fewer, size)])
            for size, (fewer, more) in product(grid.buffers, pairwise(every))
        ],
    )
    yield "buffers-2-grows", [_number(grid, [use(n, KNEE), use(n, least)]) for n in every]
    yield "buffers-2-knee", [_number(grid, [use(n, most), use(n, KNEE)]) for n in every]
    yield "buffers-2-full", [_number(grid, [use(MANY, grid.buffers[-1])], float)]


def _few_users(grid: Grid) -> Iterator[Asked]:
    def speed(size: Buffer, transfer: str) -> Place:
        return FEW, size, throughput(transfer)

    yield (
        "buffers-3-size",
        [
            _number(grid, [speed(size, larger), speed(size, smaller)])
            for size, (smaller, larger) in product(grid.buffers, pairwise(SIZES))
        ],
    )
    yield (
        "buffers-3-plateau",
        [
            _number(grid, [speed(size, one), speed(start, one)])
            for one, start in PLATEAU.items()
            for size in _beyond(grid, start)
        ],
    )


def _many_users(grid: Grid) -> Iterator[Asked]:
    below, most = _below(grid, TURN), _beyond(grid, TURN)[-1]
    several = below if len(below) > 1 else (*below, f"another below {_kb(TURN)}")

    def speed(size: Buffer, transfer: str) -> Place:
        return MANY, size, throughput(transfer)

    flat = {
        f"{label}: highest over lowest below 800 kB": [speed(size, one) for size in several]
        for one, label in SIZES.items()
    }
    alike = {
        f"{_kb(size)}: fastest over slowest size": [speed(size, one) for one in SIZES]
        for size in below
    }
    for name, every in (("buffers-4-flat", flat), ("buffers-4-alike", alike)):
        yield name, [_number(grid, places, _spread, label) for label, places in every.items()]
    yield "buffers-4-steep", [_number(grid, [speed(most, one), speed(TURN, one)]) for one in SIZES]
    ends = [speed(size, one) for one in ("1000kB", "100kB") for size in (most, TURN)]
    label = "growth of 1000 kB over growth of 100 kB"
    yield "buffers-4-more", [_number(grid, ends, _growth, label)]


def _spread(*values: float) -> float:
    return ratio(max(values), min(values))


def _growth(end: float, start: float, other_end: float, other_start: float) -> float:
    return ratio(ratio(end, start), ratio(other_end, other_start))


def _number(
    grid: Grid, places: Sequence[Place], of: Callable[..., float] = ratio, label: str = ""
) -> tuple[str, Measured]:
    """Give a number made of those of some places, behind its label."""
    found = [_numbers(grid, *place) for place in places]
    missing = [_said(place) for place, one in zip(places, found, strict=True) if not one]
    return label or " over ".join(map(_said, places)), paired(of, *found, missing=missing)


def _numbers(grid: Grid, users: int, size: Buffer, path: str) -> Numbers:
    return Numbers({}) if isinstance(size, str) else grid.numbers(users, size, path)


def _said(place: Place) -> str:
    """Name a place: ``utilisation (N = 1000, 400 kB)``."""
    users, size, path = place
    name = next((label for key, label in SIZES.items() if path == throughput(key)), None)
    what = "utilisation" if name is None else f"throughput of {name}"
    return f"{what} (N = {users}, {_kb(size)})"


def _kb(size: Buffer) -> str:
    return size if isinstance(size, str) else f"{size / 1000:g} kB"


_ROOM = 46  # points above the axes for the rules' names
_RULE = "#555555"
_INTERVAL: dict[str, Any] = {"fmt": "none", "ecolor": "#111111", "capsize": 2.4, "zorder": 5}
_TICKS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_LOOKS = (CASES["TCPF+FRIO"], CASES["TB+RIO"], CASES["TCPF(O)+RIO"])


@dataclass(frozen=True)
class Line:
    """A line of a figure: what it is of, and its number at each buffer in bytes as it was run.

    ``users`` are those whose rule is marked in the line's colour, 0 for no mark.
    """

    label: str
    values: Mapping[float, Numbers]
    users: int = 0


def use_over_buffer(grid: Grid, name: str) -> Drawing:
    """Give Figure 2: link utilisation."""
    lines = [_line(grid, n, UTILISATION, f"N = {_run(grid, n)}", users=n) for n in grid.users]
    caption = "Link utilisation: bytes that left the link in the measured window over its capacity."
    axis = "Link utilisation"
    return _drawing(
        grid, f"{name}-2", "Figure 2", "link utilisation over the buffer size", lines, axis, caption
    )


def throughput_over_buffer(grid: Grid, name: str, number: int, users: int) -> Drawing:
    """Give Figure 3 or 4: mean throughput of transfers of three sizes."""
    lines = [
        _line(grid, users, throughput(size), label, scale=1e-3, users=users)
        for size, label in SIZES.items()
    ]
    of = f"throughput of transfers, {_run(grid, users)} users"
    caption = "Mean over transfers of the size within 20 %, bits over the time from SYN to the end."
    return _drawing(
        grid, f"{name}-{number}", f"Figure {number}", of, lines, "Mean throughput (kbit/s)", caption
    )


def _run(grid: Grid, nominal: int) -> int:
    """Number of users run for a number of the study."""
    return round(nominal / grid.study.scale)


def _line(grid: Grid, nominal: int, path: str, label: str, *, users: int, scale: float = 1) -> Line:
    found = {size: grid.numbers(nominal, size, path) for size in grid.buffers}
    values = {
        size / grid.study.scale: Numbers({seed: scale * value for seed, value in one.items()})
        for size, one in found.items()
        if one
    }
    return Line(label, values, _run(grid, users))


def _drawing(
    grid: Grid, name: str, number: str, of: str, lines: Sequence[Line], axis: str, caption: str
) -> Drawing:
    title = f"{number} of Stergiou et al.: {of}"
    measured = sum(len(line.values) for line in lines)
    total = len(lines) * len(grid.buffers)
    lacking = (f"{total - measured} of {total} points have no run",) if measured < total else ()
    return Drawing(
        name=f"fig-{name}",
        title=title,
        caption=" ".join((caption, _PAPER.texts["rules"])),
        points=tuple(
            Point(line.label, size, one.values_by_seed)
            for line in lines
            for size, one in line.values.items()
        ),
        frame=OverBuffer(
            title=of[0].upper() + of[1:],
            subtitle=_subtitle(grid),
            y=axis,
            lines=tuple((line.label, line.users) for line in lines),
            small=grid.study.small,
            product=grid.study.product,
            rules=tuple((n, grid.study.many_flows(n)) for n in _marked(lines)),
        ),
        missing=lacking,
        axis=axis,
    )


def _subtitle(grid: Grid) -> str:
    study = grid.study
    size = f"scaled by 1/{study.scale:g}, " if study.scaled else ""
    rtts = f"RTT {1e3 * min(study.rtts):g} to {1e3 * max(study.rtts):g} ms"
    return f"Stergiou et al., {size}{study.rate / 1e6:g} Mbit/s, {rtts}, {_runs(grid)} per point"


def _runs(grid: Grid) -> str:
    """Say how many runs a point stands for: ``1 run``, ``1 to 3 runs``."""
    counts = sorted({len(cell.runs) for cell in grid.cells.values() if cell.runs})
    if not counts:
        return "no run"
    if counts[-1:] == [1]:
        return "1 run"
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) + " runs"


def _marked(lines: Sequence[Line]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(line.users for line in lines if line.users))


@dataclass(frozen=True)
class OverBuffer:
    """Lines over the buffer, with the rules for its size marked.

    Parameters
    ----------
    title, subtitle, y : str
        What stands above; the y axis' words.
    lines : tuple of (str, int)
        The series, and of each the users whose rule is marked in its colour, 0 for no mark.
    small : tuple of float
        Ends of the band of small buffers, bytes.
    product : float
        Rate times round trip, bytes.
    rules : tuple of (int, float)
        Users, and the buffer that the rule of many flows gives them, bytes.
    """

    title: str
    subtitle: str
    y: str
    lines: tuple[tuple[str, int], ...]
    small: tuple[float, float]
    product: float
    rules: tuple[tuple[int, float], ...]

    def place(self, point: Point) -> str:
        """Say where a point is."""
        return at_units(point, "kB", 1e-3)

    def draw(self, points: Sequence[Point]) -> Figure:
        """Draw the lines; within ``house_style``."""
        from tcpf_lab.report.plots.canvas import (
            head,
            legend,
            line_entries,
            line_look,
            marker_look,
            panels,
        )

        figure, (axes,) = panels(1, 3.2)
        styles = {label: look for (label, _), look in zip(self.lines, _LOOKS, strict=False)}
        for label, style in styles.items():
            own = sorted((one for one in points if one.series == label), key=lambda one: one.x)
            x, found = [one.x / 1e3 for one in own], [mean_ci(one.values) for one in own]
            y = [mean for mean, _ in found]
            axes.plot(x, y, zorder=3, **line_look(style))
            axes.plot(x, y, zorder=4, **marker_look(style, 6))
            for at, (mean, half) in zip(x, found, strict=True):
                if half is not None:
                    axes.errorbar(at, mean, yerr=half, **_INTERVAL)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        self._mark_rules(axes, {users: styles[label] for label, users in self.lines if users})
        _axis(axes, self.y)
        head(axes, self.title, self.subtitle, lift=_ROOM)
        legend(figure, line_entries(styles, 6))
        return figure

    def _mark_rules(self, axes: Axes, users: Mapping[int, CaseStyle]) -> None:
        low, high = (size / 1e3 for size in self.small)
        axes.axvspan(low, high, facecolor="#eeeeee", linewidth=0, zorder=0)
        _name(axes, (low * high) ** 0.5, "small\nbuffer", _RULE, foot=True)
        axes.axvline(self.product / 1e3, **_dashed(_RULE))
        _name(axes, self.product / 1e3, "C T", _RULE)
        for count, size in self.rules:
            colour = users[count].colour if len(users) > 1 else _RULE
            axes.axvline(size / 1e3, **_dashed(colour))
            _name(axes, size / 1e3, f"C T/√{count}", colour)


def _dashed(colour: str) -> dict[str, Any]:
    return {"color": colour, "linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 1}


def _name(axes: Axes, at: float, name: str, colour: str, *, foot: bool = False) -> None:
    """Name a line above the axes, or the band at its foot: above it stand the names of lines."""
    axes.annotate(
        name,
        (at, 0 if foot else 1),
        (0, 3 if foot else 2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        rotation=0 if foot else 90,
        ha="center",
        va="bottom",
        fontsize=7,
        color=colour,
    )


def _axis(axes: Axes, name: str) -> None:
    """Write the axes' numbers: buffers in round kilobytes."""
    low, high = axes.get_xlim()
    unit = 1.0
    while low < _TICKS[0] * unit / 2:
        unit /= 10
    ticks = [tick * unit for tick in _TICKS if low <= tick * unit <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.tick_params(axis="x", bottom=True)
    axes.set_xlabel("Buffer (kB)")
    axes.set_ylabel(name)


def build(members: Sequence[Member], command: str) -> Page | None:
    """Give the page on Stergiou et al.; None if no experiment varies the buffer."""
    blocks = partial(_blocks, command=command)
    return page_of_each("buffers", "Router buffers (Stergiou et al.)", members, blocks)


def _blocks(member: Member, name: str, command: str) -> Iterator[Block]:
    study = study_of(member.experiment)
    grid = grid_of(study, cells_of(member.section))
    if not grid.cells:
        return
    size = _PAPER.texts["scaled" if study.scaled else "full"]
    yield Text(size.format(scale=study.scale), member.experiment.title)
    yield Text(f"{_sizes(study)} {_progress(grid)}")
    yield use_over_buffer(grid, name)
    yield throughput_over_buffer(grid, name, 3, FEW)
    yield throughput_over_buffer(grid, name, 4, MANY)
    yield _table(grid, name)
    yield Text("", "Claims of the paper")
    yield Claims(claims(grid), command)


def _sizes(study: Study) -> str:
    low, high = study.small
    return _PAPER.texts["sizes"].format(
        rtt=1e3 * study.rtt,
        clients=len(study.rtts),
        least=1e3 * min(study.rtts),
        most=1e3 * max(study.rtts),
        product=study.product / 1e3,
        low=low / 1e3,
        high=high / 1e3,
    )


def _progress(grid: Grid) -> str:
    done = f"{grid.measured} of {len(grid.cells)} points have a run."
    most = max((len(cell.runs) for cell in grid.cells.values()), default=0)
    return " ".join((done, _PAPER.texts["one_run"])) if most == 1 else done


def _table(grid: Grid, name: str) -> Table:
    rows = []
    for (_, size), cell in sorted(grid.cells.items(), key=lambda item: item[0]):
        speeds = [cell.number(throughput(one)).printed(0, 1e-3) for one in SIZES]
        rows.append(
            (
                str(cell.flows),
                f"{size / grid.study.scale / 1e3:g}",
                cell.number(UTILISATION).printed(3),
                *speeds,
                cell.number("metrics.packet_loss_percent").printed(2),
                cell.number("users.transfers").printed(0),
                cell.number("users.completion_s.mean").printed(3),
                str(len(cell.runs)),
            )
        )
    return Table(
        name="points" if name == "buffers" else f"{name}-points",
        columns=(
            *("users", "buffer (kB)", "utilisation"),
            *(f"{label} (kbit/s)" for label in SIZES.values()),
            *("loss (% of packets)", "transfers", "completion (s)", "runs"),
        ),
        rows=tuple(rows),
        caption="Every point: link utilisation, mean throughput of transfers by size, and "
        "transfers that ended in the measured window.",
        left=0,
    )
