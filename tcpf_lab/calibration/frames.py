"""What a calibration has concluded, as frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from tcpf_lab.calibration.record import Record, claims_under, ranges
from tcpf_lab.report.export.columns import LAYOUTS
from tcpf_lab.report.export.tidy import frame
from tcpf_lab.report.style import METRICS


class Calibrated:
    """A calibration as `load_calibration` found it; nothing of it is worked out again.

    Each frame is a copy, which may be changed. A plausible setting is one that was looked at
    closely and is within the threshold; the best counts as one even if it is beyond.
    """

    def __init__(self, record: Record) -> None:
        self._record = record

    def __repr__(self) -> str:
        """Say how much there is."""
        data = self._record.data
        sizes = f"unknowns={len(self._record.unknowns)}, points={len(data['points'])}"
        return f"Calibrated({self.name!r}, {sizes})"

    @property
    def name(self) -> str:
        """The calibration's name."""
        return self._record.name

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats; the first states what a fit is not."""
        return tuple(self._record.data["notes"])

    @property
    def best(self) -> dict[str, str]:
        """Value of each unknown in the best setting."""
        return dict(self._record.data["best"]["values"])

    @property
    def best_is_within(self) -> bool:
        """Whether the best setting's own misfit is within the threshold, or beyond it."""
        return self._record.best["id"] in self._record.within

    @property
    def threshold(self) -> float:
        """The misfit above which the profiles exclude a value."""
        return float(self._record.data["threshold"]["limit"])

    @property
    def residuals(self) -> int:
        """How many numbers were fitted: about the misfit of a setting that is right."""
        return int(self._record.data["threshold"]["residuals"])

    @property
    def unknowns(self) -> pd.DataFrame:
        """A row per unknown: range, default, best, what is not excluded, the verdict."""
        shares = {one["name"]: one["share"] for one in self._record.data["profiles"]}
        rows = [
            {
                "unknown": one["name"],
                "range": ranges(one),
                "default": one["default"],
                "best": self.best[one["name"]],
                "not_excluded": ", ".join(one["not_excluded"]),
                "verdict": one["verdict"],
                "share": shares[one["name"]],
            }
            for one in self._record.data["unknowns"]
        ]
        return frame(LAYOUTS["calibration_unknowns"], rows)

    @property
    def profiles(self) -> pd.DataFrame:
        """A row per unknown and value: the minimum misfit with all others free."""
        return frame(LAYOUTS["calibration_profiles"], list(self._profiles()))

    def _profiles(self) -> Iterator[dict[str, Any]]:
        for one in self._record.data["profiles"]:
            for place, text in enumerate(one.get("texts") or one["values"]):
                yield {
                    "unknown": one["name"],
                    "value": str(text),
                    "at": one["units"][place],
                    "expected": one["expected"][place],
                    "possible": one["possible"][place],
                    "excluded": one["possible"][place] > self.threshold,
                }

    @property
    def points(self) -> pd.DataFrame:
        """A row per point: round, misfit, whether it is excluded, if that is known."""
        rows = [
            {
                "point": one["id"],
                "round": one["round"],
                "misfit": one["misfit"],
                "complete": self._record.whole(one),
                "excluded": one.get("excluded"),
            }
            for one in self._record.data["points"]
        ]
        return frame(LAYOUTS["calibration_points"], rows)

    @property
    def values(self) -> pd.DataFrame:
        """A row per point and unknown: what was tried."""
        rows = [
            {"point": one["id"], "unknown": name, "value": one["values"][name]}
            for one in self._record.data["points"]
            for name in self._record.unknowns
        ]
        return frame(LAYOUTS["calibration_values"], rows)

    @property
    def cells(self) -> pd.DataFrame:
        """A row per cell and metric: published, uncalibrated, and under the best setting."""
        return frame(LAYOUTS["calibration_cells"], list(self._cells()))

    def _cells(self) -> Iterator[dict[str, Any]]:
        record = self._record
        parts = {one["name"]: one["part"] for one in record.data.get("experiments", ())}
        pair = {"default": record.default, "best": record.best}
        for place, cell in enumerate(record.cells()):
            for column, metric in enumerate(record.metrics):
                yield {
                    "part": parts.get(cell["experiment"], ""),
                    **{key: cell[key] for key in ("config", "case", "flows")},
                    "metric": metric,
                    "unit": METRICS[metric].unit,
                    "published": record.data["table"]["published"][place][column],
                    **{name: one["mean"][place][column] for name, one in pair.items()},
                    **{f"{name}_ci95": one["half"][place][column] for name, one in pair.items()},
                }

    @property
    def held_out(self) -> pd.DataFrame:
        """A row per part and metric: errors before and after, with intervals."""
        rows = [
            {"part": part, "metric": metric, **_spread(found, "default", "calibrated", "ratio")}
            for part in ("fit", "test", "blind")
            for metric, found in self._record.by_metric(self._record.data["held_out"].get(part, {}))
        ]
        return frame(LAYOUTS["calibration_held_out"], rows)

    @property
    def tau(self) -> pd.DataFrame:
        """A row per block and metric: rank correlation before and after."""
        rows = []
        for one in self._record.data["kendall"]:
            after = one["calibrated"] or {}
            low, high = after.get("interval") or (None, None)
            rows.append(
                {
                    **{key: one[key] for key in ("part", "config", "flows", "metric")},
                    "default": (one["default"] or {}).get("tau"),
                    "calibrated": after.get("tau"),
                    "calibrated_low": low,
                    "calibrated_high": high,
                }
            )
        return frame(LAYOUTS["calibration_tau"], rows)

    @property
    def claims(self) -> pd.DataFrame:
        """A row per published claim: under how many plausible settings it holds."""
        rows = [
            {
                "claim": one.id,
                "statement": one.statement,
                "part": one.part,
                "published_verdict": one.published,
                "default_verdict": one.default,
                "verdict": one.best,
                "holding": one.holding,
                "refuted": one.refuted,
                "settings": sum(one.counts.values()),
                "kind": one.kind,
            }
            for one in claims_under(self._record)
        ]
        return frame(LAYOUTS["calibration_claims"], rows)

    @property
    def influence(self) -> pd.DataFrame:
        """A row per unknown and metric: its total-order index."""
        rows = [
            {"unknown": name, "metric": metric, "index": row[name]}
            for metric, row in self._record.by_metric(self._record.data["influence"])
            for name in self._record.unknowns
        ]
        return frame(LAYOUTS["calibration_influence"], rows)


def _spread(found: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Give errors with the ends of their intervals, in columns of their own."""
    data: dict[str, Any] = {}
    for name in names:
        low, high = found[name]["interval"] or (None, None)
        data |= {name: found[name]["error"], f"{name}_low": low, f"{name}_high": high}
    return data
