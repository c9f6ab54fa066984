"""``tcpf-lab model``: solutions, settings, tables, figures, messages; and the page in docs/."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli.main import app, main
from tcpf_lab.cli.model import scenario_of, target_of
from tcpf_lab.papers.rio.router import paper_scenarios

ROOT = Path(__file__).parent.parent


def invoke(*words: str) -> str:
    done = CliRunner().invoke(app, ["model", "rio", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("name", paper_scenarios())
def test_words_make_the_scenarios_of_the_report(name: str) -> None:
    assert scenario_of([], name) == paper_scenarios()[name]


def test_words_are_read_with_their_units() -> None:
    words = ["flows=2", "delay=30 ms", "bottleneck=10 Mbit", "packet=500 B", "tokens=5 packets"]
    words += ["interval=100 ms", "in_min=0", "in_max=50 kB", "out_min=1 packet", "out_max=50 kB"]
    scenario = scenario_of([*words, "rto_min=200 ms"])
    assert scenario.delay == (0.03, 0.03)
    assert (scenario.capacity, scenario.token_rate, scenario.bucket) == (2500, 50, 5)
    assert (scenario.in_min, scenario.in_max, scenario.out_min) == (0, 100, 1)
    assert scenario.rto_margin == 0.2


def test_solution_on_screen_and_as_json() -> None:
    shown = invoke()
    assert "5946.53 packets/s" in shown
    assert "0.004741" in shown
    found = json.loads(invoke("--scenario", "non_overlapped", "extra_rtt=16 ms", "--json"))
    assert round(found["T"], 2) == 5854.23
    assert found["scenario"]["extra_rtt"] == 0.016
    assert sum(found["per_flow"]["throughput"]) == pytest.approx(found["T"])
    assert round(json.loads(invoke("--printed", "--json"))["T"], 2) == 5937.89


def test_which_probability_for_out_keeps_the_loss_of_in_below_a_limit() -> None:
    question = ("in_probability=0", "--target", "p_in=0.006", "--vary", "out_probability")
    assert "p_in is at most 0.006 with out_probability from 0.0248488 to 1" in invoke(*question)
    found = json.loads(invoke(*question, "--json"))
    assert found["target"]["edge"] == pytest.approx(0.024849, abs=1e-6)
    assert found["p_in"] == pytest.approx(0.006, rel=1e-6)
    longest = json.loads(invoke("--target", "q=40", "--vary", "out_min", "--json"))
    assert longest["scenario"]["out_min"] == longest["target"]["edge"]


def test_tables_are_those_of_the_page() -> None:
    found = json.loads(invoke("--tables", "--json"))
    assert list(found) == ["table-1", "table-2", "table-3"]
    row = found["table-1"][0]
    assert (row["model"], row["analytical"], row["NS-2"]) == ("5946.53", "5927.97", "5810.57")
    shown = invoke("--tables")
    assert all(line in shown for line in ("Table 1: fully overlapped", "0.016682", "+497.2 %"))


def test_page_in_the_documents_is_what_the_verb_writes(tmp_path: Path) -> None:
    written = json.loads(invoke("--page", str(tmp_path / "model.md"), "--json"))["written"]
    page = (tmp_path / "model.md").read_text(encoding="utf-8")
    assert page == (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    drawn = sorted(Path(name).name for name in written if name.endswith(".png"))
    assert drawn == sorted(f"fig-rio-model-{n}.png" for n in (1, *range(6, 14)))
    assert drawn == sorted(path.name for path in (ROOT / "docs" / "figures").glob("fig-rio-*"))
    assert "refuted" in page


@pytest.mark.full
def test_figures_are_drawn_in_every_format(tmp_path: Path) -> None:
    written = invoke("--figures", str(tmp_path)).split()
    assert {Path(name).suffix for name in written} == {".png", ".pdf", ".svg"}
    for name in written:
        assert "mathdefault" not in Path(name).read_text(encoding="utf-8", errors="ignore")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["in_mim=20 kB"], "Did you mean 'in_min'?"),
        (["out_probability"], "write out_probability=0.1"),
        (["out_probability=2"], "is not a probability"),
        (["bottleneck=48"], "48 lacks a unit"),
        (["in_min=20.5 kB"], "whole packets"),
        (["out_max=200 kB"], "must not be more than in_max"),
        (["flows=0"], "whole number from 1"),
        (["delay=.."], "write 100 ms, or 100 ms..298 ms"),
        (["interval=0 s"], "longer than 0 s"),
        (["--scenario", "full"], "no such scenario"),
        (["--target", "p_in"], "write p_in=0.006"),
        (["--target", "p=0.1"], "one of T, T_in"),
        (["--target", "p_in=0.1", "--vary", "flows"], "cannot be varied"),
        (["--vary", "in_min"], "nothing to find"),
        (["--tables", "--figures", "x"], "one at a time"),
        (["--tables", "in_min=0"], "the report's own scenarios"),
        (["--target", "p_in=1e-9"], "is above 1e-09 for every out_probability from 0 to 1"),
        (["flows=1", "bottleneck=1000 Gbit", "packet=1 B", "in_max=90 B"], "must"),
    ],
)
def test_mistakes_end_in_a_message(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr("sys.argv", ["tcpf-lab", "model", "rio", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    told = capsys.readouterr().err
    assert message in " ".join(told.split())
    assert "Traceback" not in told


def test_targets_are_quantities_with_limits() -> None:
    assert target_of("q=20") == ("q", 20.0)
    for text in ("q", "q=", "q=-1", "q=nan"):
        with pytest.raises(RequestError):
            target_of(text)
