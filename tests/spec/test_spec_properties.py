"""Whatever a file may hold is read back as it was, and planned; whatever else is refused."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from spec_strategies import collections, experiments

from tcpf_lab.base.errors import LabError
from tcpf_lab.plan.compose import compose
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.load import dump, each, load_any, parse
from tcpf_lab.spec.reference_docs import json_schema
from tcpf_lab.spec.sweep import expand
from tcpf_lab.spec.yaml_text import read_yaml
from tcpf_lab.testbed.uml import guest_plan
from tools.fuzz import text_seeds, text_subject, text_target
from tools.fuzz.text_mutate import WORDS, mutate

CHECKOUT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((CHECKOUT / "experiments").glob("*.yaml"))
SCHEMA = Draft202012Validator(json_schema())
#: A name that no shell, no file system and no program's options take for anything else.
SAFE = re.compile(r"[a-z0-9][A-Za-z0-9+._=:%-]*", re.ASCII)
#: What a mutation puts in the place of a value.
JUNK: list[Any] = [
    *(None, True, -1, 0, 10**25, 1e300, float("inf"), float("nan"), 1.5, [], {}, [[]], {"a": {}}),
    *("", "x", "all", "*", "1..3", "1..1e9", "10 furlong", "10 Mbit", "1 kB..3 kB:1 kB", "0 s"),
    *("../../x", "/etc/passwd", "$(reboot)", "`id`", "';'", "-x", "x" * 300, "a\x1b[2J", "\u202e"),
    *(["1 kB", "1 kB"], [None], {"kind": "red"}, {"kind": ["red"]}, {"kind": None}, [{"spec": 1}]),
]
FEW = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def written(data: dict[str, Any]) -> str:
    """Write data as YAML that says NaN and infinity as JSON does not."""
    text = json.dumps(data, ensure_ascii=False)
    return text.replace(": NaN", ": .nan").replace(": Infinity", ": .inf")


@FEW
@given(experiments())
def test_a_valid_experiment_is_written_and_read_back_and_planned_the_same(
    data: dict[str, Any],
) -> None:
    experiment = parse(written(data), "x")
    text = dump(experiment)
    again = parse(text, "written")
    assert again == experiment
    assert dump(again) == text
    SCHEMA.validate(json.loads(json.dumps(data)))
    runs = expand(experiment)
    names = [run.id for run in runs]
    assert len(set(names)) == len(names)
    assert all(SAFE.fullmatch(name) and len(name) < 220 for name in names)
    run = runs[0]
    assert str(compose(run)) == str(compose(expand(again)[0]))
    assert guest_plan.render(compose(run))
    assert [made.id for made in expand(parse(dump(run.experiment), "run.yaml"))] == [run.id]


@FEW
@given(collections())
def test_a_valid_collection_is_read_and_names_its_members_safely(data: dict[str, Any]) -> None:
    SCHEMA.validate(json.loads(json.dumps(data)))
    collection = Collection.model_validate(data)
    levels = [member for member in collection.experiments if member.settings]
    names = [collection.named(member, "") for member in levels]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_+-]{0,59}", name) for name in names)


def places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a tree."""
    inner = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    for key in inner:
        yield (*above, key)
        yield from places(data[key], (*above, key))


@st.composite
def spoilt(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a valid experiment or collection of which up to three things are others, or gone."""
    data = json.loads(json.dumps(draw(st.one_of(experiments(), collections()))))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(data)) or [()]))
        if not path:
            continue
        section = data
        for key in path[:-1]:
            section = section[key]
        match draw(st.sampled_from(["another", "another", "gone", "more"])):
            case "another":
                section[path[-1]] = draw(st.sampled_from(JUNK))
            case "gone":
                del section[path[-1]]
            case "more" if isinstance(section, dict):
                section[draw(st.text(string.printable, max_size=9))] = draw(st.sampled_from(JUNK))
    return data


def refusal(text: str, folder: Path) -> LabError | None:
    """Read a file; give the error that it ends in, each part of which must have a line."""
    path = folder / "x.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = None
    try:
        load_any(path)
    except LabError as error:
        found = error
    for problem in each(found) if found else ():
        assert re.fullmatch(rf"{re.escape(str(path))}:\d+", problem.where), problem
        assert str(problem).isprintable()
    return found


@FEW
@given(data=spoilt())
def test_a_spoilt_file_is_read_or_refused_with_a_line(
    data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    refusal(written(data), tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_mutations_of_a_shipped_file_are_read_or_refused_with_a_line(path: Path) -> None:
    for seed in range(3):
        text_subject.spec(mutate(path.read_bytes(), seed))


@pytest.mark.parametrize(
    "word", WORDS, ids=lambda word: ascii(word[:12].decode("utf-8", "replace"))
)
def test_odd_values_and_tags_are_refused_with_a_line(word: bytes, tmp_path: Path) -> None:
    value = word.decode("utf-8", "surrogatepass")
    text = f"name: x\ntcp: {{profile: modern, initcwnd: {value}}}\n"
    assert refusal(text, tmp_path) is not None


@pytest.mark.parametrize("target", ["spec", "inventory"])
def test_what_once_made_trouble_makes_none(target: str) -> None:
    answers = [text_target.subject(target)(data) for _, data in text_seeds.kept(target)]
    assert "refused" in answers


def laughs(levels: int) -> str:
    """Ten to the power of ``levels`` words, if aliases were written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)
    ]
    return "\n".join(lines)


