"""The files of the RIO model: its figures, and the page with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.report.model.figures import CURVES
from tcpf_lab.report.model.page import page
from tcpf_lab.report.papers.page import drawn, markdown
from tcpf_lab.report.section import SUFFIXES, Document


def figure_documents(directory: Path) -> Iterator[Document]:
    """Yield every figure in every format, for a directory."""
    from tcpf_lab.report.plots.canvas import render
    from tcpf_lab.report.style import house_style

    for curve in CURVES:
        with house_style():
            files = render(curve.build(), SUFFIXES)
        for suffix, content in files.items():
            yield directory / f"{curve.name}.{suffix}", content


def page_documents(path: Path) -> Iterator[Document]:
    """Yield the page as Markdown, and its figures as PNG in ``figures`` beside it."""
    whole = page()
    yield path, markdown(whole)
    for drawing in whole.drawings:
        for suffix, content in drawn(drawing, ("png",)).items():
            yield path.parent / "figures" / f"{drawing.name}.{suffix}", content
