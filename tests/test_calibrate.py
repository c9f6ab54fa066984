"""Calibrations carried out: the ledger, going on after an interrupt, what is concluded."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.calibration import outcome as judgement
from tcpf_lab.calibration.ledger import CalibrationFiles, Responses, behind, digests
from tcpf_lab.calibration.report import load_calibration
from tcpf_lab.calibration.search import Tried, carry_out, close_look, design, judged, open_search
from tcpf_lab.calibration.target import CellName, Cells, cells_of, logged, variance_of, with_counts
from tcpf_lab.cli import calibrate as calibrate_verbs
from tcpf_lab.report.section import Cell, CellResult, Estimate, Problem
from tcpf_lab.report.style import METRICS
from tcpf_lab.results.layout import locked, read_json
from tcpf_lab.run import runner
from tcpf_lab.spec.calibrated import read_subject
from tcpf_lab.spec.calibration import Variant
from tcpf_lab.spec.load import load_any
from tcpf_lab.testbed import registry

TEXT = """\
name: small
fit: tiny
published: numbers.csv
design: {points: 8}
search: {rounds: 2, batch: 2}
check: {seeds: 3, settings: 3}
tolerance: {timeouts: 25 %, loss_percent: 10 %}
unknowns:
  buffer: {set: traffic.socket_buffer, from: 500 kB, to: 2 MB, scale: log}
  window: {set: tcp.initcwnd, levels: [1, 2, 3], default: 2}
"""
NUMBERS = "experiment,case,flows,timeouts,loss_percent\ntiny,NoMark+RED,3,10,5\n"
WINDOW = "window: {set: tcp.initcwnd, levels: [1, 2, 3], default: 2}"
SPREAD = "  spread: {set: traffic.start_spread, from: 0 s, to: 1 s}\n"
#: RED's `min` is below its `max` at the ends of both ranges, but not everywhere.
LOW_AND_HIGH = (
    "unknowns:\n",
    """unknowns:
  low: {set: cases.NoMark+RED.queue.min, from: 5 kB, to: 14 kB}
  high: {set: cases.NoMark+RED.queue.max, from: 8 kB, to: 15 kB, default: 15 kB}
""",
)
NO_ROUNDS = ("rounds: 2", "rounds: 0")
#: Where the made-up numbers below are the published ones.
RIGHT = {"buffer": "1 MB", "window": "3"}


@pytest.fixture
def folder(tmp_path, spec):
    shutil.copy(spec, tmp_path / "tiny.yaml")
    (tmp_path / "numbers.csv").write_text(NUMBERS)
    (tmp_path / "small.yaml").write_text(TEXT)
    return tmp_path


class MadeUp(Responses):
    """Numbers of a formula instead of runs: those published are at `RIGHT`."""

    failing = frozenset()

    def means(self, points, cells):
        return np.array([[self.formula(point)] for point in points])

    def by_seed(self, point, cells, seeds):
        wobble = 1 + 0.01 * np.arange(seeds)[:, None, None]
        return logged(self.formula(point) * wobble, cells.metrics)

    def formula(self, point):
        if point.id in self.failing:
            return (math.nan, math.nan)
        buffer = self.subject.calibration.unknowns["buffer"].number(point.values["buffer"]) / 1e6
        return 10 * buffer**2 + 3 * (3 - int(point.values["window"])), 5 / buffer


def written(folder, *changes):
    """Write the calibration with changes, (old, new) each."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "small.yaml").write_text(text)


def opened(folder, failing=()):
    path = folder / "small.yaml"
    subject = read_subject(load_any(path), path)
    search = open_search(subject, CalibrationFiles(folder / "results", "small", "uml"), "uml")
    search.responses = MadeUp(subject, search.files, "uml", search.responses.cells)
    search.responses.failing = frozenset(failing)
    return search


def searched(search, stop_at=None):
    """Carry a search out; the number of times that runs were asked for is given."""
    asked = []

    def carry(choice):
        asked.append(choice)
        if len(asked) == stop_at:
            raise KeyboardInterrupt

    carry_out(search, carry, lambda _: None)
    return asked


def rows(search):
    with search.files.ledger.open() as file:
        return list(csv.DictReader(file))


def test_the_design_begins_with_the_experiment_as_it_stands(folder):
    search = opened(folder)
    searched(search)
    first, *others = rows(search)
    assert (first["round"], first["buffer"], first["window"]) == ("0", "1 MB", "2")
    assert [row["round"] for row in others] == ["0"] * 7 + ["1"] * 2 + ["2"] * 2
    assert len({row["id"] for row in [first, *others]}) == 12


def test_points_are_written_down_before_they_are_run(folder):
    search = opened(folder)
    known = []

    def carry(choice):
        known.append({row["id"] for row in rows(search)})
        assert {part.experiment.name[-8:] for part in choice.parts} <= known[-1]

    carry_out(search, carry, lambda _: None)
    assert [len(ids) for ids in known] == [8, 10, 12]


def test_a_search_finds_what_the_numbers_were_made_with(folder):
    search = opened(folder)
    searched(search)
    means = search.responses.log_means(search.ledger.points, search.cells)
    off = np.abs(means - search.cells.log_published).sum(axis=(1, 2))
    best = search.ledger.points[int(np.argmin(off))]
    assert best.values["window"] == RIGHT["window"]
    assert search.subject.calibration.unknowns["buffer"].number(best.values["buffer"]) == (
        pytest.approx(1e6, rel=0.1)
    )


