"""Calibrations: what a file may say, what it means, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.base.units import SIZE
from tcpf_lab.spec.calibrated import Subject, read_subject, settings
from tcpf_lab.spec.calibration import Calibration, Unknown, Variant
from tcpf_lab.spec.load import each, find, load_any

HEAD = """\
name: c
fit: [configA]
test: configC
tolerance: {timeouts: 25 %, loss_percent: 10 %}
unknowns:
"""
#: What the tests take the experiments to say beside what was published.
BASE = "base: [tcp.rto_min=null, topology.chain.mtu=1000 B, traffic.warmup=10 s]\n"
RTO = "  rto: {set: tcp.rto_min, from: 200 ms, to: 1 s, scale: log, default: 200 ms}\n"


def write(directory: Path, text: str) -> Path:
    path = directory / "c.yaml"
    path.write_text(text)
    return path


def subject(
    directory: Path, unknowns: str, head: str = HEAD, variant: Variant | None = None
) -> Subject:
    path = write(directory, head + unknowns + (BASE if "base:" not in head else ""))
    read = load_any(path)
    assert isinstance(read, Calibration)
    return read_subject(read, path, variant)


def problems(directory: Path, unknowns: str, head: str = HEAD) -> list[str]:
    with pytest.raises(RequestError) as caught:
        subject(directory, unknowns, head)
    found = each(caught.value) if isinstance(caught.value, SpecError) else [caught.value]
    return [str(problem).removeprefix(f"{directory}/") for problem in found]


def number(**given: object) -> Unknown:
    return Unknown.model_validate({"set": "tcp.rto_min", **given})


def test_a_calibration_is_told_by_its_unknowns(tmp_path: Path) -> None:
    read = load_any(write(tmp_path, HEAD + RTO))
    assert isinstance(read, Calibration)
    assert (read.fit, read.test) == (("configA",), ("configC",))
    assert read.tolerance == {"timeouts": 0.25, "loss_percent": 0.1}
    assert (read.design.points, read.search.rounds, read.seeds, read.check_.seeds) == (64, 6, 1, 5)


@pytest.mark.parametrize(
    ("unknown", "drawn", "text"),
    [
        ({"from": "200 ms", "to": "1 s"}, 0.43739, "437 ms"),
        ({"from": "200 ms", "to": "2 s"}, 1.43739, "1.437 s"),
        ({"from": "200 ms", "to": "1 s", "round": "50 ms"}, 0.43739, "450 ms"),
        ({"from": "20 s", "to": "120 s", "round": "1 s"}, 119.7, "120 s"),
        ({"from": "1000 B", "to": "2 MB"}, 123456.7, "123.5 kB"),
        ({"from": 1, "to": 8, "integer": True}, 3.4, "3"),
        ({"from": 0.15, "to": 2.5}, 0.631234, "0.6312"),
        ({"from": 0.15, "to": 2.5}, 99.0, "2.5"),
        ({"from": 0.15, "to": 2.5}, 0.1, "0.15"),
    ],
)
def test_a_number_is_written_as_the_spec_wants_it(
    unknown: dict[str, object], drawn: float, text: str
) -> None:
    one = number(**unknown)
    assert one.text(drawn) == text
    assert one.text(one.number(text)) == text


def test_a_number_of_another_unit_is_not_taken_for_one() -> None:
    one = number(**{"from": "200 ms", "to": "1 s"})
    assert one.quantity is not SIZE
    with pytest.raises(ValueError, match="different units"):
        one.number("300 kB")


def test_a_setting_changes_what_it_names_and_gets_a_name_of_its_own(tmp_path: Path) -> None:
    made = subject(tmp_path, RTO + "  mtu: {set: topology.chain.mtu, levels: [576 B, 1000 B]}\n")
    values = {"rto": "437 ms", "mtu": "576 B"}
    changed = made.at(made.fit[0], values)
    assert (changed.tcp.rto_min, changed.topology.builder.mtu) == (0.437, 576)
    assert changed.name == f"c-configA-{made.point_id(values)}"
    assert made.defaults == {"rto": "200 ms", "mtu": "1 kB"}
    assert made.point_id(values) != made.point_id(made.defaults)


def test_a_rule_follows_each_experiment(tmp_path: Path) -> None:
    """RED's max is RIO's for what is OUT, times something: 200 kB in A, 30 kB in C."""
    made = subject(
        tmp_path,
        "  max: {set: cases.NoMark+RED.queue.max, times: cases.TB+RIO.queue.out_max, "
        "from: 0.35, to: 2}\n",
    )
    assert made.defaults == {"max": "1"}
    largest = [
        made.at(one, {"max": "0.366"}).cases["NoMark+RED"].queue.max for one in made.experiments
    ]
    assert largest == [73_200, 10_980]
    assert {name: set(cases) for name, cases in made.reach["max"].items()} == {
        "configA": {"NoMark+RED"},
        "configC": {"NoMark+RED"},
    }


def test_a_level_may_set_several_things_or_none(tmp_path: Path) -> None:
    made = subject(
        tmp_path,
        "  weight: {levels: {1/512: [], 1/128: [cases.*.queue.ewma=7, "
        f"cases.NoMark+RED.queue.burst=38]}}}}\n{RTO}",
    )
    one = made.calibration.unknowns["weight"]
    assert settings(one, "1/512", made.fit[0]) == ()
    assert made.defaults["weight"] == "1/512", "the level that changes nothing"
    changed = made.at(made.fit[0], {"weight": "1/128", "rto": "200 ms"})
    assert changed.cases["NoMark+RED"].queue.burst == 38
    assert made.reach["weight"]["configA"] == set(changed.cases) - {"NoMark+TailDrop"}


def test_the_name_of_an_unknown_does_not_identify_a_setting(tmp_path: Path) -> None:
    first = subject(tmp_path, RTO)
    renamed = subject(tmp_path, RTO.replace("rto:", "least timer:"))
    assert first.point_id({"rto": "300 ms"}) == renamed.point_id({"least timer": "300 ms"})
    other = subject(tmp_path, "  rto: {set: traffic.warmup, from: 10 s, to: 20 s, default: 10 s}\n")
    assert first.point_id({"rto": "300 ms"}) != other.point_id({"rto": "300 ms"})


def test_a_default_is_set_where_the_experiments_have_another_value(tmp_path: Path) -> None:
    made = subject(
        tmp_path, "  time: {set: traffic.duration, from: 20 s, to: 90 s, default: 30 s}\n"
    )
    assert [one.traffic.duration for one in made.fit] == [60]
    assert [made.at(one, made.defaults).traffic.duration for one in made.fit] == [30]


@pytest.mark.parametrize("default", ["200 ms", "0.2 s", "850 ms", "1 s"])
def test_a_default_is_taken_as_it_stands(tmp_path: Path, default: str) -> None:
    rto = RTO.replace("default: 200 ms", f"round: 50 ms, default: {default}")
    given = subject(tmp_path, rto).defaults["rto"]
    assert number(**{"from": "1 ms", "to": "9 s"}).number(given) == pytest.approx(
        {"200 ms": 0.2, "0.2 s": 0.2, "850 ms": 0.85, "1 s": 1.0}[default]
    )


@pytest.mark.parametrize(
    ("unknowns", "settings"),
    [
        ("  a: {set: tcp.sack, levels: [true, false]}\n", 2),
        ("  a: {set: topology.chain.mtu, levels: [576 B, 1000 B, 1500 B]}\n", 3),
        ("  a: {set: tcp.initcwnd, from: 1, to: 3, integer: true, default: 2}\n", 3),
        ("  a: {set: tcp.rto_min, from: 230 ms, to: 310 ms, round: 50 ms, default: 250 ms}\n", 2),
    ],
)
def test_fewer_settings_than_an_emulator_needs_are_refused(
    tmp_path: Path, unknowns: str, settings: int
) -> None:
    (problem,) = problems(tmp_path, unknowns)
    text = f"unknowns: allow only {settings} settings; a search needs at least 4"
    assert problem == f"c.yaml:5: {text}"
    more = "  b: {set: tcp.timestamps, levels: [true, false], default: true}\n"
    assert len(subject(tmp_path, unknowns + more).defaults) == 2


def test_two_experiments_that_tables_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    text = find("configA").read_text().replace("name: configA", "name: again")
    (tmp_path / "again.yaml").write_text(text)
    for old, new, line in (
        ("fit: [configA]", "fit: [configA, again]", 2),
        ("test: configC", "test: [configC, again]", 3),
    ):
        (problem,) = problems(tmp_path, RTO, HEAD.replace(old, new))
        assert problem.startswith(f"c.yaml:{line}: configA and again both appear as A")
    (tmp_path / "again.yaml").write_text(text.replace("name: again", "name: configA"))
    (problem,) = problems(tmp_path, RTO, HEAD.replace("configC", "again"))
    assert problem.startswith("c.yaml:3: two experiments have the name 'configA'")


@pytest.mark.parametrize("name", ["id", "round", "unit of rto", "unit of "])
def test_a_name_that_is_a_column_of_the_table_of_points_is_refused(
    tmp_path: Path, name: str
) -> None:
    (problem,) = problems(tmp_path, RTO.replace("rto:", f"'{name}':"))
    assert problem.startswith(f"c.yaml:6: unknowns.{name}: '{name}' is a column of the table")
    assert problem.endswith("other than id and round that does not begin with 'unit of'")


@pytest.mark.parametrize("name", ["ids", "rounds of IDs", "unit", "unit of", "Round"])
def test_a_name_that_only_looks_like_a_column_is_not_refused(tmp_path: Path, name: str) -> None:
    assert subject(tmp_path, RTO.replace("rto:", f"'{name}':")).defaults == {name: "200 ms"}


def test_a_case_that_was_seen_is_one_of_what_is_held_out(tmp_path: Path) -> None:
    seen = "seen: {NoMark+TailDrop: its rule, NoMark+Tail: its rule}\n"
    head = HEAD.replace("unknowns:", f"{seen}unknowns:")
    (problem,) = problems(tmp_path, RTO, head)
    assert problem.startswith("c.yaml:5: seen: unknown case 'NoMark+Tail'; allowed: TCPF+FRIO")
    head = head.replace("test: configC\n", "")
    assert len(problems(tmp_path, RTO, head)) == 2, "nothing is held out"


def test_a_base_is_the_uncalibrated_setting(tmp_path: Path) -> None:
    head = HEAD.replace("tolerance", "base: [tcp.rto_min=300 ms]\ntolerance")
    made = subject(tmp_path, RTO.replace(", default: 200 ms", ""), head)
    assert made.defaults == {"rto": "300 ms"}
    wrong = HEAD.replace("tolerance", "base: [tcp.rto_mim=300 ms]\ntolerance")
    assert "Did you mean 'rto_min'?" in problems(tmp_path, RTO, wrong)[0]


MTU = "  mtu: {set: topology.chain.mtu, levels: [576 B, 1000 B]}\n"
BOTH = HEAD.replace("fit: [configA]", "fit: [configA, configB]")


def test_what_is_held_is_set_and_not_searched(tmp_path: Path) -> None:
    """A setting has the same runs whether its unknowns are searched or held."""
    free = subject(tmp_path, RTO + MTU)
    held = subject(tmp_path, RTO + MTU, variant=Variant(hold=("mtu=576 B",)))
    assert list(held.calibration.unknowns) == ["rto"]
    values = {"rto": "437 ms"}
    assert held.at(held.fit[0], values) == free.at(free.fit[0], {**values, "mtu": "576 B"})


def test_an_experiment_that_is_left_out_is_held_out(tmp_path: Path) -> None:
    made = subject(tmp_path, RTO, BOTH, Variant(without="configA"))
    assert [one.name for one in made.fit] == ["configB"]
    assert [one.name for one in made.test] == ["configC", "configA"]


@pytest.mark.parametrize(
    ("variant", "said"),
    [
        (Variant(without="configC"), "of `fit`; allowed: configA, configB"),
        (Variant(hold=("mtu",)), "NAME=VALUE"),
        (Variant(hold=("mut=576 B",)), "Did you mean 'mtu'?"),
        (Variant(hold=("mtu=577 B",)), "Did you mean '576 B'?"),
        (Variant(hold=("rto=2 s",)), "is not in the range"),
        (Variant(hold=("rto=300 kB",)), "different units"),
        (Variant(hold=("rto=300 ms", "rto=400 ms")), "rto is given twice"),
        (Variant(hold=("rto=300 ms", "mtu=576 B")), "every unknown is held"),
    ],
)
def test_a_variant_of_what_the_file_has_not_got_is_refused(
    tmp_path: Path, variant: Variant, said: str
) -> None:
    with pytest.raises(RequestError) as caught:
        subject(tmp_path, RTO + MTU, BOTH, variant)
    assert said in str(caught.value)


def test_results_of_a_variant_are_beside_those_of_the_file() -> None:
    """An experiment may be named by its path, and what is held in any order."""
    one = Variant("../old/loss_low.yaml", ("rto=300 ms", "mtu=576 B"))
    assert one.names == ("without-..-old-loss_low.yaml", "mtu=576-B", "rto=300-ms")
    other = Variant(one.without, one.hold[::-1])
    assert (other.names, str(other)) == (one.names, str(one))


def test_two_unknowns_may_not_set_the_same(tmp_path: Path) -> None:
    other = "  all: {levels: {a: [], b: [cases.NoMark+RED.queue.max=100 kB]}}\n"
    one = "  max: {set: cases.*.queue.max, from: 100 kB, to: 200 kB}\n"
    (problem,) = problems(tmp_path, one + other)
    assert problem == (
        "c.yaml:7: unknowns.all: sets cases.NoMark+RED.queue.max, as 'max' does; remove one of them"
    )


def test_a_collection_does_not_contain_a_calibration(tmp_path: Path) -> None:
    from tcpf_lab.spec.collection import Collection
    from tcpf_lab.spec.load import members

    write(tmp_path, HEAD + RTO)
    path = tmp_path / "all.yaml"
    path.write_text("name: all\nexperiments: [c]\n")
    read = load_any(path)
    assert isinstance(read, Collection)
    with pytest.raises(SpecError, match="c: a collection cannot contain a calibration"):
        members(read, path)
