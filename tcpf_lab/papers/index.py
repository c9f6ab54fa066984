"""Write ``docs/reference/claims.md``: every claim, its thresholds and its verdict.

``python -m tcpf_lab.papers.index [REFERENCE [DOCUMENT]]`` reads the pages that
``tcpf-lab report NAME.yaml --reference REFERENCE/NAME`` has written.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.papers.stored import is_stored, read_page
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.report.claims.judge import Check, Claim, Verdict, judge
from tcpf_lab.report.claims.page import BEGIN, END, markdown
from tcpf_lab.report.compare.statistics import Sample, published_sample
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import write_text

#: Where the pages are, and the document, from the root of the sources.
REFERENCE = Path("results/reference")
DOCUMENT = Path("docs/reference/claims.md")
_MARKED = re.compile(rf"{BEGIN.format(name='[a-z0-9-]+')}\n\n(?P<table>.*?)\n\n{END}", re.DOTALL)
_HEAD = """\
# Claims

Written by `python -m tcpf_lab.papers.index`. [papers.md](../papers.md#claims) has the rules.\
"""
_PUBLISHED = """\
## The thesis and Lo Monaco et al.

Verdicts on the published tables; `tcpf-lab compare chapter4.yaml` prints those on your runs.
Sources: `thesis` is its chapter 4, `paper` is Lo Monaco et al., `tables` is what the tables show
without a sentence on it. RED, FRED and tail drop are NoMark+RED, NoMark+FRED and NoMark+TailDrop.

| claim | sentence | what must be true | published tables |
|---|---|---|---|\
"""


def document(reference: Path) -> str:
    """Give the document: claims of the stored pages, then those on the published tables.

    Raises
    ------
    RequestError
        If no page below ``reference/<experiment>/`` has claims.
    """
    pages: dict[tuple[str, str], list[str]] = {}
    for path in filter(is_stored, sorted(reference.glob("*/*.json"))):
        page = read_page(path)
        for match in _MARKED.finditer(markdown(page)):
            pages.setdefault((page.title, match["table"]), []).append(path.parent.name)
    if not pages:
        raise RequestError(
            "no page with claims",
            where=str(reference),
            hint=f"`{command('report', 'ef.yaml', '--reference', reference / 'ef')}` writes one",
        )
    parts = [_HEAD]
    for (title, table), experiments in pages.items():
        named = " and ".join(f"`{one}`" for one in experiments)
        parts += [f"## {title}: {named}", table]
    return "\n\n".join([*parts, "\n".join([_PUBLISHED, *_published_rows()])]) + "\n"


def _published_rows() -> Iterator[str]:
    published, nothing = published_sample(), Sample({}, {})
    for claim in CLAIMS:
        result = judge(claim, published, nothing).published
        mark = "**" * (result.verdict is Verdict.REFUTED)
        yield f"{_row(claim)} | {mark}{result.verdict}{mark}, {result} |"


def _row(claim: Claim[Check]) -> str:
    sources = "; ".join(f"{s.sentence} ({s.document} {s.section})" for s in claim.sources)
    return f"| `{claim.id}` | {sources} | {claim.statement}"


def main(words: list[str]) -> int:
    """Write the document; an error is one line on standard error."""
    if len(words) > 2:
        sys.stderr.write("usage: python -m tcpf_lab.papers.index [REFERENCE [DOCUMENT]]\n")
        return 2
    reference, target = (*map(Path, words), *(REFERENCE, DOCUMENT)[len(words) :])
    try:
        text = document(reference)
    except LabError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    write_text(target, text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