@pytest.mark.parametrize("stop_at", [1, 3])
def test_an_interrupted_search_goes_on_with_the_same_points(folder, stop_at):
    whole = opened(folder)
    searched(whole)
    wanted = whole.files.ledger.read_bytes()
    shutil.rmtree(folder / "results")
    with pytest.raises(KeyboardInterrupt):
        searched(opened(folder), stop_at)
    again = opened(folder)
    asked = searched(again)
    assert again.files.ledger.read_bytes() == wanted
    assert len(asked) == 3 - (stop_at - 1), "all that are known are run together"


def test_a_search_that_is_done_proposes_nothing_more_unless_it_is_asked_to(folder):
    written(folder, ("rounds: 2", "rounds: 0"))
    searched(opened(folder))
    assert len(searched(opened(folder))) == 1
    written(folder, ("rounds: 2", "rounds: 1"))
    more = opened(folder)
    searched(more)
    assert [row["round"] for row in rows(more)][-3:] == ["0", "1", "1"]


def test_points_of_a_narrower_range_are_used_on_in_a_wider_one(folder):
    written(folder, NO_ROUNDS)
    first = opened(folder)
    searched(first)
    written(folder, NO_ROUNDS, ("to: 2 MB", "to: 4 MB"))
    wider = opened(folder)
    assert [p.values for p in wider.ledger.points] == [p.values for p in first.ledger.points]
    place = wider.ledger.points[0].unit[0]
    assert place == pytest.approx(math.log(1e6 / 5e5) / math.log(4e6 / 5e5))


def test_points_outside_of_a_narrower_range_are_kept_apart(folder):
    written(folder, NO_ROUNDS)
    searched(opened(folder))
    before = {row["id"] for row in rows(opened(folder))}
    written(folder, NO_ROUNDS, ("from: 500 kB", "from: 900 kB"))
    narrower = opened(folder)
    out = {row["id"] for row in narrower.ledger.outside}
    assert out
    assert {point.id for point in narrower.ledger.points} == before - out
    searched(narrower)
    after = opened(folder).ledger
    assert len(after.points) == 8, "the design is filled up"
    assert {row["id"] for row in after.outside} == out, "none is lost"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("buffer: {", "sockets: {"), "is of other unknowns: it has buffer and lacks sockets"),
        (("unknowns:\n", f"unknowns:\n{SPREAD}"), "is of other unknowns: it lacks spread"),
        ((f"  {WINDOW}\n", ""), "is of other unknowns: it has window"),
    ],
)
def test_a_ledger_of_other_unknowns_is_refused(folder, change, said):
    written(folder, NO_ROUNDS)
    searched(opened(folder))
    written(folder, NO_ROUNDS, change)
    with pytest.raises(RequestError, match=said) as caught:
        opened(folder)
    assert "--fresh" in str(caught.value)


def test_a_ledger_whose_unknowns_set_something_else_is_refused(folder):
    written(folder, NO_ROUNDS)
    searched(opened(folder))
    levels = "levels: {'1': [tcp.mss=500 B], '2': [], '3': [tcp.mss=600 B]}"
    written(folder, NO_ROUNDS, (WINDOW, f"window: {{{levels}}}"))
    with pytest.raises(RequestError, match=r"points\.csv:2: the unknowns set something else"):
        opened(folder)


@pytest.mark.parametrize("line", ["deadbeef\n", "deadbeef,x,1 MB,2,0.5,0.5\n"])
def test_a_damaged_ledger_is_refused(folder, line):
    written(folder, NO_ROUNDS)
    search = opened(folder)
    searched(search)
    with search.files.ledger.open("a") as file:
        file.write(line)
    with pytest.raises(RequestError, match=r"points\.csv:10: the line is damaged"):
        opened(folder)


def test_too_many_points_without_runs_stop_the_search(folder):
    written(folder, ("rounds: 2", "rounds: 1"))
    first = opened(folder)
    design(first)
    ids = [point.id for point in first.ledger.points]
    with pytest.raises(LabError, match="only 3 of 8 points have usable runs"):
        searched(opened(folder, failing=ids[1:6]))
    assert len(searched(opened(folder, failing=ids[1:4]))) == 2


class Refusing(MadeUp):
    """Those numbers, where the experiments allow the point."""

    def means(self, points, cells):
        found = super().means(points, cells)
        for place, point in enumerate(points):
            self.results(point, cells, 1)
            if point.id in self.refused:
                found[place] = math.nan
        return found


def test_points_that_are_not_allowed_are_left_out_of_all_rounds(folder):
    written(folder, ("points: 8", "points: 16"), LOW_AND_HIGH)
    search = opened(folder)
    search.responses = Refusing(search.subject, search.files, "uml", search.responses.cells)

    def carry(choice):
        search.responses.forget({part.experiment.name for part in choice.parts})

    carry_out(search, carry, lambda _: None)
    assert {point.round for point in search.ledger.points} == {0, 1, 2}
    refused = [point for point in search.ledger.points if point.id in search.responses.refused]
    assert any(point.round == 0 for point in refused)
    used, _ = search.usable(search.ledger.points, search.target())
    assert not {point.id for point in refused} & {point.id for point in used}


NOWHERE = np.empty((0, 2))


def look(search, totals, whole, allowed, within=NOWHERE, expected=None):
    """Choose settings among the points of a design; the emulator expects what was measured."""
    points = search.ledger.points
    by_place = dict(zip((tuple(point.unit) for point in points), totals, strict=True))
    known = expected or (lambda places: np.array([by_place.get(tuple(one), 50) for one in places]))
    return close_look(search, Tried(points, totals, whole, allowed), within, known)


def test_the_close_look_is_at_the_default_the_best_and_what_is_far_from_both(folder):
    search = opened(folder)
    design(search)
    points = search.ledger.points
    totals = np.arange(len(points), dtype=float)[::-1].copy()
    every = np.ones(len(points), dtype=bool)
    chosen = look(search, totals, every, every)
    assert [point.id for point in chosen[:2]] == [search.default.id, points[-1].id]
    assert len({point.id for point in chosen}) == 3
    assert len(look(search, totals, every, ~every)) == 2


