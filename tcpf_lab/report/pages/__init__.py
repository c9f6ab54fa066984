"""A report as a PDF and as a page: layout, and escaping of whatever is put into it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tcpf_lab.report.contents.model import Contents, Figures, split


def rendered(
    contents: Contents, figures: Figures, formats: Collection[str]
) -> Iterator[tuple[str, str | bytes]]:
    """Yield a report as HTML and PDF, if requested, by the suffix of its file.

    The appendix of a long report is a PDF of its own, ``report.appendix.pdf``.
    """
    if "html" in formats:
        from tcpf_lab.report.pages.html import render

        yield "html", render(contents, figures)
    if "pdf" in formats:
        from tcpf_lab.report.pages.pdf import typeset

        contents.need(figures)
        main, appendix = split(contents)
        if appendix is not None:
            yield "appendix.pdf", typeset(appendix, figures)
        yield "pdf", typeset(main, figures)
