"""Claims of pages on disk in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpf_lab
from tcpf_lab.base.errors import RequestError
from tcpf_lab.papers.index import DOCUMENT as DOCUMENTATION
from tcpf_lab.papers.index import KEPT, claims_below, fill, main

DOCUMENT = "# Papers\n\n<!-- claims ef -->\n\nNo runs yet.\n\n<!-- end of claims -->\n\nText.\n"


SOURCES = Path(tcpf_lab.__file__).parent.parent


def page(kept: Path, experiment: str, said: str, name: str = "ef") -> None:
    path = kept / experiment / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# P\n\n<!-- claims {name} -->\n\n{said}\n\n<!-- end of claims -->\n\nRest\n")


def test_a_block_becomes_what_the_page_says_and_again(tmp_path: Path) -> None:
    page(tmp_path, "ef", "Of 2 claims: 2 hold.")
    filled = fill(DOCUMENT, claims_below(tmp_path))
    assert filled == DOCUMENT.replace("No runs yet.", "Of 2 claims: 2 hold.")
    assert fill(filled, claims_below(tmp_path)) == filled


def test_pages_of_one_name_stand_under_their_experiments(tmp_path: Path) -> None:
    page(tmp_path, "full", "One.", "buffers")
    page(tmp_path, "tenth", "Two.", "buffers")
    said = claims_below(tmp_path)
    assert said == {"buffers": "#### `full`\n\nOne.\n\n#### `tenth`\n\nTwo."}
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
    page(tmp_path / "results", "ef", "It holds.")
    document = tmp_path / "papers.md"
    document.write_text(DOCUMENT)
    assert main([str(tmp_path / "results"), str(document)]) == 0
    assert "It holds." in document.read_text()
    assert main(["a", "b", "c"]) == 2


def test_the_documentation_quotes_the_pages_that_are_kept() -> None:
    text = (SOURCES / DOCUMENTATION).read_text()
    kept = claims_below(SOURCES / KEPT)
    assert len(kept) > 5
    assert all(f"<!-- claims {name} -->" in text for name in kept)
    assert fill(text, kept) == text, "python -m tcpf_lab.papers.index"
