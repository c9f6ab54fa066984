"""The verbs of ``tcpf-lab vm``: up, ssh, down, status."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

import typer

from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli import console
from tcpf_lab.cli.main import HELP_MARKUP, echo
from tcpf_lab.cli.options import AsJson, option
from tcpf_lab.results.command import command
from tcpf_lab.testbed.vm import guests, layout, machine
from tcpf_lab.testbed.vm import kernel as vm_kernel

#: What is done with the guests once they are up.
_NEXT = ("doctor --testbed vm", "run smoke.yaml --testbed vm", "vm ssh S", "vm down")

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=HELP_MARKUP,
    help="Start, enter and stop two virtual machines that serve as a testbed's hosts.",
)
Kernel = Annotated[str, option("vm --kernel", metavar="|".join(vm_kernel.SERIES))]
Accelerator = Annotated[str, option("vm --accelerator", metavar="|".join(machine.ACCELERATORS))]


@app.command()
def up(
    kernel: Kernel = vm_kernel.SERIES[0],
    accelerator: Accelerator = "auto",
    processors: Annotated[int, option("vm --processors", min=1, max=8)] = machine.Size.processors,
    memory: Annotated[int, option("vm --memory", min=512)] = machine.Size.memory_mb,
    as_json: AsJson = False,
) -> None:
    """Start the guests and wait until their five hosts answer; do nothing if they are up."""
    request = guests.Request(kernel, accelerator, machine.Size(processors, memory))
    with console.interruptible():
        found = guests.up(request, console.Announcer())
    if as_json:
        console.print_json(found)
        return
    echo(
        f"up after {found['took_s']} s: Linux {found['release']} under {found['accelerator']}\n"
        f"inventory: {found['inventory']}\n"
        "next:\n" + "\n".join(f"  {command(*words.split())}" for words in _NEXT)
    )


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def ssh(
    role: Annotated[str, typer.Argument(metavar="|".join(layout.ROLES))],
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND...]")] = None,
) -> None:
    """Log in to the host of a role, or run a command there."""
    if role not in layout.ROLES:
        allowed = ", ".join(layout.ROLES)
        raise RequestError(f"unknown role '{role}'; allowed: {allowed}")
    config = str(guests.require_up().ssh_config)
    os.execvp("ssh", ["ssh", "-F", config, layout.host_name(role), *(command or ())])


@app.command()
def down(as_json: AsJson = False) -> None:
    """Stop the guests and remove their files."""
    ended = guests.down(console.Announcer())
    if as_json:
        console.print_json({"ended": ended})
    else:
        echo("the guests are down" if ended else "no guests were up")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Print whether the guests are up, and their ports and processes."""
    found = guests.status()
    if as_json:
        console.print_json(found)
    elif found["up"]:
        console.show(console.plain_table(("role", "host", "port", "guest", "pid"), _rows(found)))
        echo(
            f"Linux {found['release']} under {found['accelerator']}, "
            f"up for {(time.time() - found['since']) / 60:.0f} min\n"
            f"inventory: {found['inventory']}"
        )
    elif found["crashed"]:
        echo(f"the guests have crashed; their consoles are in {found['files']}")
    else:
        echo("the guests are starting" if found["files"] else "no guests are up")


def _rows(found: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (role, layout.host_name(role), str(found["ports"][role]), name, str(guest["pid"]))
        for name, guest in found["guests"].items()
        for role in guest["roles"]
    ]
