"""What is asked of a testbed by name: its traffic generator, and to be compared with another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tcpf_lab.plan.compose import compose
from tcpf_lab.results import checksums
from tcpf_lab.results.layout import RunFiles, read_json, write_json
from tcpf_lab.run.runner import made_from
from tcpf_lab.run.selection import RunRequest, choose, one_or_two
from tcpf_lab.spec.load import dump, parse
from tcpf_lab.testbed import registry
from tcpf_lab.testbed.fake import FakeTestbed


class OtherTestbed(FakeTestbed):
    """A second place with runs of its own."""

    name = "other"


@pytest.fixture
def other(fake, monkeypatch):
    """Return the second testbed, registered as ``other``."""
    testbed = OtherTestbed(fake.recorded)
    monkeypatch.setitem(registry.TESTBEDS, "other", lambda: testbed)
    return testbed


@pytest.mark.parametrize(
    ("testbed", "generator"),
    [("uml", "native"), ("fake", "native"), ("vm", "iperf3"), ("five-machines", "iperf3")],
)
def test_generator_is_the_testbeds_where_none_is_named(fake, testbed, generator):
    (run, *_) = choose(RunRequest("configA.yaml", testbed, Path("nowhere"), seeds=1)).runs
    assert run.experiment.traffic.generator == generator
    assert f"generator: {generator}" in dump(run.experiment)
    assert compose(run).expect["generator"] == generator


@pytest.mark.parametrize("testbed", ["uml", "vm"])
def test_generator_that_is_named_is_kept(testbed):
    for generator in ("native", "iperf3"):
        setting = (f"traffic.generator={generator}",)
        (run, *_) = choose(
            RunRequest("smoke.yaml", testbed, Path("nowhere"), overrides=setting)
        ).runs
        assert run.experiment.traffic.generator == generator


@pytest.mark.parametrize("testbed", ["uml", "vm"])
def test_generator_without_captures_is_the_one_that_reads_tcp_info(testbed):
    setting = ("traffic.captures=false",)
    (run, *_) = choose(RunRequest("smoke.yaml", testbed, Path("nowhere"), overrides=setting)).runs
    assert run.experiment.traffic.generator == "native"


def test_spec_of_a_run_is_what_the_run_was_made_from(tmp_path):
    """Elsewhere, too: what was settled by one testbed is not settled anew by another."""
    (run, *_) = choose(RunRequest("smoke.yaml", "uml", tmp_path)).runs
    again = parse(dump(run.experiment), "run.yaml")
    (tmp_path / "run.yaml").write_text(dump(run.experiment))
    (repeated,) = choose(RunRequest(str(tmp_path / "run.yaml"), "vm", tmp_path)).runs
    assert again == run.experiment == repeated.experiment
    assert made_from(repeated, compose(repeated), {}) == made_from(run, compose(run), {})


def test_a_testbed_by_itself_is_compared_with_what_was_published():
    assert one_or_two(None) == ("uml",)
    assert one_or_two(["vm"]) == ("vm",)


def test_two_testbeds_are_held_to_each_other(lab, spec, other, tmp_path):
    lab("run", spec, "--testbed", "fake")
    lab("run", spec, "--testbed", "other")
    for seed in (1, 2, 3):
        run = RunFiles(tmp_path / f"results/tiny/other/nomark+red-flows3-seed{seed}")
        found = read_json(run.metrics)
        found["metrics"]["timeouts"] += 10 + seed
        write_json(run.metrics, found)
        checksums.renew(run)
    words = ("compare", spec, "--testbed", "fake", "--testbed", "other")
    status, said, complaints = lab(*words)
    assert (status, complaints) == (0, "")
    assert "tiny, 3 flows: fake and other" in said
    assert "1 of 4 comparisons differ" in said
    result = json.loads(lab(*words, "--json")[1])
    (cell,) = result["cells"]
    assert cell["verdict"] == "differ"
    assert {row["metric"]: row["verdict"] for row in cell["metrics"]} == {
        "timeouts": "differ",
        "loss_percent": "agree",
        "goodput_bytes_per_s": "agree",
        "goodput_cov": "agree",
    }
    assert cell["metrics"][0]["difference"] == pytest.approx(12)
    assert result["conditions"][0] == result["conditions"][1]
    assert result["conditions"][0].startswith("native, ")


def test_runs_that_one_testbed_lacks_are_named(lab, spec, other, tmp_path):
    lab("run", spec, "--testbed", "fake")
    lab("run", spec, "--testbed", "other")
    shutil.rmtree(tmp_path / "results/tiny/other/nomark+red-flows3-seed2")
    said = lab("compare", spec, "--testbed", "fake", "--testbed", "other")[1]
    assert "other: left out, 1 missing: tiny: nomark+red-flows3-seed2: missing" in said


@pytest.mark.parametrize(
    ("testbeds", "expected"),
    [
        (("fake", "fake"), "both testbeds are the same"),
        (("fake", "other", "uml"), "at most two testbeds"),
        (("fake", "other"), "no cell has a usable run on both fake and other"),
        (("fake", "nowhere"), "unknown testbed 'nowhere'"),
    ],
)
def test_what_cannot_be_compared_is_said(lab, spec, other, testbeds, expected):
    words = [word for name in testbeds for word in ("--testbed", name)]
    status, _, complaints = lab("compare", spec, *words)
    assert status != 0
    assert expected in complaints


def test_commands_of_a_reproduction_choose_the_same_again(lab, spec, tmp_path):
    asked = ("--testbed", "fake", "--only", "case=NoMark+RED", "--set", "title=two words")
    lab("run", spec, *asked, "--seeds", "2")
    lab("report", spec, *asked, "--seeds", "2", "--include-invalid", "--reference", "kept here")
    manifest = json.loads((tmp_path / "kept here/manifest.json").read_text())
    words = "--testbed fake --only case=NoMark+RED --seeds 2 --set 'title=two words'"
    assert manifest["commands"] == [
        f"tcpf-lab run {spec} {words}",
        f"tcpf-lab report {spec} {words} --include-invalid --reference 'kept here'",
    ]