def test_the_close_look_is_at_what_the_emulator_expects_most_of_too(folder):
    written(folder, ("settings: 3", "settings: 8"))
    search = opened(folder)
    design(search)
    points = search.ledger.points
    totals, every = np.arange(8.0), np.ones(8, dtype=bool)
    by_place = {tuple(p.unit): e for p, e in zip(points, (1, 9, 9, 9, 2, 3, 0, 9), strict=True)}
    allowed = every.copy()
    allowed[6] = False

    def expected(places):
        return np.array([by_place[tuple(one)] for one in places], dtype=float)

    chosen = look(search, totals, every, allowed, expected=expected)
    ids = [point.id for point in points]
    assert [ids.index(point.id) for point in chosen[:4]] == [0, 4, 5, 1]
    assert len(chosen) == 7, "all but the one that is excluded"


def test_the_close_look_is_at_places_of_the_profiles_that_were_not_run(folder):
    """Of many unknowns hardly a point that was run is as good as what the emulator finds."""
    written(folder, ("settings: 3", "settings: 8"))
    search = opened(folder)
    design(search)
    points = search.ledger.points
    totals, every = np.arange(8.0), np.ones(8, dtype=bool)
    other = np.vstack([points[3].unit, [[0.125, 0.25], [0.125, 0.25]]])
    chosen = look(search, totals, every, ~every, within=other)
    known = {point.id for point in points}
    assert [point.id in known for point in chosen] == [True, False], "the best is the default"
    assert len(search.ledger.points) == len(points), "the search does not go on with them"
    again = look(search, totals, every, ~every, within=other)
    assert [point.id for point in again] == [point.id for point in chosen]


def test_the_close_look_is_at_nothing_that_an_experiment_refuses(folder):
    written(folder, ("points: 8", "points: 16"), LOW_AND_HIGH, ("settings: 3", "settings: 16"))
    search = opened(folder)
    design(search)
    points = search.ledger.points
    allowed = {point.id for point in points if search.responses.is_allowed(point)}
    assert 2 < len(allowed) < 16
    totals, every = np.arange(16.0), np.ones(16, dtype=bool)
    assert {point.id for point in look(search, totals, every, every)} == allowed


def test_a_setting_that_lacks_cells_is_not_the_best_one(folder):
    search = opened(folder)
    design(search)
    points = search.ledger.points
    totals, every = np.arange(8.0)[::-1].copy(), np.ones(8, dtype=bool)
    whole = every.copy()
    whole[[6, 7]] = False
    chosen = look(search, totals, whole, every)
    assert chosen[1].id == points[5].id
    assert not {points[6].id, points[7].id} & {point.id for point in chosen}
    none = np.zeros(8, dtype=bool)
    assert look(search, totals, none, every)[1].id == points[7].id


class Recorded:
    """Runs of settings: by point, a value of each seed; None is an invalid run."""

    def __init__(self, cells, values):
        self.cells, self.values = cells, values

    def results(self, point, cells, seeds):
        return [with_runs(name, self.values[point.id][:seeds]) for name in cells.names]


def with_runs(name, values):
    """Give a cell of which some runs may be invalid."""
    runs = tuple(f"x-seed{n}" for n in range(1, len(values) + 1))
    lost = [run for run, value in zip(runs, values, strict=True) if value is None]
    kept = tuple(value for value in values if value is not None)
    found = result(name, {"timeouts": kept, "loss_percent": (5.0,) * len(kept)} if kept else {})
    cell = replace(found.cell, runs=runs)
    return replace(found, cell=cell, problems=tuple(Problem(r, "invalid") for r in lost))


def judge(folder, before=(True, True, True), **values):
    """Judge three settings whose loss is right; the timeouts published are 10."""
    search = opened(folder)
    design(search)
    chosen = search.ledger.points[:3]
    by_id = {point.id: values[name] for point, name in zip(chosen, "abc", strict=True)}
    target = search.target()
    search.responses = Recorded(search.cells, by_id)
    found = judged(search, chosen, target, np.array(before))
    return [point.id for point in chosen].index(found.best.id), found


def test_the_best_setting_is_not_the_one_that_was_lucky_in_the_search(folder):
    """Over all three seeds b is nearest to the published 10; it was chosen by its first one."""
    best, found = judge(folder, a=(30.0, 30, 30), b=(4.0, 13, 13), c=(13.5, 11.5, 11.5))
    assert best == 2
    assert np.argmin(found.totals) == 1
    assert found.allowed.tolist() == [False, True, True]


def test_a_cell_without_another_usable_seed_is_judged_by_the_one_that_it_has(folder):
    best, found = judge(folder, a=(30.0, 30, 30), b=(10.0, None, None), c=(14.0, 14, 14))
    assert best == 1
    assert found.unseen[1] < found.unseen[2] < found.unseen[0]


def test_settings_looked_at_are_excluded_by_their_own_runs(folder):
    before = (False, False, True)
    values = {"a": (10.0, 10, 10), "b": (None, None, None), "c": (90.0, 90, 90)}
    best, found = judge(folder, before, **values)
    assert best == 0
    assert found.allowed.tolist() == [True, False, False]
    assert judge(folder, (False, True, True), **values)[1].allowed[1], "nothing else is known"


def result(name, values):
    metrics = {
        m: Estimate(
            tuple(values.get(m, ())), float(np.mean(values[m])) if m in values else None, None, None
        )
        for m in METRICS
    }
    used = len(next(iter(values.values()), ()))
    runs = tuple(f"x-seed{n}" for n in range(1, used + 1))
    cell = Cell(name.config, name.case, name.flows, runs, published=False)
    return CellResult(cell, used, used, used, metrics, ())


