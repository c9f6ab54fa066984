"""Figures of one flow and of a queue, from captures made by hand and from runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from pcap_builder import ACK, SYN, D, Pcap, S, conversation, ethernet, ip4, segment, tcp
from test_plots import figure, texts

from tcpf_lab.base.errors import LabError, RequestError, TraceError
from tcpf_lab.report.plots import over_time
from tcpf_lab.report.plots.flow_figures import interval
from tcpf_lab.report.plots.kinds import KINDS, Wanted, draw
from tcpf_lab.report.plots.runs import DrawnCapture, DrawnRun, read_run
from tcpf_lab.report.style import EVENTS
from tcpf_lab.results.layout import RunFiles, read_json, write_json
from tcpf_lab.spec.load import load

OF_FLOW = ["goodput", "inflight", "rtt", "time-sequence"]
#: A timeout that makes good one lost segment of the three; the round trip is 0.2 s.
LOSSY = """
0.0     > SYN
0.2     < SYN-ACK
0.2     > 1:961
0.2     > 961:1921
0.4     < ack 961
0.4     > 1921:2881
1.5     > 961:1921
1.7     < ack 2881
"""
Lab = Callable[..., tuple[int, str, str]]


@pytest.fixture
def capture(tmp_path: Path) -> DrawnCapture:
    """Two flows; the second starts 10 s later and loses nothing."""
    made = Pcap()
    conversation(LOSSY, into=made)
    calm = "10 > SYN\n10.2 < SYN-ACK\n10.2 > 1:961\n10.4 < ack 961"
    conversation(calm, sport=20001, into=made)
    return DrawnCapture(made.write(tmp_path / "x.pcap"))


@pytest.fixture
def run(made: Path) -> DrawnRun:
    files = RunFiles(next(iter(sorted(made.glob("tiny/fake/nomark*")))))
    return read_run(files, load(files.spec))


@pytest.fixture
def sides(tmp_path: Path) -> list[DrawnCapture]:
    """Ten packets, one a millisecond, to a queue that lets one through each 2 ms and drops one."""
    before, after = Pcap(), Pcap()
    for k in range(10):
        frame = segment(1 + 960 * k, ip_id=k)
        before.add(10**18 + k * 10**6, frame, missing=960)
        if k != 7:
            after.add(10**18 + (2 * k + 2) * 10**6, frame, missing=960)
    paths = before.write(tmp_path / "in.pcap"), after.write(tmp_path / "out.pcap")
    return [DrawnCapture(path) for path in paths]


def marked(made: Figure) -> dict[str, Any]:
    """Coordinates of the marks of a figure's first axes, by their marker."""
    lines = [line for line in made.axes[0].lines if line.get_linestyle() == "None"]
    return {line.get_marker(): line.get_xydata() for line in lines if line.get_marker() != ","}


def course(made: Figure, place: int = 0) -> Any:
    """Coordinates of a line of a figure's first axes."""
    lines = [line for line in made.axes[0].lines if line.get_linestyle() != "None"]
    return lines[place].get_xydata()


@pytest.mark.parametrize("name", OF_FLOW)
def test_figure_of_a_capture_says_whose_it_is_and_has_the_same_bytes_twice(
    capture: DrawnCapture, name: str
) -> None:
    made = figure(name, [capture])
    said = texts(made).replace("\n", " ")
    assert "x.pcap, 10.0.0.1:20000 > 10.0.3.2:5001, taken at the sender" in said
    assert "flow 0" in said  # that with most timeouts
    assert made.axes[0].get_xlabel() == "Time after the capture's first packet (s)"
    assert made.axes[0].get_xlim() == (0.0, 1.7)
    once = draw(KINDS[name], [capture], Wanted(), ("svg",))
    assert draw(KINDS[name], [capture], Wanted(), ("svg",)) == once


@pytest.mark.parametrize("name", [*OF_FLOW, "queue"])
def test_figure_of_a_run_counts_from_its_start(run: DrawnRun, name: str) -> None:
    made = figure(name, [run])
    assert made.axes[0].get_xlabel() == "Time after the start of the run (s)"
    assert "warm-up, not measured" in texts(made)
    assert made.axes[0].get_xlim()[0] == 0.0


