from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.base.errors import LabError, RequestError, SpecError
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.load import Level, load_any, members
from tcpf_lab.spec.model import Experiment
from tcpf_lab.spec.sweep import expand


def write(directory: Path, text: str) -> Path:
    path = directory / "c.yaml"
    path.write_text(text)
    return path


def levels(path: Path) -> list[Level]:
    read = load_any(path)
    assert isinstance(read, Collection)
    return list(members(read, path))


def test_a_bare_name_is_the_experiment_as_it_stands(tmp_path: Path, config_a: Experiment) -> None:
    (found,) = levels(write(tmp_path, "name: c\nexperiments: [configA]\n"))
    assert (found.config, found.factor, found.level) == ("A", "", "")
    assert found.experiment.name == "configA"
    assert found.experiment.cases == config_a.cases


def test_a_change_gets_a_name_of_its_own_from_factor_and_level(tmp_path: Path) -> None:
    text = (
        "name: c\nexperiments:\n"
        "- {spec: configA, factor: Packet size, level: 1.5 kB, set: [topology.chain.mtu=1500 B]}\n"
    )
    (found,) = levels(write(tmp_path, text))
    assert found.experiment.name == "c-packet-size-1_5-kb"
    assert found.experiment.topology.builder.mtu == 1500
    assert found.config == "A", "the published configuration stays"


def test_only_the_cases_that_a_change_touches_are_in_the_matrix(tmp_path: Path) -> None:
    text = (
        "name: c\nexperiments:\n"
        "  - {spec: smoke, factor: f, level: '1', set: [cases.*.marker.interval=200 ms]}\n"
        "  - {spec: smoke, factor: f, level: '2', set: [cases.*.queue.minq=3, tcp.sack=false]}\n"
        "  - {spec: smoke, factor: f, level: '3', set: [cases.*.queue.minq=2]}\n"
    )
    one, two, same = levels(write(tmp_path, text))
    assert one.experiment.matrix.case == ("TCPF+FRIO", "TB+RIO")
    assert len(two.experiment.matrix.case) == 4
    assert len(same.experiment.matrix.case) == 4, "a level that is the default runs everything"


def test_every_experiment_is_narrowed_alike(tmp_path: Path) -> None:
    text = "name: c\nonly: {flows: 100, case: TB+RIO}\nseeds: 3\nexperiments: [configA, configB]\n"
    for found in levels(write(tmp_path, text)):
        matrix = found.experiment.matrix
        assert (matrix.case, matrix.flows, matrix.seed) == (("TB+RIO",), (100,), (1, 2, 3))


def test_an_experiment_beside_the_collection_goes_before_a_shipped_one(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "experiments" / "smoke.yaml"
    (tmp_path / "configA.yaml").write_text(shipped.read_text())
    (found,) = levels(write(tmp_path, "name: c\nexperiments: [configA]\n"))
    assert (found.experiment.name, found.config) == ("smoke", "smoke")


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("configX", "configX: no such experiment"),
        (
            "{spec: configA, factor: f, level: l, set: [tcp.sakc=1]}",
            "c.yaml:2: set tcp.sakc=1: tcp.sakc: unknown key",
        ),
        ("{spec: configA, factor: f, level: l, set: [cases.*.x=1]}", "no case has the key x"),
    ],
)
def test_what_is_wrong_with_an_experiment_of_a_collection_is_named(
    tmp_path: Path, member: str, message: str
) -> None:
    path = write(tmp_path, f"name: c\nexperiments: [{member}]\n")
    with pytest.raises(LabError) as caught:
        levels(path)
    assert message in str(caught.value)


def test_a_restriction_to_what_there_is_not_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "name: c\nonly: {flows: 7}\nexperiments: [configA]\n")
    with pytest.raises(RequestError, match="unknown flows '7'; allowed: 100, 50"):
        levels(path)


AXIS = "name: c\nexperiments:\n- {spec: configA, factor: f, level: all, set: ['%s']}\n"


def test_a_level_may_be_swept_and_runs_only_the_cases_that_it_varies(tmp_path: Path) -> None:
    (found,) = levels(write(tmp_path, AXIS % "queue.minq=2..4"))
    assert found.experiment.matrix.case == ("TCPF+FRIO", "NoMark+FRED")
    assert [axis.values for axis in found.experiment.matrix.axes] == [(2, 3, 4)]
    (found,) = levels(write(tmp_path, AXIS % "tcp.sack=[true, false]"))
    assert len(found.experiment.matrix.case) == 7, "every case has what belongs to none"


def test_an_axis_of_one_case_leaves_the_others_out(tmp_path: Path) -> None:
    setting = "cases.NoMark+RED.queue.max=[100 kB, 150 kB]"
    (found,) = levels(write(tmp_path, AXIS % setting))
    assert {run.id for run in expand(found.experiment, seeds=1)} == {
        f"nomark+red-queue.max={size}-flows{flows}-seed1"
        for size in ("100kB", "150kB")
        for flows in (100, 50)
    }


@pytest.mark.parametrize("value", ["0.1 MB", "[100 kB]"])
def test_a_collection_may_take_one_value_of_an_axis(tmp_path: Path, value: str) -> None:
    text = AXIS % "queue.out_max=100 kB..200 kB:50 kB" + f"only: {{queue.out_max: {value}}}\n"
    if value.startswith("["):
        with pytest.raises(SpecError, match=r"only.queue.out_max: must be"):
            load_any(write(tmp_path, text))
        return
    (found,) = levels(write(tmp_path, text))
    assert [axis.values for axis in found.experiment.matrix.axes] == [("100 kB",)]


def test_a_wrong_axis_of_a_member_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, AXIS % "queue.out_max=100 kB..200 kB")
    with pytest.raises(SpecError, match=r"c.yaml:3: set queue.out_max=.*needs a step"):
        levels(path)
