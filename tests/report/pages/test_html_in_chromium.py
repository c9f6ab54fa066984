"""The page in a real browser: Debian's Chromium, headless, without a network to ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from chromium import Chromium
from html_sample import contents, every_text, figures
from test_html import HOSTILE

from tcpf_lab.report.pages.html import render

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        chromium.PROGRAM is None, reason="no chromium here (Debian package: chromium)"
    ),
]

#: The second column of a group's rows, as text and as what it is sorted by.
ROWS = """[...document.querySelectorAll("#table-table-a tbody")].map(body =>
    [...body.rows].slice(1).map(row => row.cells[0].textContent.trim()))"""
STATE = """document.querySelectorAll("#table-table-a thead th")[%d].getAttribute("aria-sort")"""
TIP = """(() => { const tip = document.getElementById("tip");
    return tip.hidden ? null : tip.textContent; })()"""
CASES = ["TCPF+FRIO", "TCPF+RIO", "TB+RIO", "NoMark+FRED", "NoMark+TailDrop", "NoMark+RED"]
TIMEOUTS = "#table-table-a thead th:nth-child(2) button"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    started = Chromium(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(render(contents(), figures()), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Chromium, path: Path) -> Iterator[chromium.Page]:
    opened = browser.open(path)
    opened.size(1280, 900)
    yield opened
    assert opened.complaints() == [], "something is on the console"
    assert opened.requests() == [path.as_uri()], "something was asked for besides the page"
    opened.close()


def test_the_page_loads_without_a_word_on_the_console(page: chromium.Page) -> None:
    assert page.do("document.title") == "Configuration A"
    assert page.do("document.compatMode") == "CSS1Compat"
    assert page.do("document.querySelectorAll('th button').length") == 2 + 2 + 3 + 4


def test_the_console_is_really_watched(browser: Chromium, tmp_path: Path) -> None:
    file = tmp_path / "wrong.html"
    file.write_text("<script>console.log('hello'); undefined.x</script><img src='gone.png'>")
    page = browser.open(file)
    assert len(page.complaints()) >= 2
    assert [address.rpartition("/")[2] for address in page.requests()] == ["wrong.html", "gone.png"]
    page.close()


def test_the_policy_is_in_force(browser: Chromium, path: Path, tmp_path: Path) -> None:
    """Even a script that got past the escaping would not run, and nothing would be loaded."""
    file = tmp_path / "injected.html"
    injected = (
        "<script>window.stolen = 1</script><img src='x.png' onerror='window.stolen = 1'>"
        "<p id='styled' style='color: red'>x</p><link rel=stylesheet href='x.css'></body>"
    )
    file.write_text(path.read_text().replace("</body>", injected))
    page = browser.open(file)
    assert page.do("window.stolen") is None
    assert page.do("getComputedStyle(document.getElementById('styled')).color") != "rgb(255, 0, 0)"
    blocked = [entry["entry"]["text"] for entry in page.events("Log.entryAdded")]
    assert sum("Content Security Policy" in text for text in blocked) >= 4
    page.close()


def test_clicks_sort_numbers_up_down_and_back_each_group_by_itself(page: chromium.Page) -> None:
    upwards = ["TB+RIO", "TCPF+FRIO", "TCPF+RIO", "NoMark+TailDrop", "NoMark+RED", "NoMark+FRED"]
    downwards = ["NoMark+RED", "TCPF+RIO", "NoMark+TailDrop", "TCPF+FRIO", "TB+RIO", "NoMark+FRED"]
    # equal numbers keep the order of the report, which is reversed in the second group
    swapped = {"TCPF+RIO": "NoMark+TailDrop", "NoMark+TailDrop": "TCPF+RIO"}
    assert page.do(ROWS) == [CASES, CASES[::-1]]
    for state, order in (("ascending", upwards), ("descending", downwards)):
        page.click(TIMEOUTS)
        assert page.do(STATE % 1) == state
        assert page.do(STATE % 0) == "none"
        assert page.do(ROWS) == [order, [swapped.get(case, case) for case in order]]
    page.click(TIMEOUTS)
    assert page.do(STATE % 1) == "none"
    assert page.do(ROWS) == [CASES, CASES[::-1]]


def test_words_are_sorted_as_words_and_another_column_starts_anew(page: chromium.Page) -> None:
    page.click(TIMEOUTS)
    page.click("#table-table-a thead th:nth-child(1) button")
    assert (page.do(STATE % 0), page.do(STATE % 1)) == ("ascending", "none")
    assert page.do(ROWS) == [sorted(CASES, key=str.lower)] * 2


def test_groups_keep_their_heading_first(page: chromium.Page) -> None:
    page.click(TIMEOUTS)
    first = "[...document.querySelectorAll('#table-table-a tbody')].map(body => body.rows[0]%s)"
    assert page.do(first % ".textContent.trim()") == ["100 flows", "50 flows"]


@pytest.mark.parametrize("key", ["Enter", " "])
def test_the_keyboard_sorts_too_and_the_order_is_spoken(page: chromium.Page, key: str) -> None:
    page.do(f"document.querySelector({TIMEOUTS!r}).focus()")
    page.press(key)
    assert page.do(STATE % 1) == "ascending"
    assert (
        page.do("document.getElementById('spoken').textContent") == "sorted by timeouts, ascending"
    )
    page.press(key)
    page.press(key)
    assert page.do("document.getElementById('spoken').textContent") == "the order of the report"
    assert page.do("document.activeElement.firstElementChild.textContent.trim()") == "timeouts"


def test_claims_are_sorted_by_their_verdicts(page: chromium.Page) -> None:
    page.click(".claims thead th:nth-child(4) button")
    cells = "document.querySelectorAll('.claims > tbody > tr > td:last-child .verdict')"
    assert page.do(f"[...{cells}].map(cell => cell.textContent)") == [
        "holds",
        "within noise",
        "refuted",
        "not decidable",
    ]


def test_pointing_at_a_bar_or_an_entry_says_its_numbers(page: chromium.Page) -> None:
    page.point("#figure-fig-a g[data-tip]")
    assert page.do(TIP) == "TCPF+FRIO\n182.7 ± 9.6, n = 10"
    page.point("#table-table-a td")
    assert page.do(TIP).startswith("TCPF+FRIO, 100 flows\ntimeouts: 182.7 ± 9.6 (95 %")
    page.point("h1")
    assert page.do(TIP) is None


def test_a_tooltip_stays_inside_the_window(page: chromium.Page) -> None:
    page.size(390, 800)
    for selector in (
        "#table-table-a td",
        "#figure-fig-a g[data-tip]",
        TIMEOUTS,
    ):
        page.point(selector)
        left, top, right, bottom = page.do(
            "(() => { const b = document.getElementById('tip').getBoundingClientRect();"
            "return [b.left, b.top, b.right, b.bottom]; })()"
        )
        assert 0 <= left < right <= 390
        assert 0 <= top < bottom <= 800


def test_the_keyboard_reaches_every_tooltip_with_one_stop_per_table_or_figure(
    page: chromium.Page,
) -> None:
    page.do("document.querySelector('#table-table-a thead th:nth-child(3) button').focus()")
    page.press("Tab")
    assert page.do(TIP).startswith("TCPF+FRIO, 100 flows\ntimeouts")
    assert page.do("document.activeElement.getAttribute('aria-describedby')") == "tip"
    page.press("ArrowRight")
    assert page.do(TIP) == "TCPF+FRIO, 100 flows\nruns: 10/10"
    page.press("ArrowDown")
    page.press("ArrowLeft")
    assert page.do(TIP).startswith("TCPF+RIO, 100 flows\ntimeouts")
    page.press("ArrowUp")
    page.press("ArrowUp")
    assert page.do(TIP).startswith("TCPF+FRIO, 100 flows\ntimeouts"), "there is nothing above it"
    page.press("Escape")
    assert page.do(TIP) is None
    page.press("Tab")
    assert page.do(TIP) == "TCPF+FRIO\n182.7 ± 9.6, n = 10"
    page.press("ArrowRight")
    assert page.do(TIP) == "NoMark+RED\n1628 ± 26"
    page.press("Tab")
    assert page.do(TIP) == "a", "the next figure"
    assert page.do("document.querySelectorAll('[aria-describedby=tip]').length") == 1


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_width_makes_the_page_scroll_sideways(page: chromium.Page, width: int) -> None:
    page.size(width, 800)
    assert page.do("document.documentElement.scrollWidth") <= width


def test_dark_is_dark_and_its_text_can_be_read(browser: Chromium, path: Path) -> None:
    for scheme, dark in (("light", False), ("dark", True)):
        page = browser.open(path, prefers_color_scheme=scheme)
        pairs = [("body", "body"), (".note", "body"), (".conditions", "body"), ("nav a", "body"),
                 (".holds", "body"), (".refuted", "body"), (".within-noise", "body"),
                 (".not-decidable", "body"), ("thead th", "thead th"), (".group th", "body"),
                 (".half", "body"), ("#answer p", "#answer"), ("pre", "pre")]  # fmt: skip
        for text, ground in pairs:
            ink = _luminance(page.do(_colour(text, "color")))
            paper = _luminance(page.do(_colour(ground, "backgroundColor")))
            assert (paper < ink) is dark, text
            contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
            assert contrast >= 4.5, f"{text} in {scheme}"
        page.close()


def test_paper_gets_no_navigation_and_every_check_of_every_claim(page: chromium.Page) -> None:
    page.ask("Emulation.setEmulatedMedia", media="print")
    assert page.do("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.do("document.querySelector('.checks').getBoundingClientRect().height") > 0
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_report_runs_nothing(browser: Chromium, tmp_path: Path, hostile: str) -> None:
    def spoil(words: str) -> str:
        return f"{hostile} {words}"

    file = tmp_path / "hostile.html"
    pictures = {spoil(name): picture for name, picture in figures().items()}
    file.write_text(render(every_text(contents(), spoil), pictures), encoding="utf-8")
    page = browser.open(file)
    for selector in ("td[data-tip]", "thead button", "g[data-tip]", "nav a", "summary"):
        page.point(selector)
        page.click(selector)
    assert page.do("window.stolen") is None
    assert page.do("document.querySelectorAll('script').length") == 1
    assert page.do("document.querySelector('.question').textContent").startswith(hostile)
    assert (page.complaints(), page.dialogs()) == ([], [])
    assert set(page.requests()) == {file.as_uri()}
    page.close()


def _colour(selector: str, what: str) -> str:
    return (
        f"getComputedStyle(document.querySelector({selector!r})).{what}"
        ".match(/[\\d.]+/g).map(Number)"
    )


def _luminance(colour: list[float]) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in colour[:3])
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
