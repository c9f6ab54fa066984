"""Contents of a report that a test makes up: small, with everything in it, harmless or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tcpf_lab.report.contents.model import (
    CheckRow,
    Claim,
    Contents,
    Fact,
    Figure,
    LeftOut,
    Limitation,
    Part,
    Reproduce,
    Validity,
    Verdicts,
)
from tcpf_lab.report.table import Column, Entry, Group, Table

T = TypeVar("T")

#: A picture with two marks, a hatch and letters, as matplotlib writes them.
BARS = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="200pt" height="100pt"
  viewBox="0 0 200 100" xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><format>image/svg+xml</format></metadata>
 <defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>
 <g id="figure_1">
  <g id="bar_1"><path d="M 10.1234567 90 L 60 90 L 60 20 z" clip-path="url(#clip)"
    style="fill: #0b2f66; stroke: #111111"/></g>
  <g id="bar_2"><path d="M 80 90 L 130 90 L 130 50 z" style="fill: url(#hatch)"/></g>
  <g id="mark-0"><path d="M 10 90 L 60 90 L 60 0 L 10 0 z" style="fill: none"/></g>
  <g id="mark-1"><path d="M 80 90 L 130 90 L 130 0 L 80 0 z" style="fill: none"/></g>
  <g id="text_1"><!-- 100 flows --><defs><path id="glyph-31" d="M 1 1 L 2 2 z"/></defs>
   <use xlink:href="#glyph-31" transform="translate(20 20)"/></g>
 </g>
 <defs><clipPath id="clip"><rect x="0" y="0" width="200" height="100"/></clipPath>
  <pattern id="hatch" patternUnits="userSpaceOnUse" width="9" height="9"><rect width="4"
    height="4" fill="#d2702f"/></pattern></defs>
</svg>"""

_ESTIMATES = [
    # case, mean, half, published
    ("TCPF+FRIO", 182.7, "9.6", "41"),
    ("TCPF+RIO", 797.0, "12", "120"),
    ("TB+RIO", 9.5, "<0.1", ""),
    ("NoMark+FRED", None, "", ""),
    ("NoMark+TailDrop", 797.0, "25", "1140"),
    ("NoMark+RED", 1628.0, "26", "1322"),
]


def _row(case: str, mean: float | None, half: str, published: str) -> tuple[Entry, ...]:
    note = "no usable run" if mean is None else "10 runs: 1, 2, 3"
    text = "–" if mean is None else f"{mean:g}"
    return Entry(case), Entry(text, mean, half, published, note), Entry("10/10", 10)


def results_table() -> Table:
    """Give a table with equal numbers, a number missing, and two groups."""
    rows = tuple(_row(*row) for row in _ESTIMATES)
    return Table(
        name="table-a",
        label="Table 2",
        caption="Configuration A.",
        columns=(
            Column("case"),
            Column("timeouts", "estimate", "", "Expiries of the retransmission timer."),
            Column("runs", "number"),
        ),
        groups=(Group("100 flows", rows), Group("50 flows", tuple(reversed(rows)))),
        note="Mean over the runs used.",
    )


def contents() -> Contents:
    """Give a report with every kind of thing that a report can have."""
    finding = CheckRow("timeouts, A, 100", "above 2", "32", "holds", "8.9", "8.4 to 9.5", "holds")
    other = replace(finding, ours="1.9", interval="", ours_verdict="within noise", note="3 seeds")
    words = ("holds", "refuted", "within noise", "not decidable")
    sentence = ("It has fewer timeouts.",)
    claims = tuple(
        Claim(f"claim-{word.replace(' ', '-')}", f"thesis, section 4.{place}", sentence,
              "The ratio is above 2.", "holds", "2 of 2", word, "1 of 2", finding,
              (finding, other))
        for place, word in enumerate(words)
    )  # fmt: skip
    parameters = (Group("", ((Entry("tcp.sack"), Entry("yes")),)),)
    return Contents(
        title="Configuration A",
        subtitle="60 s, 10 Mbit/s, 200 ms",
        question="Does marking lower the number of timeouts?",
        answer=("Yes, from 1628 to 182.7.", "All 120 runs are valid."),
        topologies=(Figure("topology-1", "The path.", "Five machines in a row", label="Figure 1"),),
        parameters=(Table("parameters", "Parameters.",
                          (Column("parameter"), Column("value")), parameters, label="Table 1"),),
        results=(Part("results-a", "Results", ("Every run: 60 s.",), (results_table(),),
                      (Figure("fig-a", "Timeouts.", "Bar chart",
                              ("TCPF+FRIO\n182.7 ± 9.6, n = 10", "NoMark+RED\n1628 ± 26"),
                              label="Figure 2"),
                       Figure("fig-b", "Loss.", "Bar chart", ("a", "b"), label="Figure 3"))),),
        claims=Verdicts(("Of 4 claims 1 holds.",), claims),
        validity=Validity(("All runs passed.",), (), (
            LeftOut("a, seeds 3 to 9", 7, "invalid", "the queue", False),
            LeftOut("b, seed 1", 1, "missing", "", False),
            LeftOut("a, seed 2", 1, "invalid", "", True))),
        reproduce=Reproduce((("tcpf-lab run configA.yaml",), ("tcpf-lab report configA.yaml",)),
                            (Fact("modules", ("sch_frio 6fe7", "sch_rio 8a2b"), True),)),
        limitations=(Limitation("Virtual clock", "Nothing here says what a packet costs."),),
        program="tcpf-lab 0.1.0",
        keywords=("TCP", "queues"),
        verdict="Partly",
        front=Part("front", "", (),
                   (Table("nearness", "How near.", (Column("measure"), Column("A")),
                          (Group("", ((Entry("rms ln"), Entry("0.41")),)),),
                          label="Table 3"),)),
    )  # fmt: skip


def figures() -> dict[str, str]:
    return {"topology-1": BARS, "fig-a": BARS, "fig-b": BARS}


def every_text(thing: T, change: Callable[[str], str], keep: tuple[str, ...] = ("kind",)) -> T:
    """Change every text of the contents but those of fields to keep."""
    if isinstance(thing, str):
        return change(thing)  # type: ignore[return-value]
    if isinstance(thing, tuple):
        return tuple(every_text(each, change, keep) for each in thing)  # type: ignore[return-value]
    if is_dataclass(thing) and not isinstance(thing, type):
        changed: dict[str, Any] = {
            field.name: every_text(getattr(thing, field.name), change, keep)
            for field in fields(thing)
            if field.name not in keep
        }
        return replace(thing, **changed)
    return thing
