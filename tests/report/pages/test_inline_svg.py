from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from html_sample import BARS

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.pages.html import Pictures

_SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def inlined(body: str, marks: tuple[str, ...] = ()) -> str:
    return str(Pictures().inline(f"{_SVG}>{body}</svg>", "A picture", marks))


def test_a_picture_keeps_its_drawing_and_loses_what_is_not_drawn() -> None:
    found = ElementTree.fromstring(Pictures().inline(BARS, "Bar chart"))
    assert [element.tag for element in found.iter()] == [
        *("svg", "g", "g", "path", "g", "path", "g", "path", "g", "path"),
        *("g", "defs", "path", "use", "defs", "clipPath", "rect", "pattern", "rect"),
    ]
    assert found.get("viewBox") == "0 0 200 100"
    assert (found.get("role"), found.get("aria-label")) == ("img", "Bar chart")


def test_styles_become_attributes_because_the_page_forbids_the_former() -> None:
    found = ElementTree.fromstring(Pictures().inline(BARS, "x"))
    first = next(found.iter("path"))
    assert (first.get("fill"), first.get("stroke")) == ("#0b2f66", "#111111")
    assert not [element for element in found.iter() if "style" in element.attrib]
    # what matplotlib's style sheet says of every element is handed down by the root
    assert (found.get("stroke-linejoin"), found.get("stroke-linecap")) == ("round", "butt")


def test_lengths_are_rounded_and_everything_else_is_not() -> None:
    found = inlined(
        '<path d="M 10.1234567 -0.5555 L 1e-7 3" transform="scale(0.0156250 -1)" '
        'opacity="0.12345"/>'
    )
    assert 'd="M 10.12 -0.56 L 1e-7 3"' in found
    assert 'transform="scale(0.0156250 -1)"' in found
    assert 'opacity="0.12345"' in found


def test_ids_of_several_pictures_do_not_collide_and_references_follow_them() -> None:
    pictures = Pictures()
    other = BARS.replace('width="9"', 'width="10"')
    page = str(pictures.inline(BARS, "one") + pictures.inline(other, "two"))
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids)) > 0
    referred = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', page)
    assert {one or two for one, two in referred} <= set(ids)
    assert "url(#p1-hatch)" in page
    assert "url(#p2-hatch)" in page, "another hatch is another pattern, even of the same name"


def test_what_pictures_define_alike_is_written_once() -> None:
    pictures = Pictures()
    pictures.inline(BARS, "one")
    again = str(pictures.inline(BARS.replace("hatch", "lines"), "two"))
    assert "<pattern" not in again
    assert "url(#p1-hatch)" in again
    assert 'href="#p1-glyph-31"' in again


def test_marks_become_tooltips() -> None:
    found = ElementTree.fromstring(Pictures().inline(BARS, "x", ("one: 1 ± 2", "two", "no such")))
    assert found.get("role") == "group", "an image would hide its parts from a screen reader"
    tips = [element.attrib for element in found.iter() if "data-tip" in element.attrib]
    assert [tip["data-tip"] for tip in tips] == ["one: 1 ± 2", "two"]
    assert all(tip["aria-label"] == tip["data-tip"] and tip["role"] == "img" for tip in tips)


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>steal()</script>",
        '<g onload="steal()" onclick="steal()"/>',
        '<a xlink:href="javascript:steal()"><path d="M 0 0"/></a>',
        "<foreignObject><body><script>steal()</script></body></foreignObject>",
        '<use xlink:href="https://evil.invalid/steal.svg#x"/>',
        '<use href="data:image/svg+xml,steal"/>',
        '<image href="https://evil.invalid/steal.png"/>',
        '<path fill="url(https://evil.invalid/steal)" d="M 0 0"/>',
        '<path style="fill: url(\'https://evil.invalid/steal\')" d="M 0 0"/>',
        '<path style="background: url(steal); behavior: url(steal)" d="M 0 0"/>',
        "<style>@import 'https://evil.invalid/steal'; * {background: url(steal)}</style>",
        '<animate attributeName="href" values="javascript:steal()"/>',
        '<set attributeName="onclick" to="steal()"/>',
        '<html:script xmlns:html="http://www.w3.org/1999/xhtml">steal()</html:script>',
        "<!-- &gt;<script>steal()</script> -->",
        '<?xml-stylesheet href="steal.css"?>',
    ],
)
def test_nothing_that_runs_loads_or_leads_elsewhere_gets_in(hostile: str) -> None:
    found = inlined(f"<g>{hostile}</g>")
    assert "steal" not in found
    assert "evil" not in found
    assert " on" not in found


def test_text_is_text() -> None:
    found = inlined('<text x="1">a &lt;script&gt; <tspan>&amp;amp; "b"</tspan> c</text>')
    assert "<text" in found
    assert "a &lt;script&gt; <tspan>&amp;amp; &#34;b&#34;</tspan> c</text>" in found


def test_quotes_in_attributes_stay_inside() -> None:
    found = inlined('<path d="M 0 0&quot; onload=&quot;steal()"/>')
    assert ElementTree.fromstring(found)[0].attrib == {"d": 'M 0 0" onload="steal()'}


@pytest.mark.parametrize(
    ("text", "said"),
    [("<svg><g></svg>", "not well-formed"), ("<html/>", "its root is 'html'"), ("", "no element")],
)
def test_what_is_no_picture_is_an_error(text: str, said: str) -> None:
    with pytest.raises(LabError, match=said) as caught:
        Pictures().inline(text, "Figure of timeouts")
    assert caught.value.where == "Figure of timeouts"