NAMES = tuple(CellName("e", "e", 10, case) for case in ("a", "b", "c"))


def test_an_error_is_the_root_mean_square_of_logarithms():
    cells = Cells(NAMES, ("timeouts",), np.array([[10.0], [20.0], [math.nan]]))
    before = [result(name, {"timeouts": (41.5, 41.5)}) for name in NAMES]
    after = [result(name, {"timeouts": (10.0, 10.0)}) for name in NAMES]
    found = judgement.held_out(cells, before, after)["timeouts"]
    logs = [math.log(44.5 / 13), math.log(44.5 / 23)]
    assert found["default"]["error"] == pytest.approx(math.hypot(*logs) / math.sqrt(2))
    assert found["calibrated"]["error"] == pytest.approx(math.log(23 / 13) / math.sqrt(2))
    error = found["default"]["error"]
    assert found["default"]["interval"] == pytest.approx([error, error]), "no noise, no width"
    assert found["ratio"]["error"] == pytest.approx(found["calibrated"]["error"] / error)


def test_a_cell_without_runs_is_left_out_of_errors_and_orders():
    cells = Cells(NAMES, ("timeouts",), np.array([[10.0], [20.0], [30.0]]))
    some = [
        result(NAMES[0], {"timeouts": (5.0, 6.0)}),
        result(NAMES[1], {}),
        result(NAMES[2], {"timeouts": (9.0, 9.0)}),
    ]
    found = judgement.held_out(cells, some, some)["timeouts"]
    assert math.isfinite(found["default"]["error"])
    (block,) = judgement.orders(cells, some, some[::-1])
    assert (block["config"], block["flows"], block["metric"]) == ("e", 10, "timeouts")
    assert (block["default"]["tau"], block["calibrated"]["tau"]) == (1.0, 1.0)
    assert (block["cells"], found["cells"], found["published"]) == (2, 2, 3)
    assert judgement.claims({"x": some}) == [], "nothing of the published tables"
    assert list(judgement.unusable({"x": some})) == ["point x: no usable run of e 10 b"]


def test_both_settings_are_judged_by_the_cells_that_both_have():
    """Else the one that has lost its worst cell would look the better."""
    cells = Cells(NAMES, ("timeouts",), np.array([[10.0], [20.0], [30.0]]))
    values = [(10.0, 10.0), (90.0, 90.0), (30.0, 30.0)]
    before = [result(n, {"timeouts": v}) for n, v in zip(NAMES, values, strict=True)]
    after = [before[0], result(NAMES[1], {}), before[2]]
    for pair in ((before, after), (after, before)):
        errors = judgement.held_out(cells, *pair)
        found = errors["timeouts"]
        assert found["default"] == found["calibrated"]
        assert (found["default"]["error"], found["cells"]) == (0.0, 2)
        (block,) = judgement.orders(cells, *pair)
        assert block["default"] == block["calibrated"]
        assert (block["cells"], block["default"]["tau"]) == (2, 1.0)
        assert list(judgement.not_compared({"fit": errors})) == [
            "fit, timeouts: errors are of 2 of 3 cells, those with runs under both settings"
        ]
    assert list(judgement.not_compared({"fit": judgement.held_out(cells, before, before)})) == []


def test_a_count_is_never_better_known_than_a_poisson_number():
    published = np.array([[10.0, 5.0], [0.0, 5.0], [math.nan, 5.0]])
    cells = Cells(NAMES, ("timeouts", "loss_percent"), published)
    found = with_counts(np.full((3, 2), 1e-6), cells)
    assert found[:, 0] == pytest.approx([10 / 13**2, 0.5 / 3**2, 1e-6])
    assert found[:, 1] == pytest.approx(1e-6)
    assert with_counts(np.full((3, 2), 5.0), cells) == pytest.approx(5.0)


def test_noise_of_one_cell_is_drawn_towards_that_of_all():
    quiet, loud = np.zeros((5, 1, 1)), np.array([-2.0, -1, 0, 1, 2]).reshape(5, 1, 1)
    variance = variance_of(np.concatenate([quiet, loud], axis=1))[:, 0]
    assert 0 < variance[0] < variance[1] < 2.5
    assert variance.mean() == pytest.approx(1.25)
    nothing = variance_of(np.full((5, 2, 1), math.nan))
    assert (nothing > 0).all()


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ("experiment,flows,timeouts\n", "numbers.csv:1: lacks the column case"),
        ("experiment,case,flows\n", "numbers.csv:1: has no column of a metric in tolerance"),
        (NUMBERS.replace(",10,", ",ten,"), "numbers.csv:2: 'ten' is not a number of 0 or more"),
        (NUMBERS.replace(",3,", ",few,"), "numbers.csv:2: flows: 'few' is not a count"),
        (NUMBERS.replace("tiny", "tinny"), "no published number of tiny is known"),
        (
            f"{NUMBERS}tiny,NoMark+RDE,3,9,5\n",
            "numbers.csv:3: tiny: unknown case 'NoMark+RDE'; allowed: NoMark+RED. Did you mean",
        ),
        (f"{NUMBERS}tiny,NoMark+RED,4,9,5\n", "numbers.csv:3: tiny: its matrix has no flows: 4;"),
        (f"{NUMBERS}tiny,nomark+red,3,,\n", "numbers.csv:3: a second row of tiny, nomark+red, 3 f"),
        (None, "numbers.csv: cannot be read"),
    ],
)
def test_wrong_published_numbers_are_refused(folder, numbers, said):
    (folder / "numbers.csv").unlink()
    if numbers is not None:
        (folder / "numbers.csv").write_text(numbers)
    with pytest.raises(RequestError, match=re.escape(said)):
        opened(folder)