BOMBS = {
    "brackets": "[" * 199_000,
    "braces": "{" * 199_000,
    "mappings within mappings": "".join(f"{' ' * k}a:\n" for k in range(500)),
    "keys": "".join(f"k{k}: 1\n" for k in range(18_000)),
    "a list": f"a: [{','.join('1' * 90_000)}]",
    "a long number": f"a: {'9' * 199_000}",
    "a long number of base 16": f"tcp: {{initcwnd: 0x{'f' * 9000}}}",
    "a long word": f"a: {'x' * 199_000}",
    "a long key": f"{'x' * 900}: 1",
    "aliases of aliases": f"{laughs(30)}\ntcp: {{profile: *a29}}",
    "aliases as a kind": f"{laughs(30)}\ncases: {{A: {{queue: {{kind: *a29}}}}}}",
    "aliases as values of an axis": f"{laughs(9)}\nmatrix: {{flows: *a8}}",
    "many aliases of one list": f"a: &a [{'1, ' * 900}1]\nb: [{'*a, ' * 900}*a]",
    "a mapping of itself": "a: &a {b: *a}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unfolds_without_end_is_refused_at_once(name: str, tmp_path: Path) -> None:
    """What took minutes before is a matter of a second; the message is short, whatever it says."""
    error = refusal(BOMBS[name], tmp_path)
    assert error is not None
    assert len(str(error)) < 20_000


def test_the_hundredth_problem_is_told_and_the_rest_are_counted(tmp_path: Path) -> None:
    text = "".join(f"k{k}: 1\n" for k in range(150))
    error = refusal(text, tmp_path)
    assert error is not None
    assert len(each(error)) == 101
    assert re.search(r"x\.yaml:\d+: and \d\d more problems$", str(error))


def test_an_anchor_that_is_defined_again_means_the_later_one(
    recwarn: pytest.WarningsRecorder,
) -> None:
    text = "a: &x 1\nb: &x 2\nc: *x\n"
    assert read_yaml(text).data == {"a": 1, "b": 2, "c": 2}
    assert not recwarn.list


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    error = refusal('"\\e[2Jx\\u202e": 1\n', tmp_path)
    assert error is not None
    assert r"\x1b[2Jx\u202e: unknown key" in str(error)


AXES = """
name: x
topology: {chain: {access: 1 Gbit, bottleneck: 1 Mbit, delay: 0 s}}
tcp: {profile: modern}
cases: {AQM: {queue: {kind: tc, limit: 500 kB, words: fq_codel limit 1}}}
matrix:
  flows: 3
  queue.words: WORDS
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fq_codel quantum 10/8"], "has a '/'"),
        (["fq_codel /etc/passwd"], "has a '/'"),
        (["fq_codel limit 10", "fq_codel limit1 0"], "has the same run id as"),
        (["fq_codel " + "a" * 200], "a run id longer than 180 characters"),
        (["fq_codel ../x"], "is a range inside a list"),
        (["fq_codel $(reboot)"], "write options of tc"),
        (["fq_codel; reboot"], "must begin with the name of a qdisc"),
        (["fq_codel -x\n"], "write options of tc"),
    ],
)
def test_words_that_would_not_name_a_run_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)) as caught:
        parse(AXES.replace("WORDS", json.dumps(words)), "x.yaml")
    assert all(problem.where == "x.yaml:8" for problem in each(caught.value))


def test_words_that_name_runs_are_axes() -> None:
    text = AXES.replace("WORDS", '["fq_codel limit 10", "fq_codel limit 20"]')
    assert [run.id for run in expand(parse(text, "x"), seeds=1)] == [
        "aqm-queue.words=fq_codellimit10-flows3-seed1",
        "aqm-queue.words=fq_codellimit20-flows3-seed1",
    ]
