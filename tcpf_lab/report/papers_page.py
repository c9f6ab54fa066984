"""Put the claims of pages found below a results directory into ``docs/papers.md``.

``python -m tcpf_lab.report.papers_page RESULTS [DOCUMENT]``
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tcpf_lab.errors import LabError, RequestError
from tcpf_lab.report.papers.page import BEGIN, END
from tcpf_lab.results import write_text

#: The document that quotes pages, from the root of the sources.
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


def claims_below(results: Path) -> dict[str, str]:
    """Give the marked blocks of all pages below a results directory, by the pages' names.

    Where several reports have a page of one name, each is quoted under the name of its experiment.

    Raises
    ------
    RequestError
        If there is none.
    """
    blocks: dict[str, dict[str, str]] = {}
    for path in sorted(results.glob("*/*/*.md")):
        for match in _MARKED.finditer(path.read_text(encoding="utf-8")):
            experiment = path.parent.parent.name
            blocks.setdefault(match["name"], {})[experiment] = match["said"].strip("\n")
    if not blocks:
        raise RequestError(
            "no page with claims",
            where=str(results),
            hint="`tcpf-lab report ef.yaml` writes one",
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
    if len(words) not in (1, 2):
        sys.stderr.write("usage: python -m tcpf_lab.report.papers_page RESULTS [DOCUMENT]\n")
        return 2
    document = Path(words[1]) if len(words) == 2 else DOCUMENT
    try:
        pages = claims_below(Path(words[0]))
        if not document.is_file():
            raise RequestError("no such document", where=str(document))
    except LabError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    write_text(document, fill(document.read_text(encoding="utf-8"), pages))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
