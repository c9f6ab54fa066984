"""What docs/calibrate.md says of the lost testbed is what the kept calibration says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tcpf_lab import load_calibration

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "results" / "reference" / "lost_testbed"
SAID = " ".join(
    (ROOT / "docs" / "calibrate.md")
    .read_text(encoding="utf-8")
    .split("## The lost testbed")[1]
    .split()
)
METRICS = ("timeouts", "goodput_cov", "loss_percent", "goodput_bytes_per_s")


@pytest.fixture(scope="module")
def told() -> Any:
    return json.loads((KEPT / "calibration.json").read_text(encoding="utf-8"))


def test_what_was_done_is_said(told) -> None:
    assert told["unfinished"] is None
    limit = told["threshold"]
    assert f"{len(told['unknowns'])} unknowns ({limit['parameters']} free parameters)" in SAID
    assert f"fitted to the {limit['residuals']} numbers of configurations A and B" in SAID
    cost = json.loads((KEPT / "cost.json").read_text(encoding="utf-8"))
    assert f"{len(told['points'])} settings were searched and eight looked at closely" in SAID
    assert len(told["settings"]) == 8
    (session,) = cost
    assert session["made"] == told["runs"]
    assert f"{told['runs']} runs, in {session['wall_s'] / 60:.0f} min on two cores" in SAID
    assert f"taken for {limit['effective']:.0f} independent ones" in SAID
    misfits = {point["id"]: point["misfit"] for point in told["points"] if point["complete"]}
    default = next(point for point in told["points"] if point["id"] == told["settings"][0]["id"])
    assert f"The least misfit of single runs is {min(misfits.values()):.0f}," in SAID
    closely = {one["id"]: one["misfit"] for one in told["settings"]}
    best = f"the best setting has {closely[told['best']['id']]:.0f}"
    assert f"{best}, the uncalibrated one {closely[default['id']]:.0f}." in SAID
    assert f"of the uncalibrated setting {default['misfit']:.0f};" in SAID


def test_goodput_is_the_largest_part_of_what_is_left(told) -> None:
    least = min((p for p in told["points"] if p["complete"]), key=lambda point: point["misfit"])
    assert max(least["by_metric"], key=least["by_metric"].get) == METRICS[3]
    column = told["metrics"].index(METRICS[3])
    rows = {
        (cell["config"], cell["flows"], cell["case"]): numbers[column]
        for cell, numbers in zip(told["table"]["cells"], told["table"]["published"], strict=True)
    }
    for config in "ABCD":
        for flows in (100, 50):
            last = rows[config, flows, "NoMark+RED"]
            assert last <= 0.805 * rows[config, flows, "TCPF+FRIO"]
    best = next(one for one in told["settings"] if one["id"] == told["best"]["id"])
    for cell, mean in zip(told["table"]["cells"], best["mean"], strict=True):
        if cell["config"] == "A":  # 10 Mbit/s less headers, shared out
            assert mean[column] * cell["flows"] > 0.96 * 1.2e6


def test_the_held_out_errors_are_said(told) -> None:
    test, blind = (
        [f"{told['held_out'][part][metric]['ratio']['error']:.2f}" for metric in METRICS]
        for part in ("test", "blind")
    )
    timeouts, cov, loss, goodput = test
    assert f"comes nearer in timeouts (error {timeouts} of what it was) and CoV ({cov})" in SAID
    assert f"not in loss ({loss}) nor goodput ({goodput})" in SAID
    assert f"of which it was known before: {', '.join(blind)}." in SAID


def taus(told: Any, part: str, metric: str, which: str) -> list[float]:
    rows = (row for row in told["kendall"] if row["part"] == part and row["metric"] == metric)
    return [round(row[which]["tau"], 2) for row in rows]


def test_the_orders_of_the_cases_are_said(told) -> None:
    for part, few in (("test", "0.05"), ("blind", "0.47")):
        for metric in ("timeouts", "loss_percent"):
            before, after = (taus(told, part, metric, which) for which in ("default", "calibrated"))
            ends = f"{min(before):.2f} to {max(before):.2f} before"
            word = "timeouts from" if metric == "timeouts" else "loss"
            assert f"{word} {ends}, {min(after):.2f} to {max(after):.2f} after" in SAID
        before, after = (taus(told, part, METRICS[3], w) for w in ("default", "calibrated"))
        assert {f"{tau:.2f}" for tau in before} == {few}
        assert f"goodput {few} before, {min(after):.2f} to {max(after):.2f} after" in SAID
    reached = {
        part: [sum(tau >= 0.9 for tau in taus(told, part, m, "calibrated")) for m in METRICS]
        for part in ("test", "blind", "fit")
    }
    assert reached == {"test": [0, 0, 0, 1], "blind": [1, 0, 0, 1], "fit": [2, 0, 1, 0]}
    assert "Of all seven cases, 0.9 is reached in one held-out block, by goodput;" in SAID
    assert "without tail drop in one by timeouts and in one by goodput;" in SAID
    assert "in two of four blocks by timeouts and in one by loss" in SAID


def test_what_is_identified_and_which_claims_hold_is_said(told) -> None:
    verdicts = {one["name"]: one for one in told["unknowns"]}
    found = [name for name, one in verdicts.items() if one["verdict"] != "not identified"]
    assert found == ["tail drop's limit"]
    (left,) = verdicts["tail drop's limit"]["not_excluded"]
    assert round(float(left.split(" to ")[1]), 1) == 1.5
    assert "at most 1.5 times RED's `max`" in SAID
    claims = load_calibration(KEPT).claims
    own = claims[(claims["part"] == "test") & (claims["published_verdict"] == "holds")]
    assert own["kind"].value_counts().to_dict() == {"none": 6, "every": 2, "not refuted": 1}
    assert f"of {len(own)} that the tables bear out" in SAID
    assert "two hold under all four settings that are within the threshold, one under two" in SAID
    assert own.loc[own["kind"] == "not refuted", "holding"].tolist() == [2]
    refuted = own.loc[own["kind"] == "none", "refuted"].value_counts().to_dict()
    assert refuted == {4: 6}
    assert "Six hold under none: they are refuted under all four" in SAID
    within = [one["values"] for one in told["settings"] if one["allowed"]]
    assert len(within) == 4
    unlike = {name for one in within for name in one if one[name] != within[0][name]}
    assert unlike == {"minimum RTO", "duration"}
    assert {one["minimum RTO"] for one in within} >= {"467 ms", "552 ms"}
    assert {one["duration"] for one in within} == {"69 s", "70 s", "71 s"}
    assert "467 to 552 ms and 69 to 71 s" in SAID


def test_what_the_emulator_leans_to_is_said(told) -> None:
    levels = {one["name"] for one in told["unknowns"] if "levels" in one}
    farther = {
        one["name"]: {
            text
            for text, misfit in zip(one["texts"], one["expected"], strict=True)
            if misfit > min(one["expected"]) + 100
        }
        for one in told["profiles"]
        if one["name"] in levels
    }
    assert {name: texts for name, texts in farther.items() if texts} == {
        "packet size": {"576 B", "1.5 kB"},
        "weight of the averages": {"1/512", "1/2048"},
        "what OUT is judged on": {"coupled"},
        "start": {
            "within 2 s, measured 8 s later",
            "within 10 s, measured at once",
            "all at once, measured at once",
        },
        "recovery": {"6.12"},
        "retransmission timer": {"2.2 from the oldest packet"},
        "socket buffer": {"64 kB"},
    }
    assert "packets of 1000 bytes, averages of weight 1/32 or 1/128, RIO that judges OUT" in SAID
    assert "but not its timer that counts from the oldest packet" in SAID
    (duration,) = (one for one in told["profiles"] if one["name"] == "duration")
    assert f"some {round(float(duration['best']), -1):.0f} s measured from the start on" in SAID
