"""What is made from the model, or must agree with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from fuzz.text_seeds import broken_specs
from tcpf_lab.report.style import METRICS
from tcpf_lab.report.table import csv_header
from tcpf_lab.spec import marker, queue
from tcpf_lab.spec.base import keys as keys_of
from tcpf_lab.spec.generate import generate
from tcpf_lab.spec.load import load_any
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Reference
from tcpf_lab.spec.schema import json_schema

CHECKOUT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((CHECKOUT / "experiments").glob("*.yaml"))


def plain(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path.read_text())


@pytest.mark.parametrize("name", ["experiments/schema.json", "docs/spec.md"])
def test_generated_files_are_up_to_date(name: str, tmp_path: Path) -> None:
    for folder in ("experiments", "docs"):
        (tmp_path / folder).mkdir()
    generate(tmp_path)
    fresh, kept = (tmp_path / name).read_text(), (CHECKOUT / name).read_text()
    assert fresh == kept, "run: python -m tcpf_lab.spec.generate"


def test_the_schema_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_experiment_fits_the_schema_and_points_at_it(path: Path) -> None:
    Draft202012Validator(json_schema()).validate(plain(path))
    first = path.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"


@pytest.mark.parametrize(
    "name",
    [
        "unknown_key_in_queue",
        "unknown_queue_kind",
        "unknown_marker",
        "missing_key",
        "size_without_unit",
        "size_in_unknown_unit",
        "rate_in_bytes_per_second",
        "probability_above_one",
        "two_topologies",
        "case_name_with_a_dot",
        "name_with_a_slash",
        "flows_zero",
        "flows_empty",
        "sack_is_not_a_switch",
        "seeds_with_three_dots",
        "no_cases",
    ],
)
def test_the_schema_refuses_what_an_editor_can_see(name: str) -> None:
    validator = Draft202012Validator(json_schema())
    assert not validator.is_valid(YAML(typ="safe").load(broken_specs()[name]))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_every_shipped_experiment_is_named_in_the_readme(path: Path) -> None:
    assert f"| `{path.name}` |" in (CHECKOUT / "experiments" / "README.md").read_text()
    assert load_any(path).name == path.stem


def glossary_rows() -> list[list[str]]:
    lines = (CHECKOUT / "docs" / "glossary.md").read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]


@pytest.mark.parametrize("kind", [*queue.KINDS, *marker.KINDS])
def test_every_key_of_a_queue_or_marker_is_in_the_glossary(kind: str) -> None:
    model = {**queue.KINDS, **marker.KINDS}[kind]
    keys = {row[0] for row in glossary_rows()}
    assert {f"`{name}`" for name in keys_of(model)} <= keys


@pytest.mark.parametrize("kind", [kind for kind in queue.KINDS if kind != "tc"])
def test_a_queues_key_is_its_tc_word_and_the_glossary_has_its_json_key(kind: str) -> None:
    example = {
        "kind": kind,
        "limit": "500 kB",
        "min": "10 kB",
        "max": "200 kB",
        "probability": 0.25,
        **{f"{side}_min": "10 kB" for side in ("in", "out")},
        **{f"{side}_max": "200 kB" for side in ("in", "out")},
        **{f"{side}_probability": 0.25 for side in ("in", "out")},
    }
    fields = keys_of(queue.KINDS[kind])
    model = queue.KINDS[kind].model_validate({k: v for k, v in example.items() if k in fields})
    inside = model.children(10_000_000, 1)
    words = [*model.tc(10_000_000, 1), *(word for child in inside for word in child.words)]
    rows = {row[0].strip("`"): row for row in glossary_rows()}
    for name in fields:
        if name != "kind":
            assert name in words
            assert rows[name][1] == f"`{name}`"
    queues = [row for row in rows.values() if len(row) == 5 and "`" in row[2]]
    read_back = {row[2].split("`")[1] for row in queues}
    assert set(model.shown(10_000_000, 1)) - {"bandwidth", "seed", "bands", "priomap"} <= read_back


@pytest.mark.parametrize("kind", [kind for kind in marker.KINDS if kind != "none"])
def test_a_markers_key_is_its_tc_word_and_its_json_key(kind: str) -> None:
    example = {"kind": kind, "interval": "400 ms", "tokens": "296 kB"}
    model = marker.KINDS[kind].model_validate(example)
    rows = {row[0].strip("`"): row for row in glossary_rows()}
    for name in keys_of(marker.KINDS[kind]):
        if name != "kind":
            assert name in model.tc()
            assert name in model.shown()
            assert rows[name][1] == f"`{name}`"
            assert rows[name][2].startswith(f"`{name}`")


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_of_the_table_is_in_the_glossary(metric: str) -> None:
    assert f"`{metric}`" in {row[0] for row in glossary_rows()}


def test_every_row_of_the_glossary_on_runs_has_its_key_in_the_model_and_in_the_table() -> None:
    rows = {row[1]: row for row in glossary_rows() if re.match(r"`\w+\.\w+`", row[0])}
    assert set(rows) == {"`config`", "`case`", "`flows`", "`seed`"}
    columns = csv_header()
    for path, key, column, _ in rows.values():
        section, name = path.strip("`").split(".")
        model = {"reference": Reference, "matrix": Matrix}[section]
        assert f"`{name}`" == key
        assert name in model.model_fields
        assert (name in columns) == (column == key)


def test_the_reference_names_every_key_of_the_model() -> None:
    text = (CHECKOUT / "docs" / "spec.md").read_text()
    for name, definition in json_schema()["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            assert f"| `{key}` |" in text, f"{name}.{key}"
            assert value.get("description"), f"{name}.{key}"
    json.dumps(json_schema())
