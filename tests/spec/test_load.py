from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.calibration.target import read_numbers
from tcpf_lab.spec.load import SpecErrors, find, load, parse
from tcpf_lab.spec.model import Experiment

CHECKOUT = Path(__file__).resolve().parents[2]


def text_of(experiment: str = "configA") -> str:
    return (CHECKOUT / "experiments" / f"{experiment}.yaml").read_text()


def test_several_errors_survive_a_process_boundary() -> None:
    with pytest.raises(SpecErrors) as caught:
        parse("tcp: 1\nmatrix: 2\n", "x.yaml")
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, SpecErrors)
    assert str(again) == str(caught.value)


def test_an_unknown_case_in_the_matrix_is_reported_beside_an_error_in_a_case() -> None:
    text = text_of().replace(" min: 10 kB", " min: 10").replace("case: all", "case: RED")
    with pytest.raises(SpecErrors, match=r"min: 10 has no unit(?s:.*)unknown case 'RED'"):
        parse(text, "x.yaml")


def test_a_mapping_shared_by_an_alias_is_read_like_one_written_twice() -> None:
    shared = text_of("smoke").replace("marker: none, queue: {kind: bfifo", "queue: &q {kind: bfifo")
    aliased = shared + "# end\n"
    aliased = aliased.replace("matrix:", "  Twice: {queue: *q}\nmatrix:")
    experiment = parse(aliased, "x.yaml")
    assert experiment.cases["Twice"] == experiment.cases["NoMark+TailDrop"]


def test_aliases_of_aliases_do_not_multiply() -> None:
    layers = ["a0: &a0 [1, 2]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 15)]
    with pytest.raises(LabError):
        parse("\n".join(layers), "x.yaml")


@pytest.mark.parametrize("mark", ["\ufeff", "", "# comment\n", "%YAML 1.2\n---\n"])
def test_what_may_stand_in_front_of_a_file_does_no_harm(
    mark: str, tmp_path: Path, config_a: Experiment
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(mark + text_of(), encoding="utf-8")
    assert load(path) == config_a


def test_line_ends_of_other_systems_do_no_harm(tmp_path: Path, config_a: Experiment) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(text_of().replace("\n", "\r\n").encode())
    assert load(path) == config_a


def test_a_missing_file_a_directory_and_a_capture_are_named_as_such(tmp_path: Path) -> None:
    big = tmp_path / "big.pcap"
    big.write_bytes(b"\0" * 200_001)
    for path, message in (
        (tmp_path / "no.yaml", "no such file"),
        (tmp_path, "is a directory, not an experiment file"),
        (big, "larger than 200000 bytes"),
    ):
        with pytest.raises(RequestError, match=message) as caught:
            load(path)
        assert caught.value.where == str(path)


def test_a_file_has_at_most_200_kb_and_10000_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    text = text_of()
    path.write_text(text + "#" * (200_000 - len(text.encode())), encoding="utf-8")
    assert load(path) == load(CHECKOUT / "experiments" / "configA.yaml")
    path.write_text(path.read_text(encoding="utf-8") + "#", encoding="utf-8")
    with pytest.raises(RequestError, match="larger than 200000 bytes"):
        load(path)
    # The mapping is one, and so are the key and its list.
    path.write_text(f"a: [{', '.join('1' * 9_997)}]", encoding="utf-8")
    with pytest.raises(RequestError, match="unknown key"):
        load(path)
    path.write_text(f"a: [{', '.join('1' * 9_998)}]", encoding="utf-8")
    with pytest.raises(RequestError, match="holds more than 10000 keys and values"):
        load(path)


@pytest.mark.parametrize("name", ["configA.yaml", "configA"])
def test_a_bare_name_is_found_among_those_that_come_with_the_package(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find(name).samefile(CHECKOUT / "experiments" / "configA.yaml")


@pytest.mark.parametrize("verb", ["plan", "status", "report", "plot cdf", "calibrate"])
def test_a_pipe_a_device_and_a_terminal_are_no_specs(tmp_path: Path, lab, verb: str) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    out, into = os.pipe()
    for name in ("pipe.yaml", "./pipe.yaml", f"/dev/fd/{out}", "/dev/zero"):
        status, _, complaints = lab(*verb.split(), name)
        assert (status, "is a pipe or a device" in complaints) == (2, True)
    os.close(out)
    os.close(into)


def test_inventories_and_published_numbers_are_files_too(tmp_path: Path, lab) -> None:
    os.mkfifo(tmp_path / "hosts.yaml")
    status, _, complaints = lab("doctor", "--testbed", "./hosts.yaml")
    assert (status, "is a pipe or a device, not " in complaints) == (2, True)
    with pytest.raises(RequestError, match="is a pipe or a device, not a CSV file"):
        read_numbers(tmp_path / "hosts.yaml", (), {})
    with pytest.raises(RequestError, match="File name too long"):
        read_numbers(tmp_path / ("x" * 300), (), {})


def test_a_bare_name_is_looked_up_here_before_the_experiments_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    shutil.copy(CHECKOUT / "experiments" / "smoke.yaml", tmp_path / "experiments" / "configA.yaml")
    assert find("configA.yaml") == Path("experiments/configA.yaml")
    shutil.copy(CHECKOUT / "experiments" / "smoke.yaml", tmp_path / "configA.yaml")
    assert find("configA.yaml") == Path("configA.yaml")


def test_a_name_that_is_nowhere_gives_the_names_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=r"smoke\.yaml\. Did you mean 'configA\.yaml'\?"):
        find("konfigA.yaml")
    with pytest.raises(RequestError, match=r"some/where\.yaml: no such file"):
        find("some/where.yaml")


def test_a_results_directory_of_the_same_name_does_not_hide_an_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configA").mkdir()
    assert find("configA").name == "configA.yaml"