def test_segments_and_retransmissions_stand_at_their_places(capture: DrawnCapture) -> None:
    made = figure("time-sequence", [capture])
    marks = marked(made)
    assert list(marks) == [EVENTS["rto"][1]["marker"]]
    np.testing.assert_allclose(marks[EVENTS["rto"][1]["marker"]], [[1.5, 1.44]])
    np.testing.assert_allclose(course(made)[-1], [1.7, 2.88])
    assert "n = 5 segments, 1 of them retransmissions, 1 by timeouts" in texts(made).replace(
        "\n", " "
    )


def test_round_trips_are_samples_and_the_timer_is_marked_where_it_fired(
    capture: DrawnCapture,
) -> None:
    made = figure("rtt", [capture])
    marks = marked(made)
    assert marks["o"][0] == pytest.approx([0.2, 200.0])
    (fired,) = marks[EVENTS["rto"][1]["marker"]]
    assert fired[0] == pytest.approx(1.5)
    assert 400 <= fired[1] <= 700, "SRTT is 200 ms, and the timer at least 200 ms more"
    assert made.axes[0].get_ylim()[0] == 0


def test_bytes_in_flight_rise_with_segments_and_fall_with_acknowledgements(
    capture: DrawnCapture,
) -> None:
    line = course(figure("inflight", [capture], time_s=(0.1, 1.7)))
    at = {round(time, 3): size for time, size in line}
    assert at[0.4] == pytest.approx(1.92)
    assert at[1.7] == 0
    assert "at most 1.9 kB" in texts(figure("inflight", [capture])).replace("\n", " ")


def test_goodput_is_what_was_acknowledged_in_each_interval(capture: DrawnCapture) -> None:
    made = figure("goodput", [capture])
    patches = [patch for patch in made.axes[0].patches if isinstance(patch, StepPatch)]
    acked, edges, _ = patches[0].get_data()
    sent, _, _ = patches[1].get_data()
    width = np.diff(edges)
    assert edges[-1] == pytest.approx(1.7)
    assert np.sum(acked * width) == pytest.approx(2.88)
    assert np.sum(sent * width) == pytest.approx(3.84)
    assert "1.333 times as much sent" in texts(made).replace("\n", " ")


def test_intervals_are_round_and_not_shorter_than_asked() -> None:
    assert [interval(60.0), interval(7.0), interval(7.0, 0.4)] == pytest.approx([1.0, 0.1, 0.5])
    for seconds in (0.003, 0.1, 9.9, 1e4):
        assert seconds / interval(seconds) <= 80.0001


def test_flow_is_chosen_by_the_number_that_analyze_gives_it(capture: DrawnCapture) -> None:
    said = texts(figure("time-sequence", [capture], flow=(1,)))
    assert "flow 1" in said
    assert "20001" in said
    assert figure("time-sequence", [capture], flow=(1,)).axes[0].get_xlim() == (10.0, 10.4)


def test_ports_that_are_used_again_are_another_flow(tmp_path: Path) -> None:
    made = Pcap()
    conversation(LOSSY, into=made)
    again = "10 > SYN\n10.2 < SYN-ACK\n10.2 > 1:961\n10.4 < ack 961"
    conversation(again, isn=10**9, into=made)
    capture = DrawnCapture(made.write(tmp_path / "again.pcap"))
    assert capture.found.flows.size == 2
    first, second = (figure("time-sequence", [capture], flow=(flow,)) for flow in (0, 1))
    assert first.axes[0].get_xlim() == (0.0, 1.7)
    assert second.axes[0].get_xlim() == (10.0, 10.4)
    assert "n = 2 segments" in texts(second).replace("\n", " ")


def test_queue_is_what_is_between_two_captures(sides: list[DrawnCapture]) -> None:
    made = figure("queue", sides)
    line = course(made)
    frame = (960 + 54) / 1e3
    assert line[:, 1].max() == pytest.approx(5 * frame)
    np.testing.assert_allclose(marked(made)["x"][:, 0], [0.007])
    said = texts(made).replace("\n", " ")
    assert "in.pcap to out.pcap, n = 10 packets, 10.00 % of them dropped" in said
    assert "dropped: 1" in said


