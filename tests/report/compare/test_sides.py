"""A against B: paired numbers and verdicts, the first packet that differs, the command."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.cli import run as verbs
from tcpf_lab.report.compare.paired import differences, overall
from tcpf_lab.report.compare.parting import where
from tcpf_lab.run import sides
from tcpf_lab.run.sides import margin_of, side_settings
from tcpf_lab.trace.packet import ACK, PACKET, SYN, TCP

FAKE = ("--testbed", "fake", "--seeds", "2")
SIDE = ("--b", "traffic.socket_buffer=2 MB")


def judged(first, second, margin=None):
    """Give the judgement on one metric of one cell, whose seeds are counted from 1."""
    one, other = (dict(enumerate(values, 1)) for values in (first, second))
    return differences([("cell", "timeouts", one, other)], margin)[0]


@pytest.mark.parametrize(
    ("first", "second", "margin", "verdict"),
    [
        ((3, 4, 5), (3, 4, 5), None, "equal"),
        ((10, 20, 30), (15, 25, 36), None, "differs"),  # the seeds differ more than the sides
        ((10, 20, 30), (12, 17, 31), None, "within noise"),
        ((100, 110, 120), (101, 112, 121), 0.05, "equal"),
        ((100, 110, 120), (101, 112, 121), 0.01, "within noise"),
        ((1, 2, 3), (2, 3, 4), None, "differs"),  # the same change in every seed
        ((7,), (9,), None, "open"),
        ((7,), (7,), None, "equal"),
    ],
)
def test_a_verdict_on_pairs(first, second, margin, verdict):
    assert judged(first, second, margin).verdict == verdict


def test_only_common_seeds_are_paired():
    found = differences([("c", "m", {1: 1.0, 2: 5.0}, {2: 6.0, 3: 9.0}), ("d", "m", {1: 1.0}, {})])
    assert [(one.cell, one.seeds, one.difference) for one in found] == [("c", (2,), 1.0)]


def test_the_mean_over_cells_is_one_more_comparison_and_p_values_are_holms():
    rng = np.random.default_rng(3)
    cells = {
        name: dict(enumerate(rng.normal(shift, 1, 5)))
        for name, shift in zip("abc", (3, 1, 0), strict=True)
    }
    nothing = dict.fromkeys(range(5), 0.0)
    alone = {c: differences([(c, "m", nothing, own)])[0].p for c, own in cells.items()}
    found = differences([(c, "m", nothing, own) for c, own in cells.items()])
    assert [one.cell for one in found] == ["a", "b", "c", "all cells"]
    adjusted = {one.cell: one.p for one in found}
    least = min(adjusted, key=lambda cell: adjusted[cell])
    ordered = sorted((*alone.values(), differences([("x", "m", nothing, mean_of(cells))])[0].p))
    expected = np.maximum.accumulate([p * (4 - k) for k, p in enumerate(ordered)])
    assert sorted(adjusted.values()) == pytest.approx(np.minimum(expected, 1))
    assert adjusted[least] == pytest.approx(4 * ordered[0])


def mean_of(cells):
    return {seed: float(np.mean([own[seed] for own in cells.values()])) for seed in range(5)}


def test_the_verdict_on_all_is_the_least_equal_one():
    assert overall(["equal", "within noise", "differs"]) == "differs"
    assert overall(["equal", "open"]) == "open"


def packets(isn=0, count=6, step_ns=1_000_000):
    """Give a connection's SYN and data, with everything random derived from its ISN."""
    found = np.zeros(count, PACKET)
    found["time_ns"] = np.arange(count) * step_ns
    found["src"], found["dst"], found["sport"], found["dport"] = 1, 2, 20_000, 5001
    found["protocol"], found["ip_id"], found["tsval"] = TCP, isn % 999, isn
    found["flags"], found["flags"][0] = ACK, SYN
    found["payload"][1:] = 960
    found["seq"] = (isn + np.maximum(np.arange(count) - 1, 0) * 960) % 2**32
    found["ack"] = (7 * isn + 1) % 2**32
    return found


