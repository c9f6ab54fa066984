"""Runs in the guest: Chapter 4 whole, the pages that take a minute, one run of each kind.

They take ten minutes on two cores. ``--oracle-results DIR`` keeps them: complete runs are not made
again.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from door import EXPECTED, REFERENCE, Hold, run_tcpf_lab

import tcpf_lab

pytestmark = [pytest.mark.oracle, pytest.mark.full]

#: The cells of which the first run keeps its captures: each case, with SACK and without, with good
#: and mistuned RED parameters.
WITH_CAPTURES = (
    ("configA", 100, "TCPF+FRIO,NoMark+FRED"),
    ("configB", 50, "TCPF+RIO,NoMark+TailDrop"),
    ("configC", 100, "TCPF(O)+RIO"),
    ("configD", 50, "TB+RIO,NoMark+RED"),
)
#: Pages whose runs take about a minute each: written anew as they are kept.
PAGES = ("parking_lot", "short_flows", "reno", "rio_overlap")
#: Pages whose runs take too long, and of which some are made: what they come to, and what the page
#: asks of all that is missing.
PARTS = {
    "ef": ("ef_prediction", "--seeds", 2),
    "buffers_tenth": (
        *("buffers_tenth", "--seeds", 1),
        *("--only", "flows=100,200", "--only", "queue.limit=2 kB,40 kB"),
    ),
}
#: One run of each kind; chapter 4's are beside.
KINDS = {
    "users": ("short_flows", "--only", "case=TCPF+RIO"),
    "EF": (
        *("ef_prediction", "--only", "flows=8", "--only", "background.ef.on=1 ms"),
        *("--set", "traffic.duration=10 s"),
    ),
    "parking lot": (
        *("parking_lot", "--only", "case=TCPF+RIO"),
        *("--only", "topology.parking_lot.bottlenecks=3", "--set", "traffic.duration=20 s"),
    ),
    "without captures": ("ef_single", "--only", "background.ef.on=10 ms"),
    "Linux 2.2": (
        *("configA", "--only", "case=TCPF+FRIO", "--only", "flows=50"),
        *("--set", "tcp.profile=linux-2.2", "--set", "tcp.limited_transmit=null"),
        *("--set", "tcp.linux22={}", "--set", "traffic.duration=20 s"),
        *("--set", "topology.chain.duplex=full", "--set", "topology.chain.ring=null"),
    ),
}


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a results directory with the runs of Chapter 4."""
    asked = request.config.getoption("--oracle-results", default=None)
    path = Path(asked).resolve() if asked else tmp_path_factory.mktemp("oracles") / "results"
    for name, flows, cases in WITH_CAPTURES:
        only = ("--only", f"case={cases}", "--only", f"flows={flows}", "--only", "seed=1")
        run_tcpf_lab("run", f"{name}.yaml", *only, "--keep-pcaps", "--results", path)
    run_tcpf_lab("run", "chapter4.yaml", "--results", path)
    return path


def test_table(results: Path) -> None:
    """The table of Chapter 4 is those of the kept configurations, one after the other."""
    made = (results / "chapter4" / "uml" / "table.csv").read_text(encoding="utf-8")
    header, *rows = made.splitlines(keepends=True)
    for path in sorted(REFERENCE.glob("config?/table.csv")):
        count = len(path.read_text(encoding="utf-8").splitlines()) - 1
        assert header + "".join(rows[:count]) == path.read_text(encoding="utf-8"), path.parent.name
        rows = rows[count:]
    assert rows == []


def test_captures_of_a_run_of_each_case(results: Path, hold: Hold) -> None:
    found = {}
    for run in sorted(results.glob("config?/uml/*/pcap")):
        place = f"{run.parts[-4]}/{run.parts[-2]}"
        found |= {f"{place}: {name}": digest for name, digest in digests(run)}
    hold("runs-captures.json", found)