def test_queue_of_a_run_is_that_of_its_metrics(run: DrawnRun) -> None:
    start, end = run.experiment.traffic.warmup, run.experiment.traffic.warmup
    end += run.experiment.traffic.duration
    said = texts(figure("queue", [run], time_s=(start, end))).replace("\n", " ")
    assert f"at most {run.metric('backlog_max_bytes') / 1e3:.1f} kB" in said
    assert f"mean {run.metric('backlog_mean_bytes') / 1e3:.1f} kB" in said


@pytest.mark.parametrize(
    ("name", "wanted", "message"),
    [
        ("time-sequence", {"flow": (2,)}, "the capture has flows 0 to 1"),
        ("time-sequence", {"flow": (0, 1)}, "is of one flow"),
        ("rtt", {"time_s": (3.0, 4.0)}, "flow 0 sent nothing from 3 to 4 s"),
        ("rtt", {"time_s": (0.0, 0.1)}, "has no RTT sample"),
        ("goodput", {"time_s": (0.0, 0.1)}, "had no payload acknowledged from 0 to 0.1 s"),
        ("queue", {}, "of one run, or of two captures; these are 0 runs and 1 capture"),
    ],
)
def test_empty_figures_are_errors_that_say_why(
    capture: DrawnCapture, name: str, wanted: dict[str, Any], message: str
) -> None:
    with pytest.raises(LabError, match=message) as error:
        figure(name, [capture], **wanted)
    assert error.value.hint or error.value.where


def test_captures_that_are_not_two_sides_of_a_queue_are_refused(
    sides: list[DrawnCapture], tmp_path: Path
) -> None:
    other, _ = conversation(LOSSY, sport=20009)
    with pytest.raises(LabError, match="they are not the two sides of a queue"):
        figure("queue", [sides[0], DrawnCapture(other.write(tmp_path / "other.pcap"))])
    with pytest.raises(LabError, match="no packet came to the queue from 5 to 6 s"):
        figure("queue", sides, time_s=(5.0, 6.0))


def test_a_queue_that_most_packets_leave_before_they_enter_is_refused(
    sides: list[DrawnCapture], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = replace(over_time.cross(sides[0].read.packets, sides[1].read.packets), unmatched=10**6)
    monkeypatch.setattr(over_time, "cross", lambda *_: found)
    with pytest.raises(LabError, match="1000000 packets leave before they enter"):
        figure("queue", sides)


def test_capture_without_a_flow_is_refused(tmp_path: Path) -> None:
    path = Pcap().write(tmp_path / "none.pcap")
    with pytest.raises(LabError, match="the capture has no TCP flow"):
        figure("rtt", [DrawnCapture(path)])


def test_time_in_which_nothing_was_outstanding_is_told(tmp_path: Path) -> None:
    made, _ = conversation("0.0 > SYN\n0.2 < SYN-ACK\n0.2 > 1:961\n0.4 < ack 961")
    made.add(10**18 + 10**9, segment(961, 0))  # it acknowledges, and sends nothing
    capture = DrawnCapture(made.write(tmp_path / "calm.pcap"))
    with pytest.raises(LabError, match=r"flow 0 had no data outstanding from 0\.9 to 1\.1 s"):
        figure("inflight", [capture], time_s=(0.9, 1.1))


def test_captures_of_a_run_that_were_not_kept_are_asked_for(run: DrawnRun, tmp_path: Path) -> None:
    bare = DrawnRun(RunFiles(tmp_path / "bare"), run.experiment, run.found)
    bare.files.root.mkdir()
    write_json(bare.files.manifest, read_json(run.files.manifest))
    for name in (*OF_FLOW, "queue"):
        with pytest.raises(TraceError, match="needs captures") as error:
            figure(name, [bare])
        assert "--keep-pcaps" in error.value.hint


@pytest.fixture
def files(recorded: Path) -> dict[str, Path]:
    return {name: recorded / "pcap" / f"{name}.pcap.zst" for name in ("S", "R1-in", "R1-out")}


def test_verb_draws_captures(lab: Lab, files: dict[str, Path], tmp_path: Path) -> None:
    png = tmp_path / "a.png"
    words = ("plot", "rtt", files["S"], "--flow", "1", "--min-rto", "300 ms", "-o", png, "--json")
    status, said, _ = lab(*words)
    assert (status, png.read_bytes()[:4]) == (0, b"\x89PNG")
    assert f'"{files["S"]}"' in said
    assert lab("plot", "queue", files["R1-in"], files["R1-out"])[1].strip() == "queue.png"


@pytest.mark.parametrize("kind", ["rtt", "queue"])
def test_capture_whose_end_is_missing_is_drawn_with_a_warning(
    lab: Lab,
    capture: DrawnCapture,
    sides: list[DrawnCapture],
    kind: str,
    recwarn: pytest.WarningsRecorder,
) -> None:
    drawn = [each.path for each in (sides if kind == "queue" else [capture])]
    for path in drawn:
        path.write_bytes(path.read_bytes()[:-1])
    status, _, said = lab("plot", kind, *drawn)
    told = said.splitlines()
    assert (status, len(told)) == (0, len(drawn))
    for path, line in zip(drawn, told, strict=True):
        assert line.startswith(f"warning: {path}: truncated in packet ")
    assert not [each for each in recwarn if each.category is UserWarning]


def test_pipe_is_no_capture_to_draw(lab: Lab, capture: DrawnCapture) -> None:
    out, into = os.pipe()
    os.write(into, capture.path.read_bytes())
    os.close(into)
    try:
        status, _, said = lab("plot", "rtt", f"/dev/fd/{out}")
    finally:
        os.close(out)
    assert status == 2
    assert said.startswith(f"error: /dev/fd/{out}: is a pipe or a device")
    assert "try: name the file of the capture" in said


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("cdf", "S"), "is a capture, but cdf draws runs"),
        (("rtt", "S", "."), "is a capture, but . is not"),
        (("rtt", "S", "--case", "x"), "--case: selects runs; it does not apply to a capture"),
        (("rtt", "S", "R1-in"), "is of one run or capture, not of 2"),
        (("rtt", "S", "--flow", "9"), "--flow 9: the capture has flows 0 to 2"),
    ],
)
def test_verb_refuses_what_captures_cannot_be(
    lab: Lab, files: dict[str, Path], words: tuple[str, ...], complaint: str
) -> None:
    status, _, said = lab("plot", *(files.get(word, word) for word in words))
    assert status == 2
    assert complaint in said