def test_rows_that_are_not_asked_for_are_no_mistake(folder):
    text = (folder / "tiny.yaml").read_text()
    assert "flows: 3" in text
    (folder / "tiny.yaml").write_text(text.replace("flows: 3", "flows: [3, 5]"))
    (folder / "numbers.csv").write_text(f"{NUMBERS}tiny,NoMark+RED,5,1,1\nother,Mine,9,1,1\n")
    written(folder, ("fit: tiny", "fit: tiny\nonly: {flows: 3}"))
    search = opened(folder)
    assert [name.flows for name in search.cells.names] == [3]
    assert search.cells.published.tolist() == [[10.0, 5.0]]


def test_a_metric_without_a_published_number_is_refused(calibrate, folder):
    (folder / "other.yaml").write_text(
        (folder / "tiny.yaml").read_text().replace("name: tiny", "name: other")
    )
    (folder / "numbers.csv").write_text(f"{NUMBERS[:-2]}\nother,NoMark+RED,3,9,5\n")
    written(folder, ("fit: tiny", "fit: tiny\ntest: other"))
    status, _, complaints = calibrate("--dry-run")
    assert status == 2
    assert "small.yaml: tolerance: no number of loss_percent is published for an" in complaints
    assert "leave loss_percent out of tolerance" in complaints


