from __future__ import annotations

from typing import Any

import pytest

from tcpf_lab.spec.load import apply_overrides, dump, parse
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand


@pytest.mark.parametrize("title", ["1..10", "null", "0.5", "yes: no", "# x", "'", "it's", " ", "é"])
def test_a_title_that_looks_like_yaml_stays_a_title(title: str, config_a: Experiment) -> None:
    changed = config_a.model_copy(update={"title": title})
    assert parse(dump(changed), "dumped") == changed


@pytest.mark.parametrize("name", ["1", "1e3", "true", "null", "0x10", "2001-01-01", "no"])
def test_a_case_name_that_looks_like_a_number_stays_a_name(name: str, config_a: Experiment) -> None:
    queue = config_a.cases["NoMark+RED"]
    changed = config_a.model_copy(update={"cases": {name: queue}})
    assert parse(dump(changed), "dumped").cases == {name: queue}


@pytest.mark.parametrize("word", ["off", "passive", "classic"])
def test_a_word_that_yaml_once_took_for_a_switch_stays_a_word(
    word: str, config_a: Experiment
) -> None:
    """YAML 1.1 read `off` as false; files are YAML 1.2."""
    changed = apply_overrides(config_a, [f"tcp.ecn={word}"])
    assert changed.tcp.ecn == word
    assert parse(dump(changed), "dumped") == changed
    varied = apply_overrides(config_a, [f"tcp.ecn=[{word}]", "matrix.seed=1"])
    runs = expand(parse(dump(varied), "dumped"))
    assert {(run.experiment.tcp.ecn, run.settings) for run in runs} == {
        (word, (("tcp.ecn", word),))
    }
    assert expand(parse(dump(runs[0].experiment), "dumped"))[0].id == runs[0].id


def test_every_default_is_written_out() -> None:
    text = """
        name: x
        topology: {chain: {access: 1 Gbit, bottleneck: 1 Mbit, delay: 0 s}}
        tcp: {profile: modern}
        cases: {RED: {queue: {kind: red, limit: 500 kB, min: 10 kB, max: 30 kB, probability: 1}}}
        matrix: {flows: 3}
    """
    experiment = parse(text, "x")
    written = dump(experiment)
    assert "generator" not in written  # the testbed's to choose
    for line in (
        "    mtu: 1 kB",
        "    host_queue: 1 MB",
        "  sack: true",
        "  start_spread: 2 s",
        "  warmup: 10 s",
        "  duration: 60 s",
        "  socket_buffer: 1 MB",
        "    marker: none",
        "      burst: 73",
        "      avpkt: 1 kB",
        "  case: all",
        "  flows: 3",
        "  seed: 1..10",
    ):
        assert line in written.splitlines()


@pytest.mark.parametrize("delay", ["12 ms..26 ms", ["1 ms", "20 us", "1.5 s"], "20 ms"])
def test_delays_of_pairs_are_written_as_short_as_they_were(
    delay: Any, config_a: Experiment
) -> None:
    pairs = f"{{dumbbell: {{access: 1 Gbit, bottleneck: 1 Mbit, delay: {delay}, pairs: 3}}}}"
    one = apply_overrides(config_a, [f"topology={pairs}"])
    written = dump(one)
    assert parse(written, "again") == one
    shown = delay if isinstance(delay, str) else f"[{', '.join(delay)}]"
    assert f"    delay: {shown}\n" in written