def test_random_numbers_are_no_difference():
    assert where("S", packets(5), packets(2**32 - 900)) == (None, None)


def test_the_first_packet_that_differs_and_one_that_was_late_before():
    ours, theirs = packets(1), packets(2)
    theirs["seq"][4] += 960
    theirs["time_ns"][2:] += 20_000
    place, late = where("S", ours, theirs)
    assert (place.index, place.fields, late.index, late.fields) == (4, ("seq",), 2, ())
    assert late.times_s == (0.002, 0.00202)
    assert "seq 2880 +960" in place.packets[0]
    assert where("S", ours, theirs, by_clock=False)[1] is None


def test_a_capture_that_ends_first_has_no_more_packets():
    place, _ = where("S", packets(1, 4), packets(1, 6))
    assert (place.index, place.times_s[0], place.packets[0]) == (4, None, "")


@pytest.mark.parametrize(
    ("kernels", "first", "second", "message"),
    [
        (["6.12"], [], [], "two kernels are compared, not 1"),
        (["6.12", "6.12"], [], [], "both sides have the same runs"),
        ([], ["tcp.sack"], [], "write PATH=VALUE"),
        ([], ["matrix.seed=2"], [], "nothing that runs are made under"),
        ([], [], ["tcp.sack=[true, false]"], "one value of a key"),
        ([], ["tcp.sack=true", "tcp.sack=false"], [], "set twice"),
        (["6.12", "7.3"], ["kernel='7.3'"], [], "kernel is set twice"),
    ],
)
def test_sides_that_cannot_be(kernels, first, second, message):
    with pytest.raises(RequestError, match=message):
        side_settings(kernels, first, second)


@pytest.mark.parametrize("words", ["5", "x%", "-1%", "0%", "5%%"])
def test_a_margin_is_a_share(words):
    with pytest.raises(RequestError):
        margin_of(words)


def test_no_side_is_named_without_an_option():
    assert side_settings((), (), ()) is None
    assert margin_of("5 %") == margin_of("5%") == 0.05


def test_equal_sides_have_equal_bytes_and_a_page(quick, spec, tmp_path):
    status, said, _ = quick("compare", spec, *FAKE, *SIDE, "-o", "page", "--json")
    found = json.loads(said)
    assert (status, found["verdict"]) == (0, "equal")
    assert {one["verdict"] for one in found["differences"]} == {"equal"}
    assert [(one["seed"], one["state"]) for one in found["partings"]] == [(1, "same")]
    assert (tmp_path / "page/figures/fig-sides.png").exists()
    for directory in ("page", "page/sides.json"):  # is drawn again, without a run
        assert quick("report", directory, "--format", "md")[0] == 0
    again = (tmp_path / "results/pages/page/sides.md").read_text()
    assert again == (tmp_path / "page/sides.md").read_text()


def test_runs_are_made_once_and_all_captures_on_request(quick, spec, tmp_path):
    root = tmp_path / "results/tiny/fake"
    quick("compare", spec, *FAKE, *SIDE)
    assert len(list(root.glob("*seed*"))) == 4
    first = {path: path.stat().st_mtime_ns for path in root.glob("*seed*/plan.txt")}
    found = json.loads(quick("compare", spec, *FAKE, *SIDE, "--json")[1])
    assert first == {path: path.stat().st_mtime_ns for path in root.glob("*seed*/plan.txt")}
    assert len(found["partings"]) == 1
    found = json.loads(quick("compare", spec, *FAKE, *SIDE, "--keep-pcaps", "--json")[1])
    assert [one["seed"] for one in found["partings"]] == [1, 2]