def digests(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the capture files of a run with the SHA-256 of what is in them, unpacked."""
    for path in sorted(directory.iterdir()):
        with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as file:
            yield path.stem, hashlib.file_digest(file, "sha256").hexdigest()


def test_numbers_of_each_run(results: Path, request: pytest.FixtureRequest) -> None:
    """What the fast part judges the claims of Chapter 4 on is what the runs give."""
    runs = tcpf_lab.load("chapter4.yaml", results=results).runs
    about = ["experiment", "config", "case", "flows", "seed", "run"]
    metrics = [
        *("timeouts", "timeouts_per_flow_minute", "loss_percent", "packet_loss_percent"),
        *("goodput_bytes_per_s", "goodput_cov", "utilisation"),
    ]
    text = runs[about + metrics].to_csv(index=False, lineterminator="\n")
    kept = EXPECTED / "chapter4-runs.csv"
    if request.config.getoption("--update-oracles", default=False):
        kept.write_text(text, encoding="utf-8")
    assert text.splitlines() == kept.read_text(encoding="utf-8").splitlines()


def test_claims_of_chapter_4(results: Path, hold: Hold) -> None:
    """Every check of every claim: what it asks, and what the published tables and ours give."""
    compared = json.loads(run_tcpf_lab("compare", "chapter4.yaml", "--results", results, "--json"))
    found = {}
    for claim in compared["claims"]:
        found[claim["id"]] = [list(claim[table].values()) for table in ("published", "ours")]
        for number, one in enumerate(claim["findings"]):
            asked = [one["low"], one["high"], one["strict"]]
            read = [in_short(one[table]) for table in ("published", "ours")]
            found[f"{claim['id']} {number}"] = [asked, *read]
    hold("chapter4-claims.json.zst", found)


def in_short(reading: dict[str, Any]) -> list[Any]:
    """Give a reading's values in their order, numbers to nine digits, without what is empty behind.

    They are: value, interval, seeds, verdict, missing, note.
    """
    keys = ("value", "interval", "seeds", "verdict", "missing", "note")
    assert tuple(reading) == keys
    values = [nine_digits(value) for value in reading.values()]
    while not values[-1]:
        values.pop()
    return values


def nine_digits(value: Any) -> Any:
    if isinstance(value, list):
        return [nine_digits(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


@pytest.mark.parametrize("name", PAGES)
def test_page(results: Path, tmp_path: Path, name: str) -> None:
    run_tcpf_lab("run", f"{name}.yaml", "--results", results)
    home = report(results, name)
    (page,) = (path for path in (REFERENCE / name).glob("*.json") if path.name != "manifest.json")
    run_tcpf_lab("report", page, "--format", "csv", "--results", tmp_path)
    kept = sorted((tmp_path / "pages" / name).glob("*.csv"))
    assert [path.name for path in kept if path.name.endswith("-claims.csv")]
    for path in kept:
        # The solver of a model ends on another last bit on another processor.
        wanted = [
            [pytest.approx(v, rel=1e-9) if isinstance(v, float) else v for v in row]
            for row in values(path)
        ]
        assert values(home / path.name) == wanted


def values(path: Path) -> list[list[str | float]]:
    """Read a table, numbers as such."""

    def value(text: str) -> str | float:
        try:
            return float(text)
        except ValueError:
            return text

    with path.open(encoding="utf-8", newline="") as file:
        return [[value(text) for text in row] for row in csv.reader(file)]


def report(results: Path, name: str) -> Path:
    """Write the tables of a page; give the directory that they are in."""
    run_tcpf_lab("report", f"{name}.yaml", "--format", "csv", "--results", results)
    (home,) = {path.parent for path in (results / name).glob("**/*-claims.csv")}
    return home


@pytest.mark.parametrize("name", PARTS)
def test_page_of_a_part(tmp_path: Path, hold: Hold, name: str) -> None:
    experiment, *options = PARTS[name]
    run_tcpf_lab("run", f"{experiment}.yaml", *options, "--results", tmp_path)
    (path,) = report(tmp_path, name).glob("*-claims.csv")
    found: dict[str, Any] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            wording = ("claim", "check", "section", "sentence", "statement", "missing")
            numbers = {key: value for key, value in row.items() if key not in wording}
            found[f"{row['claim']} {number}"] = numbers
    hold(f"claims-of-a-part-of-{name}.json", found)


@pytest.mark.parametrize("kind", KINDS)
def test_run_of_a_kind(tmp_path: Path, hold: Hold, kind: str) -> None:
    name, *options = KINDS[kind]
    words = (f"{name}.yaml", *options, "--seeds", 1, "--keep-pcaps", "--results", tmp_path)
    run_tcpf_lab("run", *words)
    (run,) = (path.parent for path in tmp_path.glob("**/metrics.json"))
    hold(f"run-{kind.replace(' ', '-')}.json", dict(answers_of(run)))


def test_run_of_each_case(results: Path, hold: Hold) -> None:
    found = {}
    for run in sorted(path.parent for path in results.glob("config?/uml/*/pcap")):
        place = f"{run.parts[-3]}/{run.name}"
        found |= {f"{place}: {key}": value for key, value in answers_of(run)}
    hold("runs-of-chapter4.json", found)


def answers_of(run: Path) -> Iterator[tuple[str, Any]]:
    """Yield what a run's metrics say, without what identifies its analysis, and its captures."""
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    yield "metrics", metrics["metrics"]
    metrics.pop("analysis")
    metrics["validity"].pop("reasons")
    for check in metrics["validity"]["checks"]:
        del check["detail"]  # words
    yield "metrics.json", digest(metrics)
    for path in sorted((run / "pcap").glob("*")):
        (capture,) = json.loads(run_tcpf_lab("analyze", "--json", "--events", path))["captures"]
        for event in capture["event_list"]:
            del event["explanation"]
        del capture["file"]
        totals = {key: value for key, value in capture.items() if not isinstance(value, list)}
        yield path.name.split(".")[0], totals
        for key in ("skipped_bytes", "read_share", "duplicates"):  # the totals hold them
            del capture[key]
        yield f"{path.name.split('.')[0]}, flows and events", digest(capture)


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
