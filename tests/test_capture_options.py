"""Any value of any option of `analyze` and `crossing` ends in an answer or in one message."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tcpf_lab.base.errors import LabError
from tcpf_lab.cli.main import app

TIMES = st.sampled_from([0, 1, 999, 10**3, 10**6, 46 * 10**6, 10**9, 25 * 10**9, 10**15]).flatmap(
    lambda ns: st.sampled_from([f"{ns / 1e3:.3f} us", f"-{ns / 1e3:.3f} us"])
)
WORDS = st.sampled_from(["", "0", "-1", "99999999999999999999", "x", "²", ",", "0,1"]) | st.text(
    st.characters(exclude_categories=["C"]), max_size=4
)
NETWORKS = st.sampled_from(["10.0.0.1", "0.0.0.0/0", "::/0", "::ffff:10.0.0.0/104", "[", "::/129"])
COLUMNS = st.sampled_from(["rtt_min_s", "mss", "flow", "dscp", "timeouts", "acked_bytes"])
OF_CROSSING = {
    **dict.fromkeys(["--offset", "--max-delay", "--from", "--to", "--bin"], TIMES | WORDS),
    "--top": WORDS,
}
OF_ANALYZE = {
    "--host": NETWORKS | WORDS,
    "--sort": COLUMNS | WORDS,
    "--min-rto": TIMES | WORDS,
    **dict.fromkeys(["--port", "--dscp", "--flow", "--top", "--at", "--profile"], WORDS),
    "--format": st.sampled_from(["table", "json", "jsonl", "csv", "parquet"]),
}


def lines(options: dict[str, st.SearchStrategy[str]]) -> st.SearchStrategy[list[str]]:
    """Draw some of the options, each with a value; the others are left out."""
    some = st.fixed_dictionaries({}, optional=options)
    return some.map(lambda chosen: [f"{name}={value}" for name, value in chosen.items()])


def answer(*words: str) -> None:
    """Run the command line; any exception but those that become a message fails."""
    done = CliRunner().invoke(app, words)
    if not isinstance(done.exception, LabError | SystemExit | None):
        raise done.exception


FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(options=lines(OF_CROSSING))
@example(options=["--offset=100 s"])
@example(options=["--offset=-30 s"])
@example(options=["--offset=24 s"])
def test_crossing_answers_or_refuses(recorded: Path, options: list[str]) -> None:
    sides = (str(recorded / "pcap" / f"R1-{side}.pcap.zst") for side in ("in", "out"))
    answer("crossing", *sides, *options)


@FEW
@given(options=lines(OF_ANALYZE), events=st.sampled_from([[], ["--events"]]))
def test_analyze_answers_or_refuses(recorded: Path, options: list[str], events: list[str]) -> None:
    answer("analyze", str(recorded / "pcap" / "S.pcap.zst"), *options, *events)


@pytest.mark.parametrize("offset", ["100 s", "-30 s", "1 s"])
def test_offset_that_no_packet_agrees_with_is_refused_with_the_one_that_most_do(
    recorded: Path, offset: str
) -> None:
    sides = [str(recorded / "pcap" / f"R1-{side}.pcap.zst") for side in ("in", "out")]
    done = CliRunner().invoke(app, ["crossing", *sides, f"--offset={offset}"])
    assert f"--offset {offset}: nothing goes" in str(done.exception)
    assert "agree on 0.046" in str(done.exception)
