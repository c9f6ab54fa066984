"""The verbs doctor and clean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli import console
from tcpf_lab.cli.main import echo
from tcpf_lab.cli.options import AsJson, TestbedName, argument, option
from tcpf_lab.results.command import command
from tcpf_lab.run import campaign
from tcpf_lab.spec.load import find, load_any
from tcpf_lab.spec.model import Experiment
from tcpf_lab.testbed import registry
from tcpf_lab.testbed.base import Check
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.uml.preflight import diagnose_uml

if TYPE_CHECKING:
    from tcpf_lab.testbed.ssh.session import Remainder


#: Whose needs hosts are held to if no experiment is named: one that runs on any testbed.
USUAL = "smoke.yaml"
_RESULTS = Path("results")


def doctor(
    spec: Annotated[str | None, argument("doctor SPEC", USUAL)] = None,
    testbed: TestbedName = "uml",
    as_json: AsJson = False,
) -> None:
    """Check what a testbed needs, and print the command that fixes each fault."""
    inventory = registry.inventory(testbed)
    if inventory is not None:
        experiment = _experiment(spec or USUAL).on(registry.generator(testbed))
        checks = _diagnose(inventory, experiment)
    elif spec is None:
        checks = diagnose_uml()
    else:
        message = f"testbed {testbed} is checked for all experiments at once; leave SPEC out"
        raise RequestError(message, where=spec)
    if as_json:
        console.print_json([asdict(check) for check in checks])
    else:
        console.show(console.check_table(checks))
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def clean(
    testbed: Annotated[str | None, option("clean --testbed")] = None,
    results: Annotated[Path | None, option("clean --results")] = None,
    dry_run: Annotated[bool, option("clean --dry-run")] = False,
    force: Annotated[bool, option("clean --force")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove files of failed and interrupted runs, or undo changes on a testbed's hosts."""
    if testbed is None:
        _clean_results(results or _RESULTS, dry_run, as_json)
        return
    if results is not None:
        raise RequestError("either --results or --testbed: one cleans here, the other the hosts")
    inventory = registry.inventory(testbed)
    if inventory is None:
        raise RequestError(
            f"testbed {testbed} has no hosts, and leaves nothing outside of its results",
            hint=f"`{command('clean')}` removes unfinished runs from the results",
        )
    _clean_hosts(inventory, dry_run, force, as_json)


def _experiment(name: str) -> Experiment:
    path = find(name)
    found = load_any(path)
    if isinstance(found, Experiment):
        return found
    raise RequestError(f"is {found.noun}; name one of its experiments", where=str(path))


def _diagnose(inventory: Inventory, experiment: Experiment) -> tuple[Check, ...]:
    # Here: the SSH library takes a while to load.
    from tcpf_lab.testbed.ssh.doctor import diagnose
    from tcpf_lab.testbed.ssh.steps import needs
    from tcpf_lab.testbed.ssh.survey import survey

    wanted = needs(experiment)
    with console.interruptible(), console.busy(f"asking {_several(inventory)}"):
        return diagnose(inventory, wanted, survey(inventory, wanted))


def _several(inventory: Inventory) -> str:
    number = len(inventory.hosts)
    return f"{number} hosts" if number > 1 else "the host"


def _clean_hosts(inventory: Inventory, dry_run: bool, force: bool, as_json: bool) -> None:
    from tcpf_lab.testbed.ssh import session  # here: the SSH library takes a while to load

    with console.interruptible(), console.busy(f"asking {_several(inventory)}"):
        found = session.clean(inventory, dry_run=dry_run, force=force)
    if as_json:
        console.print_json([asdict(each) for each in found])
    elif not found:
        echo(f"nothing to undo on {_several(inventory)}")
    else:
        rows = [row for each in found for row in _rows(each)]
        console.show(console.plain_table(("host", "run", "changes", "", ""), rows))
    if not all(each.ok for each in found):
        raise typer.Exit(1)


def _rows(found: Remainder) -> Iterator[tuple[str, ...]]:
    """Give the lines of one run: its state, and each change to undo."""
    first, *others = found.records or (found.detail,)
    yield found.host, found.run, str(found.changes), found.state, first
    yield from (("", "", "", "", record) for record in others)


def _clean_results(results: Path, dry_run: bool, as_json: bool) -> None:
    removed = campaign.clean(results, dry_run=dry_run)
    if as_json:
        console.print_json([str(path) for path in removed])
        return
    for path in removed:
        echo(f"{'would remove' if dry_run else 'removed'} {path}")
    if not removed:
        echo(f"nothing to clean in {results}")
