from __future__ import annotations

from typing import Any

import pytest

from tcpf_lab.base.errors import SpecError
from tcpf_lab.spec.load import SpecErrors, apply_overrides, dump, parse
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.queue import Bfifo, Red
from tcpf_lab.spec.sweep import expand


def test_values_are_changed_and_the_original_is_not(config_a: Experiment) -> None:
    settings = [
        "traffic.duration=20 s",
        "cases.NoMark+RED.queue.max=100 kB",
        "tcp.congestion=cubic",
    ]
    changed = apply_overrides(config_a, settings)
    queue = changed.cases["NoMark+RED"].queue
    assert isinstance(queue, Red)
    assert (changed.traffic.duration, queue.max, changed.tcp.congestion) == (20.0, 100_000, "cubic")
    assert config_a.traffic.duration == 60.0


def test_nothing_to_change_gives_the_same_experiment(config_a: Experiment) -> None:
    assert apply_overrides(config_a, []) == config_a


def test_lists_ranges_and_mappings_are_yaml(config_a: Experiment) -> None:
    settings = [
        "matrix.flows=[5, 7]",
        "matrix.seed=3..4",
        "cases.NoMark+RED.queue={kind: bfifo, limit: 9 kB}",
    ]
    changed = apply_overrides(config_a, settings)
    assert (changed.matrix.flows, changed.matrix.seed) == ((5, 7), (3, 4))
    assert changed.cases["NoMark+RED"].queue == Bfifo.model_validate(
        {"kind": "bfifo", "limit": "9 kB"}
    )


def test_the_later_of_two_settings_wins(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, ["traffic.duration=1 s", "traffic.duration=2 s"])
    assert changed.traffic.duration == 2.0


def test_a_new_case_takes_part_in_a_matrix_of_all(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, ["cases.Short={queue: {kind: bfifo, limit: 5 kB}}"])
    assert changed.selected_cases == (*config_a.selected_cases, "Short")


def test_a_star_means_every_case_that_has_the_rest_of_the_path(config_a: Experiment) -> None:
    changed = apply_overrides(config_a, ["cases.*.queue.ewma=6", "cases.*.marker.profile=paper"])
    weights = {n: c.queue.ewma for n, c in changed.cases.items() if hasattr(c.queue, "ewma")}
    assert weights == dict.fromkeys(
        ("TCPF+FRIO", "TCPF+RIO", "TCPF(O)+RIO", "TB+RIO", "NoMark+FRED"), 6
    )
    profiles = [c.marker.profile for c in changed.cases.values() if hasattr(c.marker, "profile")]
    assert profiles == ["paper"] * 3
    assert changed.cases["NoMark+RED"] == config_a.cases["NoMark+RED"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("traffic.duraton=20 s", "traffic.duraton: unknown key; allowed: generator, .*'duration'"),
        ("trafic.duration=20 s", "trafic: unknown key; allowed: .*Did you mean 'traffic'"),
        (
            "cases.NoMark+REDD.queue.max=1 kB",
            "unknown case 'NoMark.REDD'; .*Did you mean 'NoMark.RED'",
        ),
        ("cases.NoMark+RED.queue.max=100", "cases.NoMark.RED.queue.max: 100 has no unit"),
        ("cases.NoMark+RED.queue.max=5 kB", "queue.min: must be less than max"),
        (
            "cases.NoMark+RED.marker.kind=x",
            "cases.NoMark.RED.marker is a single value",
        ),
        ("traffic.warmup=1 s", "traffic.start_spread: must be at most warmup"),
        ("matrix.case=RED", "matrix.case: unknown case 'RED'; allowed: all, TCPF.FRIO, "),
        ("name=", "name: must be text, not an empty"),
        ("traffic.duration", "write PATH=VALUE"),
        ("=3", "write PATH=VALUE"),
        ("a..b=3", "write PATH=VALUE"),
        ("matrix.flows=[3", "not valid YAML"),
        ("cases=3", "cases: must be a mapping, not 3"),
        ("cases.*.queue.emwa=3", "no case has the key queue.emwa"),
        ("cases.*.queue.minq=-1", "cases.TCPF.FRIO.queue.minq: must be at least 0, not -1"),
        ("cases.*=3", "unknown case|is not allowed"),
    ],
)
def test_a_wrong_setting_is_named_in_the_error(
    setting: str, message: str, config_a: Experiment
) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        apply_overrides(config_a, [setting])
    problems = getattr(caught.value, "problems", (caught.value,))
    assert {problem.where for problem in problems} == {f"--set {setting}"}


def test_of_several_settings_the_nearest_is_blamed(config_a: Experiment) -> None:
    settings = ["matrix.flows=0", "cases.NoMark+RED.queue.kind=bfifo", "traffic.duration=3 s"]
    with pytest.raises(SpecErrors) as caught:
        apply_overrides(config_a, settings)
    blamed = {problem.where for problem in caught.value.problems}
    assert blamed == {"--set matrix.flows=0", "--set cases.NoMark+RED.queue.kind=bfifo"}


def test_keys_of_another_kind_are_reported_once(config_a: Experiment) -> None:
    with pytest.raises(SpecError) as caught:
        apply_overrides(config_a, ["queue.kind=red"])
    assert not isinstance(caught.value, SpecErrors)
    assert caught.value.where == "--set queue.kind=red"
    assert "set all keys of the new kind" in caught.value.hint


# Dump.


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
