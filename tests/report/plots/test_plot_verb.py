"""`tcpf-lab plot`, on the runs of the fake testbed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from run_maker import make_runs

from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.plots.kinds import KINDS
from tcpf_lab.results.layout import read_json, write_json
from tcpf_lab.run.plotting import parse_flows, parse_time
from tcpf_lab.spec.load import apply_overrides
from tcpf_lab.spec.model import Experiment
from tcpf_lab.testbed.fake import FakeTestbed

Lab = Callable[..., tuple[int, str, str]]
FAKE = ("--testbed", "fake")


#: Kinds that need two values of a parameter, groups of flows, or samples of TCP_INFO.
OF_OTHERS = ("parameter", "groups", "delay-cdf", "cwnd")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in OF_OTHERS])
def test_every_kind_draws_runs_in_a_directory(
    lab: Lab, ran: Path, tmp_path: Path, kind: str
) -> None:
    run = ran / "nomark+red-flows3-seed1"
    status, said, _ = lab("plot", kind, run, "-o", tmp_path / "figure.svg")
    assert (status, said.strip()) == (0, str(tmp_path / "figure.svg"))
    assert b"<svg" in (tmp_path / "figure.svg").read_bytes()


def test_experiment_is_drawn_from_its_complete_runs(
    lab: Lab, spec: Path, ran: Path, tmp_path: Path
) -> None:
    (ran / "nomark+red-flows3-seed3" / "metrics.json").write_text("{}")
    files = [tmp_path / f"figure.{suffix}" for suffix in ("png", "pdf")]
    words = [word for file in files for word in ("-o", file)]
    status, said, _ = lab("plot", "box", spec, *FAKE, "--metric", "timeouts", *words, "--json")
    told = json.loads(said)
    assert status == 0
    assert told["kind"] == "box"
    assert told["written"] == [str(file) for file in files]
    assert [Path(run).name[-5:] for run in told["runs"]] == ["seed1", "seed2"]
    assert told["left_out"] == {"stale": 1}
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_bytes().startswith(b"%PDF")
    assert "left out: 1 stale" in lab("plot", "cdf", spec, *FAKE)[2]


def test_without_a_name_the_figure_is_a_png_here(lab: Lab, ran: Path, tmp_path: Path) -> None:
    assert lab("plot", "box", ran, "--metric", "goodput_cov")[1].strip() == "box-goodput_cov.png"
    assert (tmp_path / "box-goodput_cov.png").read_bytes().startswith(b"\x89PNG")


def test_runs_are_chosen_alike_of_experiments_and_directories(
    lab: Lab, spec: Path, ran: Path
) -> None:
    chosen = ("--case", "nomark+RED", "--flows", "3", "--seed", "1,3", "--json")
    for what in ([spec, *FAKE], [ran]):
        runs = json.loads(lab("plot", "cdf", *what, *chosen)[1])["runs"]
        assert [run[-5:] for run in runs] == ["seed1", "seed3"]


def test_runs_of_a_sweep_come_in_the_order_of_its_values(
    lab: Lab, fake: FakeTestbed, recorded_experiment: Experiment, tmp_path: Path
) -> None:
    changed = ["matrix.seed=1", "traffic.socket_buffer=[1 MB, 900 kB, 200 kB]"]
    make_runs(tmp_path / "results", fake, apply_overrides(recorded_experiment, changed))
    words = (tmp_path / "results", "--json", "--include-invalid")
    runs = json.loads(lab("plot", "parameter", *words)[1])["runs"]
    assert [re.findall("buffer=(.+?)-", run) for run in runs] == [["200kB"], ["900kB"], ["1MB"]]


def test_run_that_is_named_twice_is_drawn_once(lab: Lab, ran: Path) -> None:
    run = ran / "nomark+red-flows3-seed1"
    assert len(json.loads(lab("plot", "cdf", ran, run, "--json")[1])["runs"]) == 3


def test_invalid_runs_are_left_out_unless_asked_for(lab: Lab, ran: Path) -> None:
    run = ran / "nomark+red-flows3-seed1"
    found = read_json(run / "metrics.json")
    found["validity"]["valid"] = False
    write_json(run / "metrics.json", found)
    status, _, complaint = lab("plot", "cdf", run)
    assert status == 1
    assert "no run to draw: 1 invalid" in complaint
    assert "--include-invalid" in complaint
    assert lab("plot", "cdf", run, "--include-invalid")[0] == 0


def test_experiment_without_runs_says_what_to_type(lab: Lab, spec: Path) -> None:
    status, _, complaint = lab("plot", "cdf", spec, *FAKE)
    assert status == 1
    assert "no run to draw: 3 missing" in complaint
    assert f"tcpf-lab run {spec} --testbed fake" in complaint


def test_what_to_type_makes_the_runs_that_were_asked_for(
    lab: Lab, spec: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    wanted = ("--set", "tcp.rto_min=200ms..400ms:200ms", "--seed", "1", "--results", elsewhere)
    _, _, complaint = lab("plot", "parameter", spec, *FAKE, *wanted)
    assert "no run to draw: 2 missing" in complaint
    (hint,) = re.findall(r"`tcpf-lab (.+)`", complaint)
    status, said, _ = lab(*shlex.split(hint), "--dry-run", "--json")
    assert status == 0
    assert len(json.loads(said)) == 2
    assert "--results elsewhere" in hint


def test_run_that_was_made_twice_counts_once(lab: Lab, ran: Path, tmp_path: Path) -> None:
    shutil.copytree(ran, tmp_path / "copy" / "fake")
    status, _, complaint = lab("plot", "cdf", ran, tmp_path / "copy")
    assert status == 2
    assert "is the same run as" in complaint
    assert "name the directory of one of them" in complaint


def test_runs_that_were_never_analysed_are_told_of(lab: Lab, ran: Path) -> None:
    (ran / "nomark+red-flows3-seed1" / "metrics.json").unlink()
    assert "left out: 1 without metrics.json" in lab("plot", "cdf", ran)[2]
    _, _, complaint = lab("plot", "cdf", ran / "nomark+red-flows3-seed1")
    assert "no run to draw: 1 without metrics.json" in complaint
    assert "`tcpf-lab analyze" in complaint


def test_directory_without_runs_says_what_to_name(lab: Lab, tmp_path: Path) -> None:
    status, _, complaint = lab("plot", "cdf", tmp_path)
    assert status == 1
    assert "no run to draw: there is none" in complaint
    assert "name the directory of a run" in complaint


def test_unfinished_runs_are_told_of(lab: Lab, ran: Path) -> None:
    for run in list(ran.glob("nomark*")):
        run.rename(run.with_name(run.name + ".partial"))
    assert "no run to draw: 3 unfinished" in lab("plot", "cdf", ran)[2]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("circle", "."), "unknown kind of figure 'circle'; allowed: bars, box"),
        (("cdf", ".", "-o", "a.gif"), "-o a.gif: unknown suffix; allowed: ."),
        (("cdf", ".", "-o", "figure"), "-o figure: unknown suffix; allowed: ."),
        (("cdf", ".", "--scale", "fre"), "Did you mean 'free'?"),
        (("throughput-delay", ".", "--delay", "p96"), "Did you mean 'p9"),
        (("box", ".", "--metric", "loss_percen"), "Did you mean 'loss_percent'?"),
        (("cdf", ".", "--metric", "timeouts"), "--metric: means nothing to cdf"),
        (("timeseries", ".", "--time", "5"), "--time 5: write FROM..TO in seconds"),
        (
            ("timeseries", ".", "--min-rto", "1 s"),
            "--min-rto, --profile, --at, --no-probes: apply to captures",
        ),
        (("timeseries", ".", "--flow", "a"), "--flow a: write the numbers of flows"),
        (("cdf", ".", "--only", "seed=1"), "--only: selects runs of an experiment"),
        (("cdf", "no-such-thing"), "no-such-thing: no such experiment"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    lab: Lab, words: tuple[str, ...], complaint: str
) -> None:
    status, _, said = lab("plot", *words)
    assert status == 2
    assert complaint in said


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [("--case", "RIO", "allowed: nomark+red"), ("--seed", "9", "allowed: 1, 2, 3")],
)
def test_filter_that_matches_no_run_is_refused(
    lab: Lab, ran: Path, option: str, value: str, complaint: str
) -> None:
    status, _, said = lab("plot", "cdf", ran, option, value)
    assert status == 2
    assert complaint in said
    assert f"{option} {value}: " in said


@pytest.mark.parametrize(("option", "value"), [("--case", "RIO"), ("--seed", "9")])
def test_filter_of_an_experiment_is_called_as_it_was_typed(
    lab: Lab, spec: Path, option: str, value: str
) -> None:
    status, _, said = lab("plot", "cdf", spec, *FAKE, option, value)
    assert status == 2
    assert f"{option} {value}: unknown" in said


def test_time_is_in_seconds_or_with_units() -> None:
    assert parse_time("20..30.5") == (20.0, 30.5)
    assert parse_time("500 ms..1 min") == (0.5, 60.0)
    for text in ("30..20", "1", "..", "a..b", "1..1", "-1..3"):
        with pytest.raises(RequestError, match=r"write FROM\.\.TO"):
            parse_time(text)


def test_flows_are_numbers() -> None:
    assert parse_flows("0, 3,7,3") == (0, 3, 7)
    for text in ("", "a", "1,,2", "-1", "1.5"):
        with pytest.raises(RequestError, match="counted from 0"):
            parse_flows(text)
