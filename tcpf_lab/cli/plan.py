"""The verbs plan and schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from tcpf_lab.base.errors import legible
from tcpf_lab.cli import console
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import AsJson, PlannedRuns, option
from tcpf_lab.plan.compose import compose
from tcpf_lab.run.selection import Choice, choose
from tcpf_lab.spec.load import STANDARD_INPUT
from tcpf_lab.spec.reference_docs import json_schema, schema_of
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.uml import guest_plan


def size(choice: Choice) -> dict[str, Any]:
    """Give the number of runs and the virtual time of an experiment."""
    seconds = sum(compose(run).virtual_seconds for run in choice.runs)
    return {"spec": str(choice.source), "runs": len(choice.runs), "virtual_seconds": seconds}


def plan_text(choice: Choice, *, instructions: bool = False) -> str:
    """Return the plan of the first run: to read, or as the guest's instructions."""
    plan = compose(choice.runs[0])
    return guest_plan.render(plan) if instructions else f"# {choice.runs[0].id}\n\n{plan}"


def plan(
    request: PlannedRuns,
    check: Annotated[bool, option("plan --check")] = False,
    instructions: Annotated[bool, option("plan --instructions")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the commands of an experiment's first run; runs of one cell differ only in the seed.

    `-` reads the experiment from standard input.
    """
    chosen = choose(replace(request, spec=str(STANDARD_INPUT)) if request.spec == "-" else request)
    if check:
        with console.busy(f"checking {len(chosen.runs)} runs"):
            summary = size(chosen)
        if as_json:
            console.print_json(summary)
        else:
            echo(f"{legible(str(chosen.source), keep='')}: ok: {summary['runs']} runs")
        return
    text = plan_text(chosen, instructions=instructions)
    if as_json:
        form = "instructions" if instructions else "plan"
        console.print_json({"run": chosen.runs[0].id, form: text.splitlines()})
    else:
        echo(text, nl=False)


def schema(testbed: Annotated[bool, option("schema --testbed")] = False) -> None:
    """Print the JSON Schema of experiment files or inventories."""
    console.print_json(schema_of(Inventory) if testbed else json_schema())
