"""A report as a PDF and as a page: layout, and escaping of whatever is put into it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tcpf_lab.report.contents.model import Contents, Figures


def rendered(
    contents: Contents, figures: Figures, formats: Collection[str]
) -> Iterator[tuple[str, str | bytes]]:
    """Yield a report to read as HTML and PDF, if asked for, by the suffix of its file."""
    if "html" in formats:
        from tcpf_lab.report.pages.html import render

        yield "html", render(contents, figures)
    if "pdf" in formats:
        from tcpf_lab.report.pages.pdf import typeset

        yield "pdf", typeset(contents, figures)