@pytest.mark.parametrize(
    ("kind", "words", "complaint"),
    [
        ("rtt", ("none.pcap",), "error: none.pcap: no such capture"),
        ("rtt", ("none.PCAPNG.zst",), "error: none.PCAPNG.zst: no such capture"),
        ("queue", ("S", "none.cap.gz"), "error: none.cap.gz: no such capture"),
        ("rtt", ("-",), "error: -: a figure reads a capture twice"),
        ("rtt", ("none",), "error: none: no such experiment"),
        ("cdf", ("none.pcap",), "error: none.pcap: no such experiment"),
    ],
)
def test_verb_says_that_there_is_no_such_capture(
    lab: Lab, files: dict[str, Path], kind: str, words: tuple[str, ...], complaint: str
) -> None:
    status, _, said = lab("plot", kind, *(files.get(word, word) for word in words))
    assert status == 2
    assert said.startswith(complaint)


def test_experiment_is_no_capture(lab: Lab, spec: Path) -> None:
    with pytest.raises(RequestError, match="is of one run or capture, not of 0"):
        figure("rtt", [])
    assert "no run to draw" in lab("plot", "rtt", spec, "--testbed", "fake")[2]


#: The receiver takes two segments at first, and one after the first acknowledgement.
TIGHT = (1920, 960)


def windowed(tmp_path: Path, sizes: tuple[int, int] = TIGHT) -> DrawnCapture:
    made = Pcap().add(10**18, segment(0, 0, flags=SYN))
    ends = ((1, 200, sizes[0], SYN | ACK), (961, 400, sizes[1], ACK), (1921, 600, sizes[1], ACK))
    for ack, at, window, flags in ends:
        head = tcp(5001, 20000, seq=0, ack=ack, flags=flags, window=window)
        made.add(10**18 + at * 10**6, ethernet(ip4(head, src=D, dst=S)))
        if ack < 1921:
            made.add(10**18 + at * 10**6, segment(ack), missing=960)
    return DrawnCapture(made.write(tmp_path / "tight.pcap"))


