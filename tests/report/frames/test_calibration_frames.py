"""A calibration as frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from outcome_maker import outcome, write_outcome

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.report.export.columns import LAYOUTS


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
