"""What a report takes from the outcome of a calibration, and what its page says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from outcome_maker import outcome, write_outcome

from tcpf_lab.base.errors import RequestError
from tcpf_lab.calibration import page
from tcpf_lab.calibration.figures import drawings
from tcpf_lab.calibration.page import build, noise_ratios
from tcpf_lab.calibration.record import Record, claims_under, read_record
from tcpf_lab.calibration.report import contents_of
from tcpf_lab.report.claims.page import Table, Text, markdown


def record(data: dict[str, Any] | None = None) -> Record:
    return Record(data or outcome(), (), Path("calibration.json"))


def table(found: Record, name: str) -> Table:
    return next(b for b in build(found).blocks if isinstance(b, Table) and b.name == name)


def told_of_claims(found: Record) -> str:
    return page.paragraph("claims.j2", found)


def told_of_search(found: Record) -> str:
    return page.paragraph("search.j2", found)


def with_claims(verdicts: list[list[str]], part: str = "test") -> dict[str, Any]:
    """Give an outcome with claims of these verdicts: uncalibrated, then under all others."""
    data = outcome()
    ids = [one["id"] for one in data["settings"]]
    data["claims"] = [
        {
            "id": "x",
            "statement": "s",
            "published": "holds",
            "part": part,
            "verdicts": dict(zip(ids, row, strict=True)),
        }
        for row in verdicts
    ]
    return data


H, R, N, X = "holds", "refuted", "within noise", "not decidable"


def test_claims_are_counted_under_plausible_settings_alone() -> None:
    data = with_claims([[R, *7 * [H]], [R, H, R, *5 * [H]], [H, *7 * [R]], 8 * [X]])
    found = list(claims_under(record(data)))
    assert [one.kind for one in found] == ["every", "some", "none", "not decidable"]
    assert (found[0].default, found[0].best) == ("refuted", "holds")
    assert sum(found[0].counts.values()) == 7
    said = told_of_claims(record(data))
    assert "Of 8 settings run with all seeds, 7 are within the threshold" in said
    assert "the best among them. Claims are judged under the 7 that are within." in said
    assert "Of 4 claims that hold in the published tables, on held-out numbers alone" in said
    assert (
        "1 holding under every setting that can judge them, 1 holding under some and refuted under "
        "others, 1 refuted and holding under none and 1 not decidable (other cells"
    ) in said
    rows = table(record(data), "claims").rows
    assert [row[4] for row in rows] == ["holds 7", "holds 6, refuted 1", "refuted 7", "no runs 7"]


@pytest.mark.parametrize(
    ("verdicts", "kind"),
    [
        ([H, H, H, X, X, X, X], "every"),
        ([H, N, N, N, N, N, N], "not refuted"),
        ([H, N, R, X, N, N, N], "some"),
        ([N, N, N, N, N, N, R], "none"),
        ([X, X, X, N, X, X, X], "noise"),
        ([X, X, X, X, X, X, X], "not decidable"),
    ],
)
def test_what_noise_hides_neither_bears_a_claim_out_nor_refutes_it(verdicts, kind) -> None:
    (found,) = claims_under(record(with_claims([[R, *verdicts]])))
    assert found.kind == kind


def test_claims_are_told_apart_by_the_numbers_that_they_read() -> None:
    data = with_claims(3 * [8 * [H]])
    for one, part in zip(data["claims"], ("fit", "both", "test"), strict=True):
        one["part"] = part
    data["claims"][0]["published"] = "refuted"
    assert [one.part for one in claims_under(record(data))] == ["test", "both", "fit"]
    said = told_of_claims(record(data))
    assert said.index("on held-out numbers alone") < said.index("on fitted and held-out numbers")
    assert "on fitted numbers alone" not in said, "it does not hold in the tables"
    assert "1 more claim does not hold in the published tables themselves" in said
    assert "may still depend on an unknown" in said
    assert [row[0] for row in table(record(data), "claims").rows] == ["held out", "both", "fitted"]


def test_best_setting_beyond_the_threshold_counts_and_is_called_so() -> None:
    data = outcome()
    assert record(data).plausible == tuple(one["id"] for one in data["settings"][1:])
    data["settings"][1]["allowed"] = False
    found = record(data)
    assert data["best"]["id"] in found.plausible
    assert data["best"]["id"] not in found.within
    said = told_of_claims(found)
    assert "6 are within the threshold of misfit, 505; the best one exceeds it" in said
    assert "Claims are judged under the 6 that are within, and the best." in said
    assert "and the best, which exceeds it." in table(found, "claims").caption
    for one in data["settings"]:
        one["allowed"] = False
    assert record(data).plausible == (data["best"]["id"],)
    said = told_of_claims(record(data))
    assert "none is within the threshold of misfit, 505; the best one exceeds it" in said
    assert "under the best setting alone, which the published numbers exclude." in said


def test_every_cell_has_the_published_the_uncalibrated_and_the_best_number() -> None:
    found = table(record(), "cells")
    assert len(found.rows) == 56
    first = dict(zip(found.headings, found.rows[0], strict=True))
    assert first["block"] == "configuration A, 100 flows, fitted"
    assert first["case"] == "TCPF+FRIO"
    assert first["timeouts, published"] == "41"
    assert first["timeouts, uncalibrated"] == "41.0"
    assert first["timeouts, best"] == "45.1 ± 0.8"
    assert found.rows[-1][0] == "configuration D, 50 flows, held out"


def test_held_out_error_is_judged_by_its_interval() -> None:
    data = outcome()
    test = data["held_out"]["test"]
    test["timeouts"]["ratio"] = {"error": 0.9, "interval": [0.8, 1.1]}
    test["goodput_cov"]["ratio"] = {"error": 1.2, "interval": [1.1, 1.3]}
    test["loss_percent"]["ratio"] = {"error": None, "interval": None}
    text = markdown(build(record(data)))
    assert "no difference beyond noise for timeouts (ratio 0.900)" in text
    assert "larger for CoV (ratio 1.200)" in text
    assert "no interval for loss;" in text


def test_blocks_in_nearly_the_published_order_are_counted_by_part() -> None:
    data = outcome()
    for one in data["kendall"]:
        if one["part"] == "fit":
            one["calibrated"]["tau"] = 1.0
    blocks = [block for block in build(record(data)).blocks if isinstance(block, Text)]
    (text,) = (block.text for block in blocks if block.heading == "Order of the cases")
    said = text.rstrip(".").split(". ")
    assert [one.partition(",")[0] for one in said] == [
        *("Held out", "Held out without NoMark+TailDrop", "Fitted"),
    ]
    assert "timeouts in 2 of 4 blocks, uncalibrated in 0;" in said[0]
    assert "timeouts in 4 of 4 blocks, uncalibrated in 0;" in said[2]
    rows = table(record(data), "orders").rows
    assert [row[0] for row in rows] == [
        *(4 * ["held out"] + 4 * ["held out without NoMark+TailDrop"] + 4 * ["fitted"]),
    ]


def test_unfinished_search_is_called_so_at_the_beginning() -> None:
    data = outcome() | {"unfinished": "12 of 120 points were not run: the study is not finished"}
    found = record(data)
    contents = contents_of(found, build(found), ("a", "b"))
    for text in (markdown(build(found)).splitlines()[2], " ".join(contents.answer)):
        assert "shows nothing; only what is held out can. 12 of 120 points were not run" in text
    assert "not finished" not in markdown(build(record()))


def test_least_misfit_is_that_of_a_point_that_lacks_no_cell() -> None:
    data = outcome()
    data["points"][6]["misfit"] = 1.0
    data["points"][7]["misfit"] = 150.0
    said = told_of_search(record(data))
    assert "The minimum misfit is 150 (point 00000007), of the uncalibrated setting 2300" in said
    assert "The misfit of 1 point is an estimate" in said
    drawn_points = [
        one for one in drawings(record(data))[-1].points if one.series == "minimum so far"
    ]
    assert drawn_points[-1].values == (150.0,)


def test_uncalibrated_setting_is_not_whichever_point_came_first() -> None:
    data = outcome()
    data["points"].append(data["points"].pop(0))
    found = record(data)
    said = told_of_search(found)
    assert "of the uncalibrated setting 2300" in said
    assert [one["round"] for one in found.searched] == sorted(
        one["round"] for one in data["points"]
    )


def test_search_without_rounds_was_all_of_the_design() -> None:
    data = outcome()
    for one in data["points"]:
        one["round"] = 0
    said = told_of_search(record(data))
    assert said.startswith("120 points, all of the design; 4321 runs. ")


@pytest.mark.parametrize(
    ("least", "scale", "effective", "said", "unsaid"),
    [
        (92.0, 1.0, 112.0, "", "widen"),
        (110.0, 110 / 92, 112.0, "A minimum misfit as large may be chance.", "no setting"),
        # 115.4 is the 95 % quantile of chi-squared with 92 degrees of freedom
        (115.0, 115 / 92, 112.0, "may be chance", "no setting"),
        (116.0, 116 / 92, 112.0, "no setting of these unknowns gives", "chance"),
        # 45 independent of 112 residuals: 37.65 of 25 degrees, times 112 / 45, is 93.7
        (93.0, 93 / 25, 45.0, "multiplied by 1.49", "no setting"),
        (95.0, 95 / 25, 45.0, "no setting of these unknowns gives", "chance"),
        (95.0, 95.0, 20.0, "too few residuals", "no setting"),
    ],
)
def test_lack_of_fit_is_told_from_chance(least, scale, effective, said, unsaid) -> None:
    data = outcome()
    data["threshold"] |= {"least": least, "scale": scale, "effective": effective}
    text = told_of_search(record(data))
    assert said in text
    assert unsaid not in text


def test_noise_of_other_settings_is_held_against_the_uncalibrated_ones() -> None:
    data = outcome()
    assert "the variance between seeds to it" in markdown(build(record(data))), "2 % everywhere"
    for setting in data["settings"]:
        setting["mean"] = [[10.0] * 4 for _ in setting["mean"]]
        setting["half"] = [[0.5, 1.0, None, 0.0] for _ in setting["half"]]
    for setting in data["settings"][1:]:
        setting["half"] = [[1.0, 1.0, 1.0, 1.0] for _ in setting["half"]]
    said = told_of_search(record(data))
    assert said.endswith("as a median over cells, 4 for timeouts and 1 for loss.")
    # half widths of equal spread with 3 runs and with 5: t is 4.303 and 2.776
    for setting in data["settings"][1:]:
        wide = 4.30265 / 3**0.5 * 5**0.5 / 2.77645
        setting["half"] = [[0.5 * wide, wide, 1.0, 1.0] for _ in setting["half"]]
        setting["runs"] = [3 for _ in setting["runs"]]
    said = told_of_search(record(data))
    assert said.endswith("as a median over cells, 1 for timeouts and 1 for loss.")
    for setting in data["settings"]:
        del setting["mean"], setting["half"], setting["runs"]
    assert noise_ratios(record(data)) == []


def test_calibration_without_held_out_numbers_says_so() -> None:
    data = outcome()
    data["test"], data["held_out"] = [], {"fit": data["held_out"]["fit"]}
    data["seen"] = {}
    data["kendall"] = [one for one in data["kendall"] if one["part"] == "fit"]
    found = record(data)
    assert "held out: nothing" in markdown(build(found))
    contents = contents_of(found, build(found), ("a", "b"))
    assert contents.question.endswith("configurations A and B?")
    full = [text for part in contents.results for text in part.paragraphs]
    assert any("Nothing is held out." in text for text in (*contents.answer, *full))
    assert "Held out." not in [one.heading for one in contents.limitations]


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


def test_what_is_no_outcome_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no such file"):
        read_record(tmp_path)
    write_outcome(tmp_path, {"format": 2})
    with pytest.raises(RequestError, match="is not a calibration outcome of format 1"):
        read_record(tmp_path)
    data = outcome()
    del data["kendall"]
    with pytest.raises(RequestError, match="is damaged: it lacks kendall"):
        read_record(write_outcome(tmp_path, data))


def test_numbers_without_what_was_known_are_damaged(tmp_path) -> None:
    data = outcome()
    data["held_out"]["blind"] = data["held_out"]["test"]
    write_outcome(tmp_path, data)
    assert read_record(tmp_path).data["seen"]
    del data["seen"]
    write_outcome(tmp_path, data)
    with pytest.raises(RequestError, match="is damaged: it lacks seen"):
        read_record(tmp_path)


def test_quality_that_is_no_number_has_a_dash() -> None:
    data = outcome()
    data["emulator"]["timeouts"] = {"r_squared": "high", "standardised_error": None}
    rows = table(record(data), "emulator").rows
    assert ("timeouts", "–", "–") in rows


def test_no_value_makes_a_heading_or_ends_a_paragraph() -> None:
    data = outcome(unknowns=2)
    data["notes"] += ["one  two\n\n## three", "table pairs, 2 left: one | other"]
    texts = build(record(data)).texts
    assert texts[-2:] == ("One  two\n\n## three.", "Table pairs, 2 left: one | other.")
    data["title"] = data["unknowns"][0]["verdict"] = "figure profiles\n\ntable pairs, 2 left: a | b"
    assert len(build(record(data)).blocks) == len(build(record(outcome(unknowns=2))).blocks) + 2
