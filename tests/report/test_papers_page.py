"""Claims of pages on disk in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.papers.index import DOCUMENT as DOCUMENTATION
from tcpf_lab.papers.index import KEPT, claims_below, fill, main
from tcpf_lab.papers.kept import as_text
from tcpf_lab.report.claims.judge import Measured, PaperCheck, PaperClaim, Source
from tcpf_lab.report.claims.page import Claims, Page, Text, markdown

DOCUMENT = "# Papers\n\n<!-- claims ef -->\n\nNo runs yet.\n\n<!-- end of claims -->\n\nText.\n"


SOURCES = Path(tcpf_lab.__file__).parent.parent


def page(kept: Path, experiment: str, holding: int, name: str = "ef") -> str:
    """Keep a page on which so many claims hold; give what it says of them."""
    check = PaperCheck("loss", Measured((1.0, 1.0, 1.0)))
    claims = tuple(
        PaperClaim(f"{name}-{n}", (Source("001", "1", "It is so."),), "", (check,))
        for n in range(holding)
    )
    made = Page(name, "P", (Claims(claims), Text("Rest")))
    path = kept / experiment / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(made))
    return markdown(made).partition(" -->\n\n")[2].partition("\n\n<!--")[0]


def test_a_block_becomes_what_the_page_says_and_again(tmp_path: Path) -> None:
    said = page(tmp_path, "ef", 2)
    assert said.startswith("Of 2 claims: 2 hold.")
    filled = fill(DOCUMENT, claims_below(tmp_path))
    assert filled == DOCUMENT.replace("No runs yet.", said)
    assert fill(filled, claims_below(tmp_path)) == filled


def test_pages_of_one_name_stand_under_their_experiments(tmp_path: Path) -> None:
    one, two = page(tmp_path, "full", 1, "buffers"), page(tmp_path, "tenth", 2, "buffers")
    said = claims_below(tmp_path)
    assert said == {"buffers": f"#### `full`\n\n{one}\n\n#### `tenth`\n\n{two}"}
    assert fill(DOCUMENT, said) == DOCUMENT


def test_without_a_page_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RequestError, match="no page with claims"):
        claims_below(tmp_path)
    document = tmp_path / "papers.md"
    document.write_text(DOCUMENT)
    assert main([str(tmp_path / "empty"), str(document)]) == 1
    assert "no page with claims" in capsys.readouterr().err
    assert document.read_text() == DOCUMENT


def test_the_document_is_filled_where_it_is(tmp_path: Path) -> None:
    page(tmp_path / "results", "ef", 3)
    document = tmp_path / "papers.md"
    document.write_text(DOCUMENT)
    assert main([str(tmp_path / "results"), str(document)]) == 0
    assert "Of 3 claims: 3 hold." in document.read_text()
    assert main(["a", "b", "c"]) == 2


def test_the_documentation_quotes_the_pages_that_are_kept() -> None:
    text = (SOURCES / DOCUMENTATION).read_text()
    kept = claims_below(SOURCES / KEPT)
    assert len(kept) > 5
    assert all(f"<!-- claims {name} -->" in text for name in kept)
    assert fill(text, kept) == text, "python -m tcpf_lab.papers.index"
