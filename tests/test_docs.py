"""What the documents show works: every experiment, every command, every link."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from documents import ROOT, blocks, carry_out, commands_of

from tcpf_lab.calibrating.target import cells_of
from tcpf_lab.plan.compose import compose
from tcpf_lab.results import read_json
from tcpf_lab.spec.calibrated import read_subject
from tcpf_lab.spec.load import load_any, parse
from tcpf_lab.spec.sweep import expand

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("*/*.md"))]
#: Nothing needs root: a program keeps none of its rights this way; others have none anyway.
AS_ANYBODY = (
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"] if os.geteuid() == 0 else []
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "measure-your-aqm.md").read_text(encoding="utf-8")


CALIBRATE = (ROOT / "docs" / "calibrate.md").read_text(encoding="utf-8")


def calibration_example(directory):
    """Write the three files of the example; give the one that is calibrated."""
    experiment, search = blocks("yaml", CALIBRATE)
    (published,) = blocks("csv", CALIBRATE)
    (directory / "old_table.yaml").write_text(experiment)
    (directory / "published.csv").write_text(published)
    (directory / "search.yaml").write_text(search)
    return directory / "search.yaml"


def readme_commands():
    return commands_of(README)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_experiment_in_the_readme_can_be_planned():
    shown = blocks("yaml", README)
    assert shown
    for text in shown:
        for run in expand(parse(text, "README.md")):
            assert compose(run).phases


def test_every_shipped_experiment_is_described():
    described = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "experiments").glob("*.yaml"):
        assert path.name in described


@pytest.mark.parametrize("document", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_a_document_names_exists(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    names = re.findall(r"`((?:tcpf_lab|kernel|docs|experiments|tests)/[\w./-]+)`", text)
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_every_file_of_a_run_is_described(recorded):
    """A name in the document stands for all that differ in what stands in angle brackets."""
    text = (ROOT / "docs" / "results-format.md").read_text(encoding="utf-8")
    shapes = {
        re.sub(r"<\w+>", r"[\\w.+-]+", re.escape(name.rpartition("/")[2]))
        for name in re.findall(r"`([\w./<>-]+\.\w+|log/\w+)`", text)
    }
    files = [path for path in recorded.glob("*/*") if path.is_file()]
    assert files
    for path in files:
        name = path.name.removesuffix(".zst")
        assert any(re.fullmatch(shape, name) for shape in shapes), path.name


def test_the_architecture_is_read_in_one_sitting():
    assert len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()) < 150


def test_lab_knows_its_own_words_in_the_readme():
    usage = subprocess.run(["./lab", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for command in readme_commands():
        assert command[0] == "./lab"
        if command[1] in ("setup", "test", "check", "bench"):
            assert re.search(rf"^  {command[1]} ", usage.stdout, flags=re.MULTILINE)


@pytest.mark.uml
def test_every_command_of_the_readme_works_in_its_order(uml, tmp_path, recorded):
    """All are carried out as they stand but the long runs, of which one seed's plan is made."""
    captures = {"some-capture": "S", "in": "R1-in", "out": "R1-out"}
    for name, at in captures.items():
        (tmp_path / f"{name}.pcap").symlink_to(recorded / "pcap" / f"{at}.pcap.zst")
    done = []
    for command in readme_commands():
        words = command[1:]
        if words[0] in ("setup", "test", "check", "bench"):
            continue
        if words[0] == "run" and words[1] != "smoke.yaml":
            words = [*words, "--dry-run"]
        words = [word.replace("/tmp/", f"{tmp_path}/") for word in words]
        result = carry_out(words, tmp_path, AS_ANYBODY)
        assert result.returncode == 0, f"{shlex.join(command)}\n{result.stderr}"
        done.append(words[0])
    assert {"run", "plan", "status", "analyze", "crossing", "doctor"} <= set(done)


def test_commands_that_the_guide_shows_of_its_plan_are_in_it():
    (text,) = blocks("yaml", GUIDE)
    plan = str(compose(expand(parse(text, "my_aqm.yaml"), {"case": "Mine"})[0]))
    shown = re.findall(r"^    (R1   tc .*)$", GUIDE, flags=re.MULTILINE)
    assert len(shown) == 2
    for line in shown:
        assert line in plan


@pytest.mark.uml
def test_the_guide_goes_from_a_queue_to_a_report(uml, tmp_path):
    (text,) = blocks("yaml", GUIDE)
    (tmp_path / "my_aqm.yaml").write_text(text)
    for command in commands_of(GUIDE):
        assert command[0] == "tcpf-lab"
        result = carry_out(command[1:], tmp_path)
        assert result.returncode == 0, f"{shlex.join(command)}\n{result.stderr}"
    report = (tmp_path / "results" / "my_aqm" / "uml" / "table.md").read_text()
    for case in ("Mine", "FQ-CoDel", "TailDrop"):
        assert case in report
    assert "invalid" not in report


def test_every_cell_of_the_calibration_that_a_document_shows_was_published(tmp_path):
    path = calibration_example(tmp_path)
    subject = read_subject(load_any(path), path)
    (experiment,) = subject.experiments
    names = cells_of(subject, subject.experiments).names
    assert [name.case for name in names] == list(experiment.cases)
    shown = [Path(word).name for command in commands_of(CALIBRATE) for word in command]
    assert shown.count(path.name) == len(commands_of(CALIBRATE)) == 3


@pytest.mark.uml
def test_the_calibration_that_a_document_shows_goes_from_three_files_to_a_report(uml, tmp_path):
    calibration_example(tmp_path)
    for command in commands_of(CALIBRATE):
        assert command[0] == "tcpf-lab"
        result = carry_out(command[1:], tmp_path)
        assert result.returncode == 0, f"{shlex.join(command)}\n{result.stderr}"
    root = tmp_path / "results" / "search" / "calibration"
    told = read_json(root / "calibration.json")
    assert told["validity"]["left_out"] == []
    verdicts = {one["name"]: one["verdict"] for one in told["unknowns"]}
    assert verdicts["packet size"] == "pinned down" != verdicts["minimum RTO"]
    assert told["best"]["values"]["packet size"] == "576 B"
    assert "A fit is not a reproduction" in (root / "calibration.md").read_text()
