"""What a run over RIO says in the model's terms: loads, losses by class, queue, causes of drops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcpf_lab.models.rio_scenario import paper_scenarios
from tcpf_lab.report.papers.cell_runs import CellRuns, Numbers, PaperRun
from tcpf_lab.results import RunFiles, read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.queue.rio import Rio

#: The three scenarios of the paper's Tables 1 to 3.
SCENARIOS = ("fully_overlapped", "non_overlapped", "partially_overlapped")
#: The model's own reading of RIO: the length now, of the whole queue, and independent drops.
MODEL_READING = "wred, instantaneous, independent drops"
CLASSES = ("in", "out")
CAUSES = ("early", "forced", "pdrop")
_ETHERNET = 14
_STATS = "qdisc-R1.json"


@dataclass(frozen=True, eq=False)
class RioCell:
    """A cell with RIO under test: which scenario it is of, and how the queue reads RIO.

    ``packet`` is the size of a full packet as the queue counts it, bytes.
    """

    runs: CellRuns
    scenario: str
    reading: str
    in_profile: int
    packet: float

    def quantity(self, name: str) -> Numbers:
        """Give a quantity of ``published_rio.QUANTITIES`` for each run."""
        return self.runs.each(_QUANTITIES[name](self))

    def cause(self, side: str, cause: str) -> Numbers:
        """Give the share of a class' packets that were dropped for a cause, from the queue."""
        return self.runs.each(lambda run: _share(run.files, side, cause))


def rio_cells(cells: Iterable[CellRuns]) -> tuple[RioCell, ...]:
    """Give those cells that have RIO as in one of the scenarios; they need a run to tell."""
    found = (_rio_cell(cell) for cell in cells if cell.runs)
    return tuple(cell for cell in found if cell is not None)


def _rio_cell(cell: CellRuns) -> RioCell | None:
    experiment = load(cell.runs[0].files.spec)
    queue = experiment.cases[cell.case].queue
    if not isinstance(queue, Rio):
        return None
    packet = frame_of(experiment)
    scenario = scenario_of(queue, packet)
    if scenario is None:
        return None
    return RioCell(cell, scenario, reading_of(queue), queue.in_, packet)


def frame_of(experiment: Experiment) -> float:
    """Give the size of a full packet as ``tc`` counts it, bytes."""
    return float(_ETHERNET + min(link.mtu for link in experiment.topology.graph().links))


def scenario_of(queue: Rio, packet: float) -> str | None:
    """Tell the scenario of section 4 that has a queue's parameters; None if none has.

    Other parameters have no published numbers, and must not be held against these.
    """
    bounds = (queue.in_min, queue.in_max, queue.out_min, queue.out_max)
    chances = (float(queue.in_probability), float(queue.out_probability))
    for name, one in paper_scenarios().items():
        packets = (one.in_min, one.in_max, one.out_min, one.out_max)
        same = tuple(packet * length for length in packets) == bounds
        if same and (one.in_probability, one.out_probability) == chances:
            return name
    return None


def reading_of(queue: Rio) -> str:
    """Say in words how a queue reads what the paper leaves open."""
    length = "instantaneous" if queue.ewma == 0 else f"average over 2^{queue.ewma}"
    drops = "independent drops" if queue.uniformize == "none" else "drops spread as RED does"
    return f"{queue.mode}, {length}, {drops}"


def _load(codes: Callable[[int], bool]) -> Callable[[PaperRun], float | None]:
    """Packets/s that came to the queue, lost ones included: of certain code points."""

    def of(run: PaperRun) -> float | None:
        rows = run.found.get("by_dscp")
        if not rows:
            return None
        return float(sum(row["packets_per_s"] for code, row in rows.items() if codes(int(code))))

    return of


def _loss(codes: Callable[[int], bool]) -> Callable[[PaperRun], float | None]:
    """Probability of loss of the packets of certain code points."""

    def of(run: PaperRun) -> float | None:
        rows = run.found.get("by_dscp")
        own = [row for code, row in rows.items() if codes(int(code))] if rows else []
        came = sum(row["packets"] for row in own)
        return sum(row["packets_lost"] for row in own) / came if came else None

    return of


def _queue(cell: RioCell) -> Callable[[PaperRun], float | None]:
    def of(run: PaperRun) -> float | None:
        backlog = run.number("metrics.backlog_mean_bytes")
        return None if backlog is None else backlog / cell.packet

    return of


_QUANTITIES: dict[str, Callable[[RioCell], Callable[[PaperRun], float | None]]] = {
    "T": lambda _: _load(lambda _: True),
    "T_in": lambda cell: _load(lambda code: code == cell.in_profile),
    "p_in": lambda cell: _loss(lambda code: code == cell.in_profile),
    "p_out": lambda cell: _loss(lambda code: code != cell.in_profile),
    "q_mean": _queue,
}


def _share(files: RunFiles, side: str, cause: str) -> float | None:
    counts = _counters(files.stats / _STATS).get(side)
    if not isinstance(counts, dict):
        return None
    came = sum(int(counts.get(name, 0)) for name in ("enqueued", *CAUSES))
    return int(counts.get(cause, 0)) / came if came else None


def _counters(path: Path) -> dict[str, Any]:
    """The statistics of the queue under test: of the whole run, warm-up included."""
    if not path.exists():
        return {}
    shown: list[dict[str, Any]] = read_json(path)
    return next((one for one in shown if one.get("kind") == "rio"), {})
