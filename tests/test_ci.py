"""What continuous integration reads: well-formed, and no more than what anyone can run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from stress import kernel as stress_kernel
from tcpf_lab.testbed import uml_kernel

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github" / "workflows" / "ci.yml"
GITLAB = ROOT / ".gitlab-ci.yml"
SCHEMAS = {GITHUB: "vendor.github-workflows", GITLAB: "vendor.gitlab-ci"}
BOTH = pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)


def read(path: Path) -> dict[str, Any]:
    found = YAML(typ="safe").load(path)
    assert isinstance(found, dict)
    return found


def commands(path: Path) -> list[str]:
    if path == GITLAB:
        job = read(path)["test"]
        return [*job["before_script"], *job["script"]]
    return [step["run"] for step in read(path)["jobs"]["test"]["steps"] if "run" in step]


def check(path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


@BOTH
def test_the_file_fits_its_schema(path: Path) -> None:
    checked = check(path, SCHEMAS[path])
    assert checked.returncode == 0, checked.stdout


@BOTH
def test_a_misspelt_key_would_not_fit(path: Path, tmp_path: Path) -> None:
    wrong = tmp_path / path.name
    wrong.write_text(re.sub(r"^( +)image:", r"\1imagge:", path.read_text(), flags=re.MULTILINE))
    assert check(wrong, SCHEMAS[path]).returncode == 1


@BOTH
def test_the_tests_run_first_then_the_smallest_experiment_and_its_report(path: Path) -> None:
    own = [command for command in commands(path) if command.startswith("./lab")]
    assert own == ["./lab run smoke.yaml", "./lab report smoke.yaml --format pdf,html"]
    assert commands(path).index(".ci/run") < commands(path).index(own[0])


@BOTH
def test_pdf_and_html_are_kept(path: Path) -> None:
    if path == GITLAB:
        kept = read(path)["test"]["artifacts"]["paths"]
    else:
        upload = read(path)["jobs"]["test"]["steps"][-1]
        assert upload["uses"].startswith("actions/upload-artifact@")
        assert upload["with"]["if-no-files-found"] == "error"
        kept = upload["with"]["path"].split()
    assert kept == ["results/smoke/uml/*.pdf", "results/smoke/uml/*.html"]


def test_built_kernels_are_kept_where_they_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    kept = [
        step["with"]
        for step in read(GITHUB)["jobs"]["test"]["steps"]
        if step.get("uses", "").startswith("actions/cache@")
    ]
    places = [uml_kernel.cache_directory(), stress_kernel.cache_directory()]
    assert [Path(path).expanduser() for path in kept[0]["path"].split()] == places
    for folder in re.findall(r"'(\w+)/\*\*'", kept[0]["key"]):
        assert (ROOT / folder).is_dir()
    base = read(GITLAB)["test"]["variables"]["XDG_CACHE_HOME"]
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert uml_kernel.cache_directory().is_relative_to("/cache")


def test_the_kernels_source_in_their_key_is_the_one_that_lab_installs() -> None:
    (package,) = set(re.findall(r"linux-source-[\d.]+", GITHUB.read_text()))
    assert f"\n{package} /usr/src/{package}.tar.xz\n" in (ROOT / "lab").read_text()


def test_actions_are_named_by_their_commit() -> None:
    steps = read(GITHUB)["jobs"]["test"]["steps"]
    actions = [step["uses"] for step in steps if "uses" in step]
    assert actions
    for action in actions:
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action)


def test_a_workflow_may_read_the_code_and_nothing_else() -> None:
    assert read(GITHUB)["permissions"] == {"contents": "read"}


@BOTH
def test_no_host_is_named(path: Path) -> None:
    """Packages come from wherever the system and pip are told to look."""
    text = path.read_text()
    assert "://" not in text
    assert re.findall(r"\b[\w-]+\.(?:com|org|io|net|dev|cloud)\b", text) == []