def test_a_section_has_a_directory_of_its_own(quick, spec, tmp_path):
    words = (*FAKE, "--b", "tcp={profile: modern, sack: true}", "--json")
    found = json.loads(quick("compare", spec, *words)[1])
    assert [one["cell"] for one in found["partings"]] == ["NoMark+RED"]
    assert len(list((tmp_path / "results").glob("tiny-????????/fake/*seed*"))) == 2


def test_invalid_runs_are_named_and_left_out(quick, spec):
    words = (*FAKE, "--b", "tcp.sack=false")
    status, _, complaints = quick("compare", spec, *words)
    assert status == 2
    assert "B: tiny: nomark+red-tcp.sack=false-flows3-seed1: invalid" in complaints
    found = json.loads(quick("compare", spec, *words, "--include-invalid", "--json")[1])
    assert found["verdict"] == "equal"


def test_runs_without_captures_are_named(quick, spec, monkeypatch):
    monkeypatch.setattr(sides, "_captured", lambda files: "2MB" not in str(files.root))
    found = json.loads(quick("compare", spec, *FAKE, *SIDE, "--json")[1])
    assert found["uncaptured"] == ["no captures on B: NoMark+RED, seed 1"]


@pytest.mark.parametrize(("verdict", "expected"), [("differs", 1), ("open", 3), ("equal", 0)])
def test_the_exit_status_is_the_verdict(quick, spec, monkeypatch, verdict, expected):
    real = verbs.against
    monkeypatch.setattr(verbs, "against", lambda *a, **k: replace(real(*a, **k), verdict=verdict))
    assert quick("compare", spec, *FAKE, *SIDE)[0] == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SIDE, "--metric", "timeout"), "Did you mean 'timeouts'?"),
        ((*SIDE, "--metric", "queue.mean"), "no pair of runs has this number"),
        ((*SIDE, "--sensitivity"), "does not go with two sides"),
        ((*SIDE, "--testbed", "uml"), "does not go with two sides"),
        (("--margin", "5%"), "is for two sides"),
        ((*SIDE, "--cluster", "tcp://127.0.0.1:1"), "only 'uml' does"),
        (("--b", "tcp.sak=false"), "--b tcp.sak=false: matrix.tcp.sak"),
        (("--b", "queue.ewm=5"), "no case of the matrix has the key queue.ewm"),
    ],
)
def test_a_mistake_is_answered_with_status_2(quick, spec, words, message):
    status, _, complaints = quick("compare", spec, *FAKE, *words)
    assert (status, message in complaints) == (2, True), complaints


def test_failed_runs_are_counted_and_the_others_compared(quick, spec, fake, monkeypatch):
    from tcpf_lab.testbed import registry

    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: replace(fake, failing_seeds=(1,)))
    status, said, complaints = quick("compare", spec, *FAKE, *SIDE)
    assert (status, "2 runs failed" in complaints) == (2, True)
    assert "left out, 1 failed" in said
    monkeypatch.setitem(registry.TESTBEDS, "fake", lambda: replace(fake, failing_seeds=(1, 2)))
    status, _, complaints = quick("compare", spec, *FAKE, "--b", "traffic.socket_buffer=3 MB")
    assert (status, "no cell has a seed with a usable run" in complaints) == (2, True)


@pytest.mark.uml
def test_a_larger_initial_window_parts_at_its_third_packet(quick, uml):
    words = ("--only", "case=NoMark+TailDrop", "--set", "traffic.duration=1 s")
    given = ("compare", "smoke.yaml", *words, "--b", "tcp.initcwnd=3", "--json")
    status, said, _ = quick(*given)
    assert status == 3  # one seed
    (one,) = json.loads(said)["partings"]
    place = one["place"]
    # Handshake, then two data packets (A) or three (B): B's third comes before the first ACK.
    assert (one["state"], place["point"], one["late"]) == ("part", "S", None)
    assert "seq 1921 +960" in place["packets"][1]
    assert place["times_s"][1] < place["times_s"][0]
    assert {event["side"] for event in one["events"]} == {"A", "B"}
