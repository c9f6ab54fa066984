"""What is made from the model, or must agree with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from queue_kinds import FULL
from ruamel.yaml import YAML

from tcpf_lab.report.style import METRICS
from tcpf_lab.spec import marker, queue
from tcpf_lab.spec.generate import generate
from tcpf_lab.spec.load import load_any
from tcpf_lab.spec.reference_docs import json_schema
from tcpf_lab.spec.words import keys as keys_of
from tools.fuzz.text_seeds import broken_specs

AT = queue.Bottleneck(10_000_000, 1)
CHECKOUT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((CHECKOUT / "experiments").glob("*.yaml"))


def plain(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text())


@pytest.mark.parametrize("name", ["experiments/schema.json", "docs/reference/experiment-keys.md"])
def test_generated_files_are_up_to_date(name: str, tmp_path: Path) -> None:
    for folder in ("experiments", "docs/reference"):
        (tmp_path / folder).mkdir(parents=True)
    generate(tmp_path)
    fresh, stored = (tmp_path / name).read_text(), (CHECKOUT / name).read_text()
    assert fresh == stored, "run: python -m tcpf_lab.spec.generate"


def test_the_schema_is_a_valid_schema() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    for name, definition in schema["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            assert value.get("description"), f"editors show nothing for {name}.{key}"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_experiment_fits_the_schema_and_points_at_it(path: Path) -> None:
    Draft202012Validator(json_schema()).validate(plain(path))
    assert load_any(path).name == path.stem
    first = path.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"


#: What an editor that knows the schema underlines.
SEEN = (
    "unknown_key_in_queue unknown_queue_kind unknown_marker missing_key size_without_unit "
    "size_in_unknown_unit rate_in_bytes_per_second probability_above_one two_topologies "
    "case_name_with_a_dot name_with_a_slash flows_zero flows_empty sack_is_not_a_switch "
    "seeds_with_three_dots no_cases"
)


def test_the_schema_refuses_what_an_editor_can_see() -> None:
    validator, files = Draft202012Validator(json_schema()), broken_specs()
    for name in SEEN.split():
        assert not validator.is_valid(YAML(typ="safe").load(files[name])), name


def test_the_glossary_has_every_key_of_a_queue_or_marker_and_every_metric() -> None:
    lines = (CHECKOUT / "docs" / "reference" / "glossary.md").read_text().splitlines()
    rows = {line.split("|")[1].strip(" `") for line in lines if line.startswith("|")}
    models = (*queue.KINDS.values(), *marker.KINDS.values())
    assert {*METRICS, *(key for model in models for key in keys_of(model))} <= rows


#: By its own words; and with tc words that are values.
OTHER_WORDS = ("tc", "cake", "dualpi2")


@pytest.mark.parametrize("kind", [kind for kind in queue.KINDS if kind not in OTHER_WORDS])
def test_a_queues_key_is_its_tc_word(kind: str) -> None:
    model = queue.KINDS[kind].model_validate({"kind": kind, **FULL[kind]})
    words = {*model.tc(AT), *(word for child in model.children(AT) for word in child.words)}
    assert {*keys_of(queue.KINDS[kind])} - {"kind"} <= words


@pytest.mark.parametrize("kind", [kind for kind in marker.KINDS if kind != "none"])
def test_a_markers_key_is_its_tc_word_and_its_json_key(kind: str) -> None:
    example = {"kind": kind, "interval": "400 ms", "tokens": "296 kB"}
    model = marker.KINDS[kind].model_validate(example)
    assert {*keys_of(marker.KINDS[kind])} - {"kind"} <= {*model.tc()} & {*model.shown()}