def test_window_of_the_receiver_is_drawn_where_the_flow_comes_near_it(tmp_path: Path) -> None:
    made = figure("inflight", [windowed(tmp_path)])
    said = texts(made).replace("\n", " ")
    assert "receiver's window 1.0 to 1.9 kB" in said
    at = {round(time, 3): size for time, size in course(made, 1)}
    assert (at[0.2], at[0.6]) == (1.92, 0.96)


def test_window_far_above_the_flow_is_only_told(tmp_path: Path) -> None:
    made = figure("inflight", [windowed(tmp_path, (60_000, 60_000))])
    said = texts(made).replace("\n", " ")
    assert "receiver's window 60.0 kB" in said
    assert len([line for line in made.axes[0].lines if line.get_linestyle() != "None"]) == 1
    assert made.axes[0].get_ylim()[1] < 2


def test_window_without_the_syns_is_said_to_be_unknown(tmp_path: Path) -> None:
    table = "0.0 > 1:961\n0.2 < ack 961\n0.2 > 961:1921\n0.4 < ack 1921"
    middle = DrawnCapture(conversation(table)[0].write(tmp_path / "middle.pcap"))
    said = texts(figure("inflight", [middle])).replace("\n", " ")
    assert "receiver's window unknown (its scale is in the SYNs)" in said
    assert "without its handshake: followed as if captured at the sender" in said


def distant(tmp_path: Path, delay: float) -> DrawnCapture:
    """One lost segment, captured ``delay`` (there and back) from a sender 0.2 s from the end."""
    sent = [f"{0.2 + delay} > {a}:{a + 960}" for a in (1, 1921, 2881, 3841)]
    back = [f"0.4 < ack 961 sack 1921:{b}" for b in (2881, 3841, 4801)]
    lines = [f"{delay} > SYN", "0.2 < SYN-ACK", *sent, *back]
    lines += [f"{0.4 + delay} > 961:1921", "0.6 < ack 4801"]
    made, _ = conversation("\n".join(sorted(lines, key=lambda line: float(line.split()[0]))))
    return DrawnCapture(made.write(tmp_path / "away.pcap"))


@pytest.mark.parametrize(
    ("delay", "place"), [(0.1, "taken between the ends"), (0.1999, "taken at the receiver")]
)
@pytest.mark.parametrize("name", OF_FLOW)
def test_capture_away_from_the_sender_is_drawn_as_the_sender_has_it(
    tmp_path: Path, name: str, delay: float, place: str
) -> None:
    made = figure(name, [distant(tmp_path, delay)])
    said = texts(made).replace("\n", " ")
    assert f"{place}: ACKs drawn {1000 * delay:.1f} ms later, when the sender has them" in said
    if name == "time-sequence":
        assert list(marked(made)) == [EVENTS["fast"][1]["marker"]]
        assert course(made)[-1].tolist() == pytest.approx([0.6, 4.8])


def test_events_of_a_figure_are_those_of_the_analysis(tmp_path: Path) -> None:
    capture = distant(tmp_path, 0.1)
    packets, flows, row = capture.only(0)
    kinds = capture.kinds(0, packets["record"][flows.both_ways(row)])
    assert kinds[kinds > 0].tolist() == capture.found.events["kind"].tolist()


@pytest.mark.parametrize("name", OF_FLOW)
def test_capture_of_one_direction_shows_what_it_can(tmp_path: Path, name: str) -> None:
    sent = "0.0 > SYN\n0.2 > 1:961\n0.2 > 961:1921\n1.5 > 961:1921\n1.7 > 1921:2881"
    capture = DrawnCapture(conversation(sent)[0].write(tmp_path / "one.pcap"))
    if name == "time-sequence":
        made = figure(name, [capture])
        assert "one direction only" in texts(made)
        assert list(marked(made)) == [EVENTS["unknown"][1]["marker"]]
        return
    with pytest.raises(LabError, match="no ACK of flow 0") as error:
        figure(name, [capture])
    assert "capture where both directions pass" in error.value.hint


def test_acknowledgements_alone_have_no_figure(tmp_path: Path) -> None:
    back = conversation("0.2 < SYN-ACK\n0.4 < ack 961\n0.6 < ack 1921")[0]
    with pytest.raises(LabError, match="flow 0 has acknowledgements only"):
        figure("time-sequence", [DrawnCapture(back.write(tmp_path / "back.pcap"))])
