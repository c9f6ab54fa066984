"""The notebooks, and the examples of docs/results.md, work on freshly made results."""

from __future__ import annotations

import ast
import doctest
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import tcpf_lab

ROOT = Path(tcpf_lab.__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: What a notebook may import besides the public interface.
LIBRARIES = {"matplotlib", "numpy", "pandas", "pathlib", "scipy"}

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == kind]


def shell_cell(path: Path) -> str:
    """Return the cell that makes the data, without its first line."""
    magic, _, command = cells(path, "code")[0].partition("\n")
    assert magic == "%%sh"
    return command


@pytest.fixture(scope="session")
def place(uml: object, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """Return a checkout's part that notebooks see, with the results of smoke.yaml made once."""
    base = tmp_path_factory.getbasetemp()
    root = (base if worker_id == "master" else base.parent) / "explored"
    root.mkdir(exist_ok=True)
    here = root / "notebooks"
    with (root / "lock").open("w") as lock:  # the workers of one session share the data
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "results" / "smoke").exists():
            shutil.copytree(ROOT / "results" / "reference", root / "results" / "reference")
            here.mkdir()
            command = shell_cell(NOTEBOOKS[2])
            subprocess.run(["sh", "-c", command], cwd=here, env=environment(), check=True)
    return here


def environment() -> dict[str, str]:
    """Return an environment in which ``tcpf-lab`` is this one."""
    programs = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}


@each_notebook
def test_notebook_is_well_formed_and_has_no_output(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    nbformat.validate(nbformat.reads(text, as_version=4))
    for cell in json.loads(text)["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@each_notebook
def test_notebook_uses_the_public_interface_only(path: Path) -> None:
    imported: set[str] = set()
    for source in cells(path, "code"):
        if source.startswith("%%"):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module))
            elif isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_"), node.attr
    own = {name for name in imported if name.partition(".")[0] not in LIBRARIES}
    assert own == {"tcpf_lab"}


@each_notebook
def test_notebook_finds_the_program_without_a_path_to_it(path: Path, tmp_path: Path) -> None:
    if not cells(path, "code")[0].startswith("%%sh"):
        pytest.skip("makes no data")
    program, here = tmp_path / ".venv/bin/tcpf-lab", tmp_path / "notebooks"
    program.parent.mkdir(parents=True)
    here.mkdir()
    program.write_text('#!/bin/sh\necho "$1"\n')
    program.chmod(0o755)
    words = ["sh", "-c", shell_cell(path)]
    bare = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, cwd=here, env=bare, capture_output=True, text=True, check=True)
    assert done.stdout == "run\n"


@each_notebook
def test_notebook_links_lead_somewhere(path: Path) -> None:
    for text in cells(path, "markdown"):
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (path.parent / target).exists(), target


@pytest.mark.uml
@pytest.mark.full
@each_notebook
def test_notebook_runs_from_top_to_bottom(
    path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", environment()["PATH"])
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    notebook: Any = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": str(place)}}
    ).execute()
    said = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in said)
    assert "Warning" not in "".join(output.get("text", "") for output in said)
    answer = "".join(
        output.get("text", "")
        for output in notebook.cells[-1].outputs
        if output.output_type == "stream"
    )
    assert re.search(r"\d", answer), answer


@pytest.mark.uml
@pytest.mark.full
def test_examples_of_the_document_say_what_they_say(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.parent)
    failed, tried = doctest.testfile(
        str(ROOT / "docs" / "results.md"), module_relative=False, optionflags=doctest.ELLIPSIS
    )
    assert failed == 0
    assert tried > 20
