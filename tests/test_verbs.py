"""``tcpf-lab model``, ``device`` and ``vm``: solutions, tables, figures, files, messages."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev

import pandas as pd
import pytest
from scipy.stats import t as student
from typer.testing import CliRunner

import tcpf_lab
from tcpf_lab.base import shipped
from tcpf_lab.base.errors import RequestError, TestbedError
from tcpf_lab.cli.main import app, main
from tcpf_lab.cli.model import scenario_of, target_of
from tcpf_lab.metrics.device import DeviceOptions
from tcpf_lab.papers.rio.router import paper_scenarios
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.results.layout import read_json
from tcpf_lab.run.analyzing import device_options, nanoseconds
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.vm import guests
from tcpf_lab.testbed.vm.keeper import ENDED
from tcpf_lab.testbed.vm.layout import GUESTS, ROLES

ROOT = Path(__file__).parent.parent


def said(*words: str) -> str:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def invoke(*words: str) -> str:
    return said("model", "rio", *words)


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
    written = json.loads(invoke("--page", str(tmp_path / "rio-model.md"), "--json"))["written"]
    page = (tmp_path / "rio-model.md").read_text(encoding="utf-8")
    assert page == (ROOT / "docs" / "reference" / "rio-model.md").read_text(encoding="utf-8")
    drawn = sorted(Path(name).name for name in written if name.endswith(".png"))
    assert drawn == sorted(f"fig-rio-model-{n}.png" for n in (1, *range(6, 14)))
    assert drawn == sorted(
        path.name for path in (ROOT / "docs" / "reference" / "figures").glob("fig-rio-*")
    )
    assert "refuted" in page


@pytest.mark.full
def test_figures_are_drawn_in_every_format(tmp_path: Path) -> None:
    printed = invoke("--figures", str(tmp_path))
    written = list(tmp_path.iterdir())
    assert printed == f"figures: {len(written)} files in {tmp_path}\n"
    assert {path.suffix for path in written} == {".png", ".pdf", ".svg"}
    for path in written:
        assert "mathdefault" not in path.read_text(encoding="utf-8", errors="ignore")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["in_mim=20 kB"], "Did you mean 'in_min'?"),
        (["out_probability"], "write out_probability=0.1"),
        (["out_probability=2"], "is not a probability"),
        (["bottleneck=48"], "48 has no unit"),
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


# RIO with nothing marked against the kernel's own RED: the published metrics must agree.

METRICS = ("timeouts", "loss_percent", "goodput_bytes_per_s", "goodput_cov")
SEEDS = 4
#: For four metrics together: each is judged at 1 - 5 % / 4.
CONFIDENCE = 1 - 0.05 / len(METRICS)


@pytest.fixture(scope="module")
def differences(guest_run) -> dict[str, list[float]]:
    """RIO less RED with 100 flows, for each metric and each seed."""
    experiment = load(shipped.directory("experiments") / "rio_as_red.yaml")
    found: dict[tuple[str, int], dict[str, float]] = {}
    for run in expand(experiment, {"flows": "100"}, SEEDS):
        done = guest_run(experiment, case=run.case_name, flows="100", seed=str(run.seed))
        metrics = read_json(done.metrics)
        assert metrics["validity"]["valid"] is True
        found[run.case_name, run.seed] = metrics["metrics"]
    seeds = sorted({seed for _, seed in found})
    return {
        metric: [
            found["NoMark+RIO", seed][metric] - found["NoMark+RED", seed][metric] for seed in seeds
        ]
        for metric in METRICS
    }


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("metric", METRICS)
def test_unmarked_rio_and_mainline_red_agree_within_the_confidence_of_the_seeds(
    differences, metric
):
    values = differences[metric]
    assert len(values) == SEEDS
    assert any(values), "two different queues cannot give the same numbers to the last digit"
    half_width = student.ppf((1 + CONFIDENCE) / 2, SEEDS - 1) * stdev(values) / SEEDS**0.5
    assert abs(mean(values)) <= half_width


# ``tcpf-lab device`` and `tcpf_lab.device`: tables, JSON, files, frames, messages.


@pytest.fixture
def pair(recorded: Path) -> list[str]:
    return [str(recorded / "pcap" / f"R1-{side}.pcap.zst") for side in ("in", "out")]


def device(*words: str) -> str:
    return said("device", *words)


def test_former_names_work_for_one_version(pair):
    result = CliRunner().invoke(app, ["crossing", *pair, "--json"], catch_exceptions=False)
    assert "now `device`" in result.stderr
    assert json.loads(result.stdout) == json.loads(device(*pair, "--json"))
    with pytest.warns(DeprecationWarning, match=r"tcpf_lab\.device"):
        assert tcpf_lab.crossing is tcpf_lab.device


def test_json_and_table_say_the_same(pair: list[str]) -> None:
    found = json.loads(device(*pair, "--json"))
    shown = device(*pair)
    assert f"{found['loss']['packets']}" in shown
    assert f"{found['loss']['loss_percent']:.3f}" in shown
    assert "above the minimum" in shown
    assert "as given" in device(*pair, "--offset", "0")


def test_packets_are_written_in_two_formats(pair: list[str], tmp_path: Path) -> None:
    files = [tmp_path / "x.csv", tmp_path / "x.parquet"]
    told = json.loads(device(*pair, "--json", "-o", str(files[0]), "-o", str(files[1])))
    assert told["written"] == [str(path) for path in files]
    as_csv, as_parquet = pd.read_csv(files[0]), pd.read_parquet(files[1])
    names = LAYOUTS["device_packets"].names
    assert list(as_csv.columns) == list(as_parquet.columns) == names
    assert len(as_csv) == len(as_parquet) == told["packets"]["entered"]
    assert int((as_csv["lost"] & as_csv["counted"]).sum()) == told["packets"]["lost"]
    assert as_csv["departure_ns"].isna().sum() == as_csv["lost"].sum()


def test_frames_have_the_columns_of_the_dictionary_and_their_units(pair: list[str]) -> None:
    found = tcpf_lab.device(*pair, bin="100 ms")
    frames = (found.packets, found.flows, found.by_dscp, found.over_time)
    names = ("packets", "flows", "dscp", "time")
    for table, name in zip(frames, names, strict=True):
        layout = LAYOUTS[f"device_{name}"]
        assert list(table.columns) == layout.names
        assert table.attrs["units"] == layout.units
    assert found.flows["packets_lost"].sum() == found.described["loss"]["packets_lost"]
    assert "lost=" in repr(found)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--offset", "soon"], "--offset soon: 'soon' is not a duration\n  try: write a number"),
        (["--from", "-1 s"], "--from -1 s"),
        (["--from", "2 s", "--to", "2 s"], "--to must be later than --from"),
        (["--to", "0"], "--to 0: must be at least 1 ns"),
        (["--bin", "0 s"], "--bin 0 s: must be at least 1000 ns"),
        (["--max-delay", "0 s"], "at least 1 ns"),
        (["-o", "packets.xlsx"], ".csv, .parquet"),
        (["--bin", "1"], "--bin"),
    ],
)
def test_wrong_request_is_a_message(pair: list[str], words: list[str], reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        CliRunner().invoke(app, ["device", *pair, *words], catch_exceptions=False)


@pytest.mark.parametrize(
    "given",
    [
        {"offset": "--3 s"},
        {"max_delay": "-1 s"},
        {"bin": "500 us s"},
        {"bin": "0"},
        {"start": "3 s", "end": "2 s"},
    ],
)
def test_python_refuses_what_the_command_line_refuses(
    pair: list[str], given: dict[str, str]
) -> None:
    with pytest.raises(RequestError, match="--"):
        tcpf_lab.device(*pair, **given)


def test_python_and_the_command_line_say_the_same(pair: list[str]) -> None:
    told = json.loads(device(*pair, "--offset", "0", "--from", "2 s", "--to", "4 s", "--json"))
    found = tcpf_lab.device(*pair, offset="0", start="2 s", end="4 s").described
    assert {**found, "written": []} == told


def test_packets_outside_of_the_time_are_not_said_to_be_near_an_end(pair: list[str]) -> None:
    words = (*pair, "--offset", "0")
    packets = json.loads(device(*words, "--from", "2 s", "--to", "4 s", "--json"))["packets"]
    shown = " ".join(device(*words, "--from", "2 s", "--to", "4 s").split())
    assert packets["entered"] == packets["counted"] + packets["outside"]
    assert f"not counted: {packets['outside']} outside the requested time" in shown
    assert "too near an end" not in shown
    whole = " ".join(device(*words).split())
    assert "too near an end" in whole
    assert "outside of the time" not in whole


def test_standard_input_is_one_capture() -> None:
    with pytest.raises(RequestError, match="read once"):
        CliRunner().invoke(app, ["device", "-", "-"], catch_exceptions=False)


def test_times_of_the_command_line() -> None:
    assert nanoseconds("1.5 s", "--to") == 1_500_000_000
    assert nanoseconds("-2 h", "--offset", signed=True) == -7200 * 10**9
    assert nanoseconds("0", "--offset", signed=True) == 0
    assert nanoseconds("+ 3 s", "--offset", signed=True) == 3 * 10**9
    assert device_options() == DeviceOptions()
    with pytest.raises(RequestError):
        nanoseconds("-2 h", "--to")


@pytest.mark.parametrize("verb", ["analyze", "device", "plot rtt", "plot queue"])
def test_unreadable_capture_is_one_line_and_status_2(
    verb: str,
    pair: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(b"this is no capture of packets")
    files = [pair[0], str(path)] if verb in ("device", "plot queue") else [str(path)]
    drawn = ["-o", str(tmp_path / "x.svg")] if verb.startswith("plot") else []
    monkeypatch.setattr("sys.argv", ["tcpf-lab", *verb.split(), *files, *drawn])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {path}: not a pcap capture: it begins with 74 68 69 73")


@pytest.mark.parametrize("columns", ["30", "80"])
def test_numbers_are_whole_on_a_narrow_terminal(
    pair: list[str], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = device(*pair)
    assert "…" not in shown
    assert "packets  lost" in shown


# ``tcpf-lab vm`` without guests: what is said and what is refused.


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> guests.State:
    """Return the state in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return guests.here()


