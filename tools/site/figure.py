"""Draw the README's figure from the stored means: ``python -m tools.site.figure``."""

from __future__ import annotations

import csv
import io

from matplotlib.figure import Figure
from PIL import Image

from tcpf_lab.report.style import case_styles, house_style
from tools.site.paths import ROOT

TABLE = ROOT / "results" / "reference" / "configA" / "table.csv"
FIGURE = ROOT / "docs" / "figures" / "configA-timeouts.png"


def draw() -> Figure:
    """Draw the timeouts of configuration A with 100 flows, measured beside published."""
    rows = [row for row in csv.DictReader(TABLE.open(encoding="utf-8")) if row["flows"] == "100"]
    cases = [row["case"] for row in rows]
    styles = case_styles(cases)
    measured, interval, published = (
        [float(row[f"timeouts_{what}"]) for row in rows] for what in ("mean", "ci95", "published")
    )
    figure = Figure(figsize=(4.8, 2.5), layout="constrained")
    axes = figure.subplots()
    axes.barh(
        cases,
        measured,
        xerr=interval,
        color=[styles[case].colour for case in cases],
        edgecolor="#111111",
        linewidth=0.6,
        label="mean of 10 runs, 95 %",
        height=0.7,
    )
    axes.plot(published, cases, "D", mfc="white", mec="#111111", label="(published)")
    for case, value, other in zip(cases, measured, published, strict=True):
        axes.annotate(
            f"{value:.0f} ({other:.0f})",
            (max(value, other), case),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
        )
    axes.invert_yaxis()
    axes.set_xlim(0, 1900)
    axes.set_xlabel("timeouts in 60 s, configuration A, 100 flows")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    return figure


def main() -> None:
    """Write the figure, with a palette of 32 colours."""
    drawn = io.BytesIO()
    with house_style():
        draw().savefig(drawn, format="png", dpi=120)
    Image.open(drawn).convert("RGB").quantize(32).save(FIGURE, optimize=True)


if __name__ == "__main__":
    main()
