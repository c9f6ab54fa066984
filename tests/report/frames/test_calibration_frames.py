"""A calibration as frames."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from outcome_maker import outcome, write_outcome
from table_builder import cell_result

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.report.compare.statistics import CellKey
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.frames.results import kept_cells, published_table, reproductions
from tcpf_lab.report.results_table import csv_table
from tcpf_lab.report.section import gather
from tcpf_lab.run.api import Results


def test_frames_are_what_the_file_says(tmp_path: Path) -> None:
    told = outcome()
    found = tcpf_lab.load_calibration(write_outcome(tmp_path, told))
    assert repr(found) == "Calibrated('lost_testbed', unknowns=20, points=120)"
    assert found.notes == tuple(told["notes"])
    assert found.best == told["best"]["values"]
    assert found.best_is_within
    unknowns = found.unknowns.set_index("unknown")
    assert unknowns.loc["minimum RTO", "not_excluded"] == "320 ms to 450 ms"
    assert len(found.cells) == 56 * 4
    cell = found.cells.iloc[0]
    assert (cell["published"], cell["default"], cell["best"]) == pytest.approx((41, 41, 45.1))
    ratio = found.held_out.query("part == 'test' and metric == 'timeouts'").iloc[0]
    assert (ratio["ratio"], ratio["ratio_low"]) == pytest.approx((1 / 3, 0.3))
    assert found.tau.query("flows == 100")["calibrated"].eq(0.9).all()
    assert set(found.claims["kind"]) == {"every", "some"}
    assert found.claims["part"].value_counts().to_dict() == {"fit": 45, "both": 39, "test": 11}
    assert found.claims["part"].drop_duplicates().tolist() == ["test", "both", "fit"]
    assert (found.claims["holding"] + found.claims["refuted"] <= found.claims["settings"]).all()
    assert found.tau["part"].drop_duplicates().tolist() == ["fit", "test", "blind"]
    assert found.points["misfit"].isna().sum() == 1
    assert found.points.query("misfit > @found.threshold")["excluded"].all()
    lost = found.points[found.points["misfit"].isna()]
    assert lost["excluded"].isna().all(), "nothing is known of what did not run"
    assert found.points.query("not complete")["point"].tolist() == ["00000005", "00000006"]
    assert len(found.values) == 120 * 20
    assert found.influence["index"].max() == 0.9
    below = found.profiles.query("possible <= @found.threshold")
    assert not below["excluded"].any()


def test_every_frame_has_the_columns_of_the_dictionary(tmp_path: Path) -> None:
    found = tcpf_lab.load_calibration(write_outcome(tmp_path, outcome()).parent)
    for layout in [known for name, known in LAYOUTS.items() if name.startswith("calibration_")]:
        own = getattr(found, layout.name.removeprefix("calibration_"))
        assert list(own.columns) == layout.names
        assert len(own)


def test_what_is_no_calibration_is_refused(tmp_path: Path, spec: Path) -> None:
    with pytest.raises(RequestError, match="is an experiment, not a calibration"):
        tcpf_lab.load_calibration(spec)
    with pytest.raises(RequestError, match=r"calibration\.json: no such file"):
        tcpf_lab.load_calibration(tmp_path)


# Claims and published numbers as tables.


def test_every_claim_has_a_row_with_its_verdicts(source, write_all):
    write_all()
    found = Results("A", gather([source])).claims
    assert list(found["claim"]) == [claim.id for claim in CLAIMS]
    assert set(found["published_verdict"]) <= {"holds", "refuted", "not decidable"}
    decided = found[found["verdict"] != "not decidable"]
    assert (decided["holding"] <= decided["measured"]).all()
    assert (decided["measured"] <= decided["checks"]).all()
    assert found["source"].str.match("thesis|paper|tables").all()


def test_published_numbers_are_those_of_the_tables():
    found = published_table(["B"])
    assert len(found) == 14 * 4
    assert set(found["config"]) == {"B"}
    loss = found.query("case == 'NoMark+RED' and flows == 100 and metric == 'loss_percent'")
    assert list(loss["unit"]) == ["%"]
    assert len(published_table()) == 56 * 4


# Reproductions that were kept, read back.


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A sweep over a threshold, with a case that has none."""
    results = []
    for place, size in enumerate(("100 kB", "0.2 MB", "")):
        found = cell_result(CellKey("A", 100, "TB+RIO"), {"timeouts": (place, place + 2)}, (1, 2))
        settings = (("queue.max", size),) if size else ()
        results.append(replace(found, cell=replace(found.cell, settings=settings)))
    (tmp_path / "table.csv").write_text(csv_table(results))
    (tmp_path / "manifest.json").write_text(json.dumps({"experiment": "x", "testbed": "uml"}))
    return tmp_path


def test_the_axes_of_a_sweep_are_columns_in_base_units(kept: Path) -> None:
    found = kept_cells(reproductions(kept))
    timeouts = found[found["metric"] == "timeouts"]
    assert timeouts["queue.max"].tolist()[:2] == [100_000.0, 200_000.0]
    assert pd.isna(timeouts["queue.max"].iloc[2])
    assert timeouts["mean"].tolist() == [1.0, 2.0, 3.0]
    assert found.attrs["units"]["queue.max"] == "bytes"


def test_what_is_no_such_table_is_an_error_with_its_line(kept: Path) -> None:
    (kept / "table.csv").write_text("case,flows\nTB+RIO,100\n")
    with pytest.raises(RequestError, match=r"table.csv:2.*not a line of such a table"):
        kept_cells(reproductions(kept))