def vm(*words: str) -> str:
    result = CliRunner().invoke(app, ["vm", *words], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout.strip()


def test_without_guests_nothing_is_up_and_nothing_ends(state: guests.State) -> None:
    assert vm("status") == "no guests are up"
    assert json.loads(vm("status", "--json")) == {
        "up": False,
        "crashed": False,
        "files": None,
    }
    assert vm("down") == "no guests were up"
    assert json.loads(vm("down", "--json")) == {"ended": False}
    assert not state.cache.exists()


def test_what_a_crash_has_left_is_named_and_removed(state: guests.State) -> None:
    state.create()
    assert vm("status").endswith(f"their consoles are in {state.directory}")
    assert vm("down") == "the guests are down"
    assert not state.directory.exists()


def test_consoles_of_guests_that_have_ended_by_themselves_are_kept(state: guests.State) -> None:
    state.create()
    state.inventory.write_text("")  # they were up
    for guest in GUESTS:
        state.console(guest.name).write_text(f"{guest.name} panics")
    (state.directory / ENDED).write_text("the emulator of 'ends' with status 1")
    assert vm("down")
    assert not state.directory.exists()
    kept = {path.name: path.read_text() for path in state.failed.iterdir()}
    assert kept == {
        "ends.console": "ends panics",
        "routers.console": "routers panics",
        ENDED: "the emulator of 'ends' with status 1",
    }


def test_hosts_are_listed(state: guests.State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests.State, "keeper", lambda _state: 1)
    state.create()
    state.inventory.touch()
    ports = {role: 40000 + number for number, role in enumerate(ROLES)}
    facts = {"release": "6.12.9", "accelerator": "tcg", "since": 0.0, "ports": ports}
    state.write_facts({**facts, "inventory": str(state.inventory)})
    text = vm("status")
    assert "R1" in text
    assert "40002" in text
    found = json.loads(vm("status", "--json"))
    assert found["up"]
    assert found["guests"].keys() == {guest.name for guest in GUESTS}


def test_hosts_of_guests_that_are_not_up_cannot_be_reached(state: guests.State) -> None:
    with pytest.raises(TestbedError, match="not up") as caught:
        vm("ssh", "S")
    assert "tcpf-lab vm up" in caught.value.hint


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("ssh", "R7"), "S, R0, R1, R2, D"),
        (("up", "--kernel", "5.10"), "6.12, 6.1"),
        (("up", "--accelerator", "xen"), "auto, kvm, tcg"),
    ],
)
def test_wrong_words_are_refused_with_the_right_ones(
    state: guests.State, words: tuple[str, ...], allowed: str
) -> None:
    with pytest.raises(RequestError, match=f"allowed: {allowed}"):
        vm(*words)


def test_command_goes_to_ssh_unchanged(
    state: guests.State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests.State, "keeper", lambda _state: 1)
    state.create()
    state.inventory.touch()
    started: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda _program, words: started.append(words))
    vm("ssh", "R1", "ip", "-br", "link", "--help")
    config = str(state.ssh_config)
    assert started == [["ssh", "-F", config, "vm-R1", "ip", "-br", "link", "--help"]]
