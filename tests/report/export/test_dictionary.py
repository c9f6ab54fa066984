"""The data dictionary: complete, current, and of one kind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.export.dictionary import generate, markdown
from tcpf_lab.report.export.tidy import base_value
from tcpf_lab.results.layout import ExperimentFiles

DOCUMENT = Path(tcpf_lab.__file__).parent.parent / "docs" / "data-dictionary.md"


def test_document_is_current(tmp_path: Path) -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == markdown()
    (tmp_path / "docs").mkdir()
    generate(tmp_path)
    assert (tmp_path / "docs" / DOCUMENT.name).read_text(encoding="utf-8") == markdown()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_every_column_is_described_once(layout) -> None:
    assert len(set(layout.names)) == len(layout.names)
    for column in layout.columns:
        assert column.meaning
        assert column.source
        assert "|" not in column.meaning + column.source  # it would end an entry of the document
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        for suffix, unit in (("_s", "s"), ("_bytes", "bytes"), ("_percent", "%"), ("_us", "µs")):
            if column.name.endswith(suffix) and not column.name.endswith("_per_s"):
                assert column.unit == unit, column.name


def test_every_number_of_a_run_has_a_column(made: Path) -> None:
    run = next(ExperimentFiles(made, "tiny", "fake").runs())
    found = analyse(run)
    assert set(found["metrics"]) <= set(LAYOUTS["runs"].names)
    flow = found["per_flow"][0]
    names = {*flow, *(f"kernel_{name}" for name in flow["kernel"])} - {"kernel", "events"}
    names |= {f"{name}_packets" for name in flow["events"]} - {"rto_packets", "syn_rto_packets"}
    assert names <= set(LAYOUTS["flows"].names)
    assert set(next(iter(found["by_dscp"].values()))) <= set(LAYOUTS["dscp"].names)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("100 kB", 100_000.0, "bytes"),
        ("10 Mbit", 1e7, "bit/s"),
        ("200 ms", 0.2, "s"),
        ("20", 20.0, ""),
        ("0.005", 0.005, ""),
        ("true", "true", ""),
        ("coupled", "coupled", ""),
    ],
)
def test_settings_are_read_in_base_units(text: str, value: float | str, unit: str) -> None:
    assert base_value(text) == (value, unit)