def test_the_published_tables_are_used_where_no_file_is_named(folder):
    path = folder / "a.yaml"
    path.write_text(
        "name: a\nfit: configA\ntest: configC\nonly: {flows: 100}\ntolerance: {timeouts: 25 %}\n"
        "unknowns:\n  rto: {set: tcp.rto_min, from: 200 ms, to: 1 s, default: 200 ms}\n"
        "base: [tcp.rto_min=200 ms]\n"
    )
    subject = read_subject(load_any(path), path)
    cells = cells_of(subject, subject.experiments)
    assert len(cells.names) == 14
    assert cells.published[:7, 0].tolist() == [41, 120, 390, 911, 1030, 1140, 1322]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("small.yaml", "timeouts: 25 %", "timeouts: 20 %", "small.yaml has changed since"),
        ("small.yaml", "from: 500 kB", "from: 400 kB", "small.yaml has changed since"),
        ("numbers.csv", ",10,", ",11,", "The published numbers of small.yaml are others by now"),
        ("tiny.yaml", "warmup: 1 s", "warmup: 2 s", "The experiments of small.yaml are others by"),
    ],
)
def test_an_outcome_is_behind_what_its_files_say(folder, file, old, new, said):
    data = digested(folder)
    assert stale(folder, data) == []
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    (sentence,) = stale(folder, data)
    assert sentence.startswith(said)
    words = f"{folder}/small.yaml --results {folder}/results --only-report"
    assert sentence.endswith(f": `tcpf-lab calibrate {words}`.")


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tiny.yaml", "warmup: 1 s", "warmup: 1"),
        ("numbers.csv", "3,10,5", "3,,"),
        ("small.yaml", "buffer: {", "sockets: {"),
    ],
)
def test_what_cannot_be_carried_out_is_not_to_be_concluded_again(folder, file, old, new):
    searched(opened(folder))
    data = digested(folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    (sentence,) = stale(folder, data)
    assert sentence.startswith("small.yaml cannot be carried out any more (")
    assert "--only-report" not in sentence


def test_published_rows_are_permuted_among_all_cells(folder):
    """Each number is held against another cell, the same one again, whole rows at a time."""
    path = folder / "small.yaml"
    text = TEXT.replace("fit: tiny", "fit: [configA, configB]\ntest: configC")
    path.write_text(text.replace("published: numbers.csv\n", ""))
    asked = load_any(path)
    subject, same = read_subject(asked, path), read_subject(asked, path, Variant(permuted=7))
    straight, shuffled = (cells_of(one, one.experiments) for one in (subject, same))
    assert straight.names == shuffled.names
    assert (straight.published != shuffled.published).any(axis=1).sum() > len(straight.names) / 2
    rows = [sorted(map(tuple, one.published)) for one in (straight, shuffled)]
    assert rows[0] == rows[1]
    fitted = cells_of(same, same.fit)
    assert (fitted.published == shuffled.published[: len(fitted.names)]).all()


def test_points_outside_of_a_narrower_range_are_no_part_that_an_outcome_lacks(folder):
    written(folder, NO_ROUNDS)
    searched(opened(folder))
    written(folder, NO_ROUNDS, ("from: 500 kB", "from: 900 kB"))
    narrower = opened(folder)
    assert narrower.ledger.outside
    data = digested(folder) | {"points": [{"id": point.id} for point in narrower.ledger.points]}
    assert stale(folder, data) == []
    searched(narrower)
    new = len(opened(folder).ledger.points) - len(data["points"])
    (sentence,) = stale(folder, data)
    assert sentence.startswith(f"{new} points of points.csv are not part of this outcome")


def test_an_outcome_is_not_behind_files_that_only_look_otherwise(folder):
    data = digested(folder)
    path, numbers = folder / "small.yaml", folder / "numbers.csv"
    path.write_text(
        "# A remark.\ntitle: Another\n" + path.read_text().replace("seeds: 3", "seeds:   3")
    )
    numbers.write_text(numbers.read_text().replace(",10,", ",10.0,"))
    assert stale(folder, data) == []


def digested(folder):
    """Give as much of an outcome as tells what it is of."""
    path = folder / "small.yaml"
    return {"digests": digests(read_subject(load_any(path), path)), "unknowns": [], "points": []}


def stale(folder, data):
    path = folder / "small.yaml"
    files = CalibrationFiles(folder / "results", "small", "uml")
    return list(behind(load_any(path), path, files, data))


# On the command line, with runs that are recorded ones whatever the settings are.


@pytest.fixture
def calibrate(lab, folder):
    def call(*words):
        return lab("calibrate", folder / "small.yaml", "--testbed", "fake", *words)

    return call


def small(folder, rounds=1):
    """Write one whose runs are valid though they are always the same."""
    changed = (
        (f"  {WINDOW}\n", SPREAD),
        ("points: 8", "points: 5"),
        ("rounds: 2", f"rounds: {rounds}"),
    )
    written(folder, *changed)


@pytest.fixture(scope="module")
def kept():
    """Return the results that were made, by number of rounds."""
    return {}


@pytest.fixture
def concluded(calibrate, folder, kept, tmp_path_factory):
    """Return a function that leaves what a calibration leaves, which is carried out once."""

    def make(rounds=1):
        small(folder, rounds)
        if rounds in kept:
            shutil.copytree(kept[rounds], folder / "results")
        else:
            status, _, complaints = calibrate()
            assert status == 0, complaints
            place = tmp_path_factory.mktemp("kept") / "results"
            kept[rounds] = shutil.copytree(folder / "results", place)
        return folder / "results" / "small" / "calibration-fake"

    return make


def test_a_calibration_goes_through_the_runner_and_leaves_a_file(calibrate, folder):
    small(folder)
    status, said, complaints = calibrate()
    assert status == 0, complaints
    root = folder / "results" / "small"
    data = json.loads((root / "calibration-fake" / "calibration.json").read_text())
    assert "A fit is not a reproduction" in said
    assert "A fit is not a reproduction" in data["notes"][0]
    assert [point["round"] for point in data["points"]] == [0] * 5 + [1] * 2
    for point in data["points"]:
        name = f"small-tiny-{point['id']}"
        run = root / "points" / name / "fake" / "nomark+red-flows3-seed1"
        assert f"name: {name}\n" in (run / "run.yaml").read_text()
        assert not (run / "pcap").exists(), "captures are not kept"
    (session,) = json.loads((root / "calibration-fake" / "cost.json").read_text())
    looked_at = len(data["settings"])
    assert session["made"] == data["runs"] == 7 + 2 * looked_at
    assert data["held_out"]["fit"].keys() == {"timeouts", "loss_percent"}
    assert "test" not in data["held_out"]
    assert "nothing is held out: whether the settings carry over is unknown" in data["notes"]


def test_what_is_there_is_concluded_again_byte_for_byte(calibrate, concluded):
    root = concluded()
    wanted, cost = (root / "calibration.json").read_bytes(), (root / "cost.json").read_bytes()
    for words in (("--json",), ("--only-report",)):
        (root / "calibration.json").unlink()
        status, said, _ = calibrate(*words)
        assert status == 0
        assert (root / "calibration.json").read_bytes() == wanted
        assert "--json" not in words or json.loads(said) == json.loads(wanted)
    assert (root / "cost.json").read_bytes() == cost, "nothing was run"


def test_what_a_search_has_not_done_is_said_in_its_outcome(calibrate, concluded, folder):
    outcome, path = concluded() / "calibration.json", folder / "small.yaml"
    data = json.loads(outcome.read_text())
    assert data["unfinished"] is None
    assert {point["complete"] for point in data["points"]} == {True}
    path.write_text(path.read_text().replace("rounds: 1", "rounds: 3"))
    gone = folder / "results" / "small" / "points" / f"small-tiny-{data['points'][1]['id']}"
    shutil.rmtree(gone)
    assert calibrate("--only-report")[0] == 0
    again = json.loads(outcome.read_text())
    assert again["runs"] < data["runs"]
    rounds, of, lacking, asked = map(int, re.findall(r"\d+", again["unfinished"]))
    assert (rounds, of, asked - lacking) == (1, 3, again["runs"])
    assert again["points"][1]["misfit"] is None
    assert again["points"][1]["excluded"] is None, "nothing is known of it"


def test_a_variant_has_a_directory_of_its_own_and_a_row_in_the_report(calibrate, concluded, lab):
    root = concluded()
    status, _, complaints = calibrate("--hold", "spread=0 s", "--permuted", "3")
    assert status == 0, complaints
    own = root.with_name(f"{root.name}-spread=0-s-permuted-3")
    data = json.loads((own / "calibration.json").read_text())
    assert data["variant"] == "spread=0 s, published rows permuted, seed 3"
    assert [one["name"] for one in data["unknowns"]] == ["buffer"]
    for name, text in (("damaged", "{"), ("cut", '{"format": 1, "variant": "cut"}')):
        other = root.with_name(f"{root.name}-{name}")
        other.mkdir()
        (other / "calibration.json").write_text(text)
    results = root.parents[1]
    words = ("small.yaml", "--testbed", "fake", "--results", results, "--format", "csv")
    kept = root.parent / "kept"
    assert lab("report", *words, "--reference", kept)[0] == 0
    table = (root / "calibration-variants.csv").read_text()
    assert table.splitlines()[1].startswith('"spread=0 s, published rows permuted, seed 3",fitted,')
    (only,) = read_json(kept / "variants.json.zst")
    assert only["held_out"] == data["held_out"]


def test_figures_are_written_and_named_and_are_the_same_again(calibrate, concluded):
    figures = concluded() / "figures"
    names = [f"{n}.{s}" for n in ("profiles", "influence", "convergence") for s in ("svg", "png")]
    assert sorted(path.name for path in figures.iterdir()) == sorted(names)
    once = {name: (figures / name).read_bytes() for name in names}
    assert once["profiles.png"].startswith(b"\x89PNG")
    assert b"buffer" in once["profiles.svg"]
    shutil.rmtree(figures)
    status, said, _ = calibrate("--only-report")
    assert status == 0
    assert {name: (figures / name).read_bytes() for name in names} == once
    figures_line, outcome = said.splitlines()[-2:]
    assert figures_line.startswith(f"figures: {len(names)} files in ")
    assert Path(outcome).name == "calibration.json"


def test_outcome_has_what_the_close_look_measured(concluded):
    data = json.loads((concluded() / "calibration.json").read_text())
    assert [(c["experiment"], c["case"]) for c in data["table"]["cells"]] == [
        ("tiny", "NoMark+RED")
    ]
    assert data["table"]["published"] == [[10.0, 5.0]]
    for setting in data["settings"]:
        assert setting["runs"] == [3]
        assert setting["tcp"]["profile"] == "sysctl-2.2"
        assert list(setting["conditions"]) == ["tiny"]
        assert [len(row) for row in setting["mean"]] == [2]
    validity = data["validity"]
    looked_at = 3 * len(data["settings"])
    assert validity["runs"] == dict.fromkeys(("requested", "complete", "valid", "used"), looked_at)
    assert validity["left_out"] == []
    assert validity["made_with"]["testbed"] == ["fake"]
    assert {point["excluded"] for point in data["points"]} <= {True, False}
    buffer = next(one for one in data["profiles"] if one["name"] == "buffer")
    assert (buffer["texts"][0], buffer["texts"][-1]) == ("500 kB", "2 MB")


def test_held_out_errors_are_given_without_what_was_known_before(calibrate, folder, lab):
    """Both cases measure the same, and other numbers are published of them."""
    small(folder, rounds=0)
    queue = "queue: {kind: red, limit: 60 kB, min: 5 kB, max: 15 kB, probability: 0.1, burst: 20}"
    text = (folder / "tiny.yaml").read_text().replace("name: tiny", "name: other")
    assert queue in text
    (folder / "other.yaml").write_text(text.replace("matrix:", f"  Mine: {{{queue}}}\nmatrix:"))
    rows = "other,NoMark+RED,3,400,5\nother,Mine,3,40,20\n"
    (folder / "numbers.csv").write_text(NUMBERS + rows)
    path = folder / "small.yaml"
    seen = "fit: tiny\ntest: other\nseen: {NoMark+RED: its limit was read off its row}\n"
    path.write_text(path.read_text().replace("fit: tiny\n", seen))
    status, said, complaints = calibrate()
    assert status == 0, complaints
    assert "error, held out: other without NoMark+RED" in said
    root = folder / "results" / "small" / "calibration-fake"
    data = json.loads((root / "calibration.json").read_text())
    place = [cell["case"] for cell in data["table"]["cells"]].index("Mine")
    mean = data["settings"][0]["mean"][place][0] + 3
    blind, every = (
        data["held_out"][part]["timeouts"]["default"]["error"] for part in ("blind", "test")
    )
    assert blind == pytest.approx(abs(math.log(mean / 43)), rel=1e-5)
    assert {one["part"] for one in data["kendall"]} == {"fit", "test", "blind"}
    both = math.hypot(math.log(mean / 43), math.log(mean / 403)) / math.sqrt(2)
    assert every == pytest.approx(both, rel=1e-5)
    assert set(load_calibration(root).held_out["part"]) == {"fit", "test", "blind"}
    assert lab("report", path, "--testbed", "fake", "--format", "md")[0] == 0
    page = (root / "calibration.md").read_text()
    assert "The held-out numbers of NoMark+RED were known when the unknowns were chosen" in page
    assert "chosen: its limit was read off its row." in page
    assert "| held out without NoMark+RED | timeouts" in page
    assert "by now" not in page


def test_fewer_independent_numbers_are_taken_if_it_is_said_so(calibrate, concluded, folder):
    path = concluded(rounds=0) / "calibration.json"
    before = json.loads(path.read_text())
    text = (folder / "small.yaml").read_text()
    (folder / "small.yaml").write_text(f"independent: 1\n{text}")
    assert calibrate("--only-report")[0] == 0
    after = json.loads(path.read_text())
    assert (before["threshold"]["effective"], after["threshold"]["effective"]) == (2, 1)
    assert any("2 residuals count as independent" in note for note in before["notes"])
    assert any("count as 1 independent ones" in note for note in after["notes"])
    (folder / "small.yaml").write_text(f"independent: 3\n{text}")
    status, _, complaints = calibrate("--dry-run")
    assert status == 2
    assert "independent: 3 of 2 published numbers" in complaints


def test_a_dry_run_counts_and_touches_nothing(calibrate, concluded, folder):
    status, said, _ = calibrate("--dry-run", "--json")
    data = json.loads(said)
    assert status == 0
    assert (data["points"], data["runs_of_a_point"], data["seconds_left"]) == (12, 1, None)
    assert data["runs_of_the_close_look"] == (3 - 1) * 2, "one seed of three is the search's"
    assert data["runs_left"] == 12 + 2 + 4
    assert not (folder / "results").exists()
    concluded(rounds=0)
    left = json.loads(calibrate("--dry-run", "--json")[1])
    assert left["points_in_ledger"] == 5
    assert left["runs_left"] == 4, "those of the final check may be of other settings"
    assert left["seconds_left"] is not None
    assert "time left" in calibrate("--dry-run")[1]


def test_a_dry_run_counts_what_is_missing_of_points_that_are_known(calibrate, concluded, folder):
    concluded()
    data = json.loads(calibrate("--dry-run", "--json")[1])
    runs = sorted((folder / "results" / "small" / "points").glob("*/fake/*-seed1"))
    shutil.rmtree(runs[0])
    less = json.loads(calibrate("--dry-run", "--json")[1])
    assert less["runs_left"] == data["runs_left"] + 1
    small(folder, rounds=3)
    more = json.loads(calibrate("--dry-run", "--json")[1])
    assert more["runs_left"] == less["runs_left"] + 2 * 2


def test_fresh_puts_the_old_points_aside_and_finds_their_runs_again(calibrate, concluded):
    root = concluded(rounds=0)
    before = (root / "points.csv").read_bytes()
    assert calibrate("--fresh")[0] == 0
    assert (root / "points-1.csv").read_bytes() == before == (root / "points.csv").read_bytes()
    assert len(json.loads((root / "cost.json").read_text())) == 1, "no run was made again"


def test_a_dry_run_counts_without_the_points_that_fresh_puts_aside(calibrate, concluded, folder):
    path = concluded(rounds=0) / "points.csv"
    before = path.read_bytes()
    data = json.loads(calibrate("--fresh", "--dry-run", "--json")[1])
    assert (data["points_in_ledger"], data["points"]) == (0, 5)
    assert data["runs_left"] == 5 + 2 + 4
    text = (folder / "small.yaml").read_text()
    (folder / "small.yaml").write_text(text.replace("buffer: {", "sockets: {"))
    assert calibrate("--dry-run")[0] == 2, "the points are of other unknowns"
    assert calibrate("--dry-run", "--fresh")[0] == 0
    assert path.read_bytes() == before


def test_how_long_a_cluster_takes_is_not_known(calibrate, concluded):
    cost = concluded(rounds=0) / "cost.json"
    cost.write_text(json.dumps([{"made": 1, "run_s": 900.0}]))
    words = ("--dry-run", "--cluster", "tcp://scheduler:8786")
    data = json.loads(calibrate(*words, "--json")[1])
    assert (data["seconds_left"], data["run_seconds_left"]) == (None, 900 * data["runs_left"])
    assert "about 1 h 0 min of runs, shared out among the workers" in calibrate(*words)[1]
    data = json.loads(calibrate("--dry-run", "--jobs", "2", "--json")[1])
    assert data["seconds_left"] == data["run_seconds_left"] / 2 == 1800


def test_the_points_are_read_and_put_aside_by_who_has_the_lock(calibrate, folder, monkeypatch):
    small(folder, rounds=0)
    root = folder / "results" / "small" / "calibration-fake"

    def opened_locked(subject, files, testbed):
        with pytest.raises(RequestError, match="another tcpf-lab process"), locked(root):
            pass
        return open_search(subject, files, testbed)

    monkeypatch.setattr(calibrate_verbs, "open_search", opened_locked)
    assert calibrate()[0] == 0
    before = (root / "points.csv").read_bytes()
    with locked(root):
        status, _, complaints = calibrate("--fresh")
    assert status == 2
    assert "another tcpf-lab process" in complaints
    assert not (root / "points-1.csv").exists()
    assert (root / "points.csv").read_bytes() == before


def test_a_session_that_is_interrupted_is_remembered(calibrate, folder, monkeypatch):
    small(folder)
    whole = runner.run_all

    def interrupted(*words, **more):
        for number, event in enumerate(whole(*words, **more), 1):
            yield event
            if number == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_all", interrupted)
    status, _, complaints = calibrate()
    assert status != 0
    assert "interrupted; complete runs remain" in complaints
    cost = folder / "results" / "small" / "calibration-fake" / "cost.json"
    (session,) = json.loads(cost.read_text())
    assert (session["made"], session["interrupted"]) == (3, True)
    assert session["wall_s"] >= session["running_s"] >= 0
    monkeypatch.setattr(runner, "run_all", whole)
    assert calibrate()[0] == 0
    sessions = json.loads(cost.read_text())
    data = json.loads((cost.parent / "calibration.json").read_text())
    assert [one["interrupted"] for one in sessions] == [True, False]
    assert 0 < sessions[1]["made"] <= data["runs"] - 3, "what is complete is not made again"


def test_numbers_that_are_missing_are_told_before_a_directory_is_made(calibrate, folder):
    (folder / "numbers.csv").unlink()
    status, _, complaints = calibrate()
    assert status == 2
    assert "numbers.csv: cannot be read" in complaints
    assert not (folder / "results").exists()


def test_runs_that_fail_stop_a_search_that_has_nothing_left(calibrate, folder, fake, monkeypatch):
    broken = replace(fake, failing_seeds=(1, 2, 3))
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: broken)
    status, _, complaints = calibrate()
    assert status == 1
    assert "asked to fail" in complaints
    assert "the uncalibrated experiments have no usable run" in complaints


TESTBEDS = Path(__file__).parents[1] / "testbeds"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        *(
            ((verb, "small.yaml", "--testbed", "fake"), "tcpf-lab calibrate small.yaml")
            for verb in ("run", "plan", "compare", "status", "report")
        ),
        (("calibrate", "small.yaml", "--only-report"), "no point has been run yet"),
        (("calibrate", "small.yaml", "--only-report", "--fresh"), "leave one of the two out"),
        (("calibrate", "small.yaml", "--only-report", "--dry-run"), "leave one of the two out"),
        (("calibrate", "tiny.yaml"), "is an experiment, not a calibration"),
        (("doctor", "small.yaml", "--testbed", TESTBEDS / "two-hosts.yaml"), "is a calibration"),
        (("doctor", "small.yaml"), "leave SPEC out"),
    ],
)
def test_what_is_no_request_is_refused(lab, folder, words, said):
    status, _, complaints = lab(*words)
    assert status == 2
    assert said in complaints
