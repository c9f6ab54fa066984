"""Imports go one way, and what makes data knows nothing of what reads it."""

from __future__ import annotations

import ast
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab.cli import main, plan
from tcpf_lab.testbed.uml import preflight

PACKAGE = Path(tcpf_lab.__file__).parent

#: Room -> the rooms it may import, floor by floor.
FLOORS: dict[str, set[str]] = {"base": set()}
FLOORS["results"] = {"base"}
FLOORS["spec"] = {"base", "results"}
FLOORS["plan"] = {"base", "spec"}
FLOORS["testbed"] = {"base", "results", "spec", "plan"}
FLOORS["trace"] = {"base"}
FLOORS["metrics"] = {"base", "results", "spec", "trace"}
FLOORS["report"] = {"base", "results", "spec", "trace", "metrics"}
FLOORS["papers"] = FLOORS["report"] | {"report"}
FLOORS["run"] = FLOORS["papers"] | {"papers", "plan", "testbed"}
FLOORS["calibration"] = FLOORS["run"] | {"run"}
FLOORS["cli"] = FLOORS["calibration"] | {"calibration"}
#: Stands alone on a host.
AGENT = "testbed.ssh.agent"
#: The only modules that print.
MAY_PRINT = {"cli/main.py", "cli/console.py", "spec/generate.py"}


@cache
def modules() -> dict[str, Path]:
    """Give every module by its name within the package; the package itself is not among them."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    del found["__init__"], found["__main__"]
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full names that a module imports, ``tcpf_lab.metrics.summary.analyse``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own(path: Path) -> set[str]:
    """Give the modules of the package that a module imports."""
    names = (name.partition("tcpf_lab.") for name in imported(parsed(path)))
    words = (rest for before, _, rest in names if not before)
    return {found for name in words if (found := _module(name))}


def _module(name: str) -> str:
    """Reduce the name of a member to that of its module."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name


def test_rooms_import_only_floors_below() -> None:
    wrong = []
    for name, path in modules().items():
        room = name.partition(".")[0]
        allowed = {AGENT} if name.startswith(AGENT) else FLOORS[room] | {room}
        for other in sorted(own(path)):
            below = any(f"{other}.".startswith(f"{one}.") for one in allowed)
            wrong += [] if below else [f"{name}: {other}"]
    assert wrong == []


def test_no_module_imports_itself_through_others() -> None:
    TopologicalSorter({name: own(path) - {name} for name, path in modules().items()}).prepare()


@pytest.mark.parametrize("side", ["plan", "metrics", "spec"])
def test_pure_rooms_start_no_process_and_open_no_connection(side: str) -> None:
    impure = {"subprocess", "socket", "multiprocessing", "fabric"}
    for path in (PACKAGE / side).rglob("*.py"):
        used = {name.partition(".")[0] for name in imported(parsed(path))}
        assert not used & impure, path


def test_only_the_command_line_prints() -> None:
    for path in modules().values():
        if str(path.relative_to(PACKAGE)) in MAY_PRINT:
            continue
        calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
        names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        assert "print" not in names, path
        assert "exit" not in names, path


def test_what_is_printed_goes_through_one_place() -> None:
    """It escapes what a terminal would obey: `cli.console.echo`, and the console's tables."""
    for path in modules().values():
        if str(path.relative_to(PACKAGE)) in ("cli/main.py", "cli/console.py"):
            continue
        calls = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
        used = {ast.unparse(call.func) for call in calls}
        assert not used & {"typer.echo", "click.echo"}, path


# What the command line loads before it does anything.

SENDERS = Path(__file__).parent / "data" / "senders"
#: What takes long to load.
HEAVY = (
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "tcpf_lab._trace",
    "paramiko",
    "tcpf_lab.metrics",
)


def loaded_by(*words: str) -> set[str]:
    """Modules that a command has loaded by the time it ends, in a process of its own."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['tcpf-lab', *{words!r}]\n"
        "from tcpf_lab.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout, "it has said what it was asked"
    return set(done.stderr.split())


def test_verbs_are_listed_without_loading_them() -> None:
    loaded = loaded_by("--help")
    assert not loaded.intersection(HEAVY)
    assert not loaded.intersection(f"tcpf_lab.cli.{verb.module}" for verb in main.VERBS.values())


def test_plan_needs_nothing_of_what_makes_or_reads_runs() -> None:
    assert not loaded_by("plan", "configA.yaml").intersection(
        {*HEAVY, "tcpf_lab.run.runner", "tcpf_lab.report"}
    )


def test_captures_are_analysed_without_what_draws() -> None:
    assert not loaded_by("analyze", "--help").intersection({"matplotlib", "tcpf_lab.run.campaign"})


def test_output_that_lacks_the_letters_of_a_name_has_their_escapes(tmp_path: Path) -> None:
    shutil.copy(SENDERS / "modern.pcap.zst", tmp_path / "日本.pcap.zst")
    done = subprocess.run(
        [sys.executable, "-m", "tcpf_lab", "analyze", "日本.pcap.zst"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SENDERS.parents[2]), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u65e5\u672c.pcap.zst" in done.stdout


@pytest.mark.parametrize(
    ("words", "limit_mb", "status"),
    [
        (("--help",), 40, 1),
        (("plan", "smoke", "--check"), 100, 0),
        (("doctor", "-h"), 100, 1),
        *(((verb, "-h"), 290, 1) for verb in ("run", "report", "analyze", "plot", "model")),
        (("run", "-h"), 1000, 0),
    ],
)
def test_a_limit_of_memory_ends_in_one_message_that_names_it(
    words: tuple[str, ...], limit_mb: int, status: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tcpf_lab", *words],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_mb * 2**20,) * 2),
    )
    assert done.returncode == status, done.stderr
    if status:
        message, _hint = done.stderr.splitlines()
        assert f"ulimit -v, the limit of address space, is {limit_mb} MB" in message


def test_memory_that_ends_later_on_names_the_limit_too(
    lab: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(plan, "choose", no_more)
    status, _, complaint = lab("plan", "smoke")
    assert status == 1
    assert complaint.startswith("error: memory is short: ")


def test_a_guest_larger_than_the_limit_is_refused_before_it_boots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1000 * 2**20,) * 2)
    assert "limit of address space, is 1000 MB" in str(preflight.memory_problem(1000))
    assert not preflight.memory_problem(100)
