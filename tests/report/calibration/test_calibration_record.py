"""What a report takes from the outcome of a calibration, and what its page says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from outcome_maker import outcome, write_outcome

from tcpf_lab.errors import RequestError
from tcpf_lab.report.calibration.contents import contents_of
from tcpf_lab.report.calibration.drawings import drawings
from tcpf_lab.report.calibration.page import build, told_of_claims, told_of_noise
from tcpf_lab.report.calibration.record import Record, claims_under, read_record
from tcpf_lab.report.papers.page import Drawing, Table, drawn, markdown


def record(told: dict[str, Any] | None = None) -> Record:
    return Record(told or outcome(), (), Path("calibration.json"))


def table(found: Record, name: str) -> Table:
    return next(b for b in build(found).blocks if isinstance(b, Table) and b.name == name)


def test_claims_are_counted_under_plausible_settings_alone() -> None:
    told = outcome()
    default, best, other = (one["id"] for one in told["settings"][:3])
    plausible = [one["id"] for one in told["settings"][1:]]
    said = {"id": "x", "statement": "s", "published": "holds"}
    everywhere = dict.fromkeys(plausible, "holds") | {default: "refuted"}
    told["claims"] = [
        {**said, "verdicts": everywhere},
        {**said, "verdicts": everywhere | {other: "refuted"}},
        {**said, "verdicts": dict.fromkeys(plausible, "refuted") | {default: "holds"}},
        {**said, "verdicts": dict.fromkeys([default, *plausible], "not decidable")},
    ]
    found = list(claims_under(record(told)))
    assert [one.kind for one in found] == ["every", "some", "none", "not decidable"]
    assert (found[0].default, found[0].best) == ("refuted", "holds")
    assert sum(found[0].counts.values()) == 7
    said_of_all = told_of_claims(record(told))
    assert "Of 4 published claims 1 hold under each of the 7 settings" in said_of_all
    assert "1 under some, 1 under none. 1 are about other cells" in said_of_all
    rows = table(record(told), "claims").rows
    assert [row[3] for row in rows] == ["7 of 7", "6 of 7", "0 of 7"]
    assert best in plausible


def test_best_setting_counts_even_if_a_single_run_excluded_it() -> None:
    told = outcome()
    for one in told["points"]:
        one["excluded"] = True
    assert record(told).plausible == (told["best"]["id"],)


def test_every_cell_has_the_published_the_uncalibrated_and_the_best_number() -> None:
    found = table(record(), "cells")
    assert len(found.rows) == 56
    first = dict(zip(found.columns, found.rows[0], strict=True))
    assert first["block"] == "configuration A, 100 flows, fitted"
    assert first["case"] == "TCPF+FRIO"
    assert first["timeouts, published"] == "41"
    assert first["timeouts, uncalibrated"] == "41.0"
    assert first["timeouts, best"] == "45.1 ± 0.8"
    assert found.rows[-1][0] == "configuration D, 50 flows, held out"


def test_page_begins_with_what_a_fit_is_not_and_has_every_part() -> None:
    page = build(record())
    text = markdown(page)
    assert text.splitlines()[2].startswith("A fit is not a reproduction")
    names = [block.name for block in page.blocks if isinstance(block, Table | Drawing)]
    assert names == [
        *("asked", "unknowns", "profiles-1", "profiles-2", "errors", "orders", "tcp", "cells"),
        *("claims", "influence", "emulator", "convergence"),
    ]
    assert "How long that took is not known" in text


def test_held_out_error_is_judged_by_its_interval() -> None:
    told = outcome()
    test = told["held_out"]["test"]
    test["timeouts"]["ratio"] = {"error": 0.9, "interval": [0.8, 1.1]}
    test["goodput_cov"]["ratio"] = {"error": 1.2, "interval": [1.1, 1.3]}
    test["loss_percent"]["ratio"] = {"error": None, "interval": None}
    text = markdown(build(record(told)))
    assert "no difference beyond noise for timeouts (ratio 0.900)" in text
    assert "larger for CoV (ratio 1.200)" in text
    assert "no interval for loss;" in text


def test_blocks_in_nearly_the_published_order_are_counted() -> None:
    text = markdown(build(record()))
    assert "Timeouts: at least 0.9 in 4 of 8 blocks, uncalibrated in 0." in text


def test_noise_of_other_settings_is_held_against_the_uncalibrated_ones() -> None:
    told = outcome()
    assert "were looked at, seeds differ" in markdown(build(record(told))), "2 % everywhere"
    for setting in told["settings"]:
        setting["mean"] = [[10.0] * 4 for _ in setting["mean"]]
        setting["half"] = [[0.5, 1.0, None, 0.0] for _ in setting["half"]]
    for setting in told["settings"][1:]:
        setting["half"] = [[1.0, 1.0, 1.0, 1.0] for _ in setting["half"]]
    said = told_of_noise(record(told))
    assert said.endswith("as a median over cells, 4 for timeouts and 1 for loss.")
    for setting in told["settings"]:
        del setting["mean"], setting["half"]
    assert told_of_noise(record(told)) == ""


def test_calibration_without_held_out_numbers_says_so() -> None:
    told = outcome()
    told["test"], told["held_out"] = [], {"fit": told["held_out"]["fit"]}
    found = record(told)
    assert "held out: nothing" in markdown(build(found))
    contents = contents_of(found, build(found), ("a", "b"))
    assert contents.question.endswith("configurations A and B?")
    assert any("Nothing is held out." in text for text in contents.answer)


def test_contents_number_their_tables_and_name_every_figure() -> None:
    found = record()
    contents = contents_of(found, build(found), ("a", "b"))
    assert [figure.name for figure in contents.figures] == [one.name for one in drawings(found)]
    cells = next(t for p in contents.results for t in p.tables if t.name == "calibration-cells")
    assert [len(group.rows) for group in cells.groups] == [7] * 8
    mean, before = cells.groups[0].rows[0][1:3]
    assert (mean.text, mean.half, mean.published, before.text) == ("45.1", "0.8", "41", "41.0")
    assert cells.label.startswith("Table ")
    (left_out,) = contents.validity.left_out
    assert left_out.state == "invalid"


def test_long_names_of_unknowns_are_broken_not_cut() -> None:
    first = drawn(drawings(record())[0], ("svg",))["svg"].decode()
    assert first.count("<!-- limit of tail drop as a -->") == 1
    assert first.count("<!-- multiple of RED's max -->") == 1


def test_what_is_no_outcome_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file"):
        read_record(tmp_path)
    write_outcome(tmp_path, {"format": 2})
    with pytest.raises(RequestError, match="is no outcome of a calibration of format 1"):
        read_record(tmp_path)
    told = outcome()
    del told["kendall"]
    with pytest.raises(RequestError, match="is damaged: it lacks kendall"):
        read_record(write_outcome(tmp_path, told))
