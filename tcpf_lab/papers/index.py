"""Put the claims of the pages that are kept into ``docs/papers.md``.

``python -m tcpf_lab.papers.index [REFERENCE [DOCUMENT]]``; the pages are those that
``tcpf-lab report NAME.yaml --reference REFERENCE/NAME`` has written.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tcpf_lab.base.errors import LabError, RequestError
from tcpf_lab.papers.kept import is_kept, read_page
from tcpf_lab.report.claims.page import BEGIN, END, markdown
from tcpf_lab.results.command import command
from tcpf_lab.results.layout import write_text

#: Where pages are kept, and the document that quotes them, from the root of the sources.
KEPT = Path("results/reference")
DOCUMENT = Path("docs/papers.md")
_MARKED = re.compile(rf"{BEGIN.format(name='(?P<name>[a-z0-9-]+)')}\n(?P<said>.*?){END}", re.DOTALL)


def fill(document: str, pages: dict[str, str]) -> str:
    """Replace the marked blocks of a document by those of pages.

    Parameters
    ----------
    document : str
        Markdown with blocks between ``<!-- claims NAME -->`` and ``<!-- end of claims -->``.
    pages : dict of str to str
        What stands between the marks, by the pages' names; blocks of others stay as they are.
    """

    def found(match: re.Match[str]) -> str:
        said = pages.get(match["name"])
        return match[0] if said is None else _block(match["name"], said)

    return _MARKED.sub(found, document)


def claims_below(kept: Path) -> dict[str, str]:
    """Give the marked blocks of all pages in ``kept/<experiment>/``, by the pages' names.

    Where several experiments have a page of one name, each is quoted under its experiment's.

    Raises
    ------
    RequestError
        If there is none.
    """
    blocks: dict[str, dict[str, str]] = {}
    for path in filter(is_kept, sorted(kept.glob("*/*.json"))):
        for match in _MARKED.finditer(markdown(read_page(path))):
            experiment = path.parent.name
            blocks.setdefault(match["name"], {})[experiment] = match["said"].strip("\n")
    if not blocks:
        raise RequestError(
            "no page with claims",
            where=str(kept),
            hint=f"`{command('report', 'ef.yaml', '--reference', kept / 'ef')}` writes one",
        )
    return {name: _together(found) for name, found in blocks.items()}


def _together(found: dict[str, str]) -> str:
    if len(found) == 1:
        return next(iter(found.values()))
    return "\n\n".join(f"#### `{experiment}`\n\n{said}" for experiment, said in found.items())


def _block(name: str, said: str) -> str:
    return f"{BEGIN.format(name=name)}\n\n{said}\n\n{END}"


def main(words: list[str]) -> int:
    """Fill the document; an error goes to standard error as a sentence."""
    if len(words) > 2:
        sys.stderr.write("usage: python -m tcpf_lab.papers.index [REFERENCE [DOCUMENT]]\n")
        return 2
    kept, document = (*map(Path, words), *(KEPT, DOCUMENT)[len(words) :])
    try:
        pages = claims_below(kept)
        if not document.is_file():
            raise RequestError("no such document", where=str(document))
    except LabError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    write_text(document, fill(document.read_text(encoding="utf-8"), pages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
