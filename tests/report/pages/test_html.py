from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from html_sample import contents, every_text, figures, results_table

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.claims.judge import Verdict
from tcpf_lab.report.pages import html as html_report
from tcpf_lab.report.pages.html import VERDICTS, anchor, entry_attributes, render, verdict_order
from tcpf_lab.report.table import Column, Entry, Group

TEMPLATES = Path(html_report.__file__).parent / "templates"
HOSTILE = (
    "<script>window.stolen = 1</script>",
    '"><img src=x onerror="window.stolen = 1">',
    "' onmouseover='window.stolen = 1' x='",
    "</style></title></pre><script>window.stolen = 1</script>",
    "<svg onload=window.stolen=1>",
    "{{ 7 * 191 }}{% raw %}{# hidden #}",
    "javascript:window.stolen=1",
    "&lt;b&gt; &amp; --> ]]>",
    "${window.stolen = 1}`",
)
_VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """A page taken apart: every element with its attributes, all text, and whether tags match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute of {tag} stands there twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def having(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, attribute: str) -> list[str]:
        return [found for _, own in self.elements if (found := own.get(attribute)) is not None]


@pytest.fixture(scope="module")
def text() -> str:
    return render(contents(), figures())


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_everything_that_the_contents_say_is_on_the_page(page: Page) -> None:
    said: list[str] = []
    every_text(contents(), lambda text: said.append(text) or text, ("kind", "name", "alternative"))
    shown = "".join(page.texts) + "\n".join(page.values("data-tip"))
    shown += " ".join(filter(None, page.values("content")))
    assert [words for words in said if words not in shown] == []


def test_the_answer_and_its_table_come_first_and_the_appendix_last(text: str) -> None:
    ids = re.findall(r'<(?:section|figure)[^>]* id="([^"]+)"', text)
    parts = [one for one in ids if not one.startswith(("figure-fig", "figure-topology"))]
    assert parts[:2] == ["answer", "table-nearness"]
    order = ["part-results-a", "claims", "limitations", "setting", "validity", "reproduce"]
    assert [one for one in parts if one in order] == order


def test_the_same_contents_give_the_same_page(text: str) -> None:
    assert render(contents(), figures()) == text


def test_the_page_stands_alone(text: str, page: Page) -> None:
    assert "://" not in text
    assert not {"link", "img", "iframe", "base", "object", "embed"} & {t for t, _ in page.elements}
    assert page.values("src") == []
    assert all(target.startswith("#") for target in page.values("href"))


def test_the_policy_names_the_script_and_the_style_sheet_by_their_hashes(page: Page) -> None:
    (policy,) = (m["content"] for m in page.having("meta") if "http-equiv" in m)
    assert policy is not None
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for rule, name in (("script-src", "report.js"), ("style-src", "report.css")):
        digest = hashlib.sha256((TEMPLATES / name).read_bytes()).digest()
        assert rules[rule] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert page.values("style") == []
    assert not [name for _, own in page.elements for name in own if name.startswith("on")]


def test_links_lead_to_ids_and_ids_are_unique(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    links = [own["href"] for own in page.having("a")]
    assert {"#answer", "#part-results-a", "#claims", "#limitations"} <= set(links)
    for target in page.values("href") + [f"#{i}" for i in page.values("aria-labelledby")]:
        assert target.removeprefix("#") in ids


def test_runs_are_counted_not_their_groups(page: Page) -> None:
    counts = [text for text in page.texts if re.fullmatch(r"\d+ runs?", text)]
    assert counts == ["8 runs", "1 run"]


def test_an_entry_has_its_number_and_its_words() -> None:
    table = results_table()
    group = table.groups[0]
    frio = entry_attributes(table, group, group.rows[0], 1)
    assert frio["data-value"] == "182.7"
    assert frio["data-tip"] == (
        "TCPF+FRIO, 100 flows\ntimeouts: 182.7 ± 9.6 (95 % confidence interval)\n"
        "published: 41\n10 runs: 1, 2, 3"
    )
    missing = entry_attributes(table, group, group.rows[3], 1)
    assert missing["data-value"] is None
    assert missing["data-tip"] == "NoMark+FRED, 100 flows\ntimeouts: –\nno usable run"
    case = entry_attributes(table, group, group.rows[0], 0)
    assert case == {"scope": "row", "class": "short", "data-value": None, "data-tip": None}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), None])
def test_what_is_no_number_is_not_sorted_as_one(value: float | None) -> None:
    row = (Entry("x"), Entry("?", value))
    table = replace(results_table(), columns=(Column("a"), Column("b", "number")),
                    groups=(Group("", (row,)),))  # fmt: skip
    assert entry_attributes(table, table.groups[0], row, 1)["data-value"] is None


def test_verdicts_are_those_of_the_claims_in_the_order_of_sorting() -> None:
    assert set(VERDICTS) == {str(verdict) for verdict in Verdict}
    assert [verdict_order(word) for word in (*VERDICTS, "made up")] == [0, 1, 2, 3, 4, 5]


def test_an_anchor_is_letters_digits_and_dashes() -> None:
    assert anchor("Table 4.1 <b>", "table") == "table-table-4-1-b"


def with_before(every: str) -> Page:
    """Give the page of a report whose every text, names of figures too, begins like this."""
    pictures = {f"{every} {name}": picture for name, picture in figures().items()}
    return Page(render(every_text(contents(), lambda text: f"{every} {text}"), pictures))


def shape(page: Page) -> list[tuple[str, list[str]]]:
    """Give elements with the names of their attributes; long words have a class that short lack."""
    return [(tag, sorted(set(own) - {"class"})) for tag, own in page.elements]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_shown_and_does_nothing(hostile: str) -> None:
    found = with_before(hostile)
    assert shape(found) == shape(with_before("harmless"))
    shown = "".join(found.texts)
    assert f"{hostile} Does marking lower" in shown
    assert f"{hostile} TCPF+FRIO" in shown
    assert f"{hostile} tcpf-lab run configA.yaml" in shown
    assert "1337" not in shown, "a template was carried out"
    assert all(target.startswith("#") for target in found.values("href"))


def test_characters_that_hide_or_reverse_text_are_replaced() -> None:
    page = Page(render(replace(contents(), question="a\u202eb\x00c\ud800d"), figures()))
    assert "a\ufffdb\ufffdc\ufffdd" in page.texts


def test_a_missing_figure_is_an_error_that_names_it() -> None:
    with pytest.raises(LabError, match="no picture for fig-a, fig-b"):
        render(contents(), {"topology-1": figures()["topology-1"]})


def test_a_report_without_claims_says_nothing_of_claims() -> None:
    bare = replace(contents(), claims=replace(contents().claims, claims=()))
    assert 'id="claims"' not in render(bare, figures())
