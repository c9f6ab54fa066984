"""The verb that lists results: status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tcpf_lab.cli import console
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import AsJson, RunsIfAny
from tcpf_lab.report.table import TerminalTable
from tcpf_lab.results.command import command, options
from tcpf_lab.results.layout import ExperimentFiles, read_json
from tcpf_lab.results.storage import KINDS, Inventory, inventory, occupied, readable
from tcpf_lab.run.runner import RunState, State
from tcpf_lab.run.selection import Choice, choose
from tcpf_lab.spec.sweep import Run, Settings


def status(request: RunsIfAny, as_json: AsJson = False) -> None:
    """List experiments, or count the complete, invalid, stale, failed and missing runs of one."""
    if request.spec:
        show_states(choose(request), as_json)
        return
    results = request.results
    found = inventory(results)
    if as_json:
        console.print_json(_inventory_json(found, results))
    elif not found.stored:
        echo(f"no results in {results}")
    else:
        console.show(_experiments_table(found))
        echo(_total(found, results))


def show_states(choice: Choice, as_json: bool) -> None:
    """Print which runs are complete, stale, failed or missing, and their size on disk."""
    with console.busy(f"checking {len(choice.runs)} runs"):
        found = list(choice.states())
    if as_json:
        rows = [
            {
                "experiment": part.experiment.name,
                "run": run.id,
                **({"settings": dict(run.settings)} if run.settings else {}),
                "state": now.state.value,
                **({"invalid": reasons} if (reasons := _invalid(run, now, part.files)) else {}),
                **({"causes": list(now.causes)} if now.causes else {}),
                "bytes": _size(run, part.files),
            }
            for part, states in found
            for run, now in states
        ]
        console.print_json(rows)
        return
    for part, states in found:
        table = _state_table(states, part.files)
        table.title = part.experiment.name if choice.collection else ""
        console.show(table)
    causes = Counter(cause for _, states in found for _, now in states for cause in now.causes)
    if causes:
        listed = ", ".join(f"{cause} ({count})" for cause, count in causes.items())
        echo(f"stale or outdated, by cause (runs): {listed}")


def _invalid(run: Run, now: RunState, files: ExperimentFiles) -> list[str]:
    """Give the reasons for which a complete run is not valid."""
    metrics = files.run(run.id).metrics
    if now.state is not State.COMPLETE or not metrics.exists():
        return []
    return list((read_json(metrics).get("validity") or {}).get("reasons", ()))


def _size(run: Run, files: ExperimentFiles) -> int:
    """Give the bytes on disk of a run and of its unfinished attempt."""
    return sum(occupied(place.root) for place in (files.run(run.id), files.partial(run.id)))


def _state_table(states: Sequence[tuple[Run, RunState]], files: ExperimentFiles) -> TerminalTable:
    """Return the states of the runs, a row for each cell."""
    grouped: dict[tuple[str, Settings, int], Counter[State]] = {}
    sizes: Counter[tuple[str, Settings, int]] = Counter()
    invalid: Counter[tuple[str, Settings, int]] = Counter()
    for run, now in states:
        cell = run.case_name, run.settings, run.flows
        grouped.setdefault(cell, Counter())[now.state] += 1
        sizes[cell] += _size(run, files)
        invalid[cell] += bool(_invalid(run, now, files))
    axes = list(dict.fromkeys(key for _, settings, _ in grouped for key, _ in settings))
    first, *others = State
    shown = ("invalid",) * any(invalid.values())
    columns = (
        *("case", *axes, "flows", first.value, *shown),
        *(*(state.value for state in others), "size"),
    )
    rows = [
        (
            case,
            *(dict(settings).get(key, "-") for key in axes),
            str(flows),
            str(counts[first] or "-"),
            *(str(invalid[case, settings, flows] or "-") for _ in shown),
            *(str(counts[state] or "-") for state in others),
            _shown(sizes[case, settings, flows]),
        )
        for (case, settings, flows), counts in grouped.items()
    ]
    return console.plain_table(columns, rows, numbers=2 + len(axes))


def _shown(size: int) -> str:
    return readable(size) if size else "-"


def _experiments_table(found: Inventory) -> TerminalTable:
    """Return a row for each experiment of a results directory."""
    columns = ("experiment", "testbed", "complete", "failed", "size", *KINDS)
    rows = [
        (
            each.experiment,
            each.testbed,
            str(each.complete),
            str(each.failed or "-"),
            readable(each.total),
            *(_shown(each.sizes[kind]) for kind in KINDS),
        )
        for each in found.stored
    ]
    return console.plain_table(columns, rows, numbers=2)


def _total(found: Inventory, results: Path) -> str:
    text = f"{results}: {readable(found.total)} on disk"
    if found.elsewhere:
        text += f", {readable(found.elsewhere)} of it in no experiment"
    again = command("clean", *options(results=results))
    return f"{text}; `{again}` would free {readable(found.freed_by_clean)}"


def _inventory_json(found: Inventory, results: Path) -> dict[str, Any]:
    return {
        "results": str(results),
        "bytes": found.total,
        "bytes_elsewhere": found.elsewhere,
        "bytes_freed_by_clean": found.freed_by_clean,
        "experiments": [
            {
                "experiment": each.experiment,
                "testbed": each.testbed,
                "complete": each.complete,
                "failed": each.failed,
                "bytes": {"total": each.total, **each.sizes},
            }
            for each in found.stored
        ],
    }
