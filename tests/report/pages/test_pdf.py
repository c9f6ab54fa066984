"""The PDF: what a text of unknown origin can do there (nothing), and that it is always the same."""

from __future__ import annotations

import json
import math
import re
import struct
import subprocess
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
import typst
from html_sample import BARS, contents, every_text, figures
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2 import TemplateError
from markupsafe import Markup
from matplotlib.font_manager import fontManager

from tcpf_lab.base.errors import LabError
from tcpf_lab.report.contents.model import Contents, split
from tcpf_lab.report.pages import pdf as glyphs
from tcpf_lab.report.pages import pdf as module
from tcpf_lab.report.pages.html import REPLACEMENT, printable
from tcpf_lab.report.pages.pdf import _fonts, compiled, literal, page_images, source, typeset
from tcpf_lab.report.table import Column, Entry, Group

TEMPLATE = Path(module.__file__).parent / "templates" / "report.typ.j2"
HOSTILE = (
    '#read("/etc/passwd")',
    '"); #read("../../../../etc/passwd") #("',
    '\\"#panic("in")',
    '#import "@preview/cetz:0.3.0"',
    '#image("/etc/hostname")',
    "{{ 7 * 191 }}{% raw %}{# hidden #}",
    "$ frac(1, 0) $ *bold* _slanted_ `raw` @reference <label> = heading",
    "// comment /* begins",
    "] } ) \\ ~ --- ...",
    "../../../../etc/passwd",
    "line\nbreak\r\ttab",
    "\u202egnirts desrever\u202c",
    "x" * 300,
)


def query(text: str, selector: str) -> list[dict[str, object]]:
    """Give what the compiler makes of a source, with nothing but the pictures to read."""
    found = typst.query(
        text.encode(), selector, ignore_system_fonts=True, sys_inputs=figures(), format="json"
    )
    return list(json.loads(found))


def plain(body: object) -> str:
    """Give the text of a piece of content."""
    if isinstance(body, dict):
        if body.get("func") == "space":
            return " "
        return str(body.get("text", "")) + plain([v for k, v in body.items() if k != "text"])
    return "".join(map(plain, body)) if isinstance(body, list) else ""


def decoded(text: str) -> str:
    """Give back what a literal was made of."""
    return re.sub(r"\\u\{([0-9a-f]+)\}", lambda found: chr(int(found[1], 16)), text[1:-1])


@settings(max_examples=40)
@given(st.text())
def test_a_literal_holds_letters_digits_spaces_and_escapes_only(text: str) -> None:
    made = literal(text)
    assert re.fullmatch(r'"(?:[A-Za-z0-9 ]|\\u\{[0-9a-f]{1,6}\})*"', made)
    assert decoded(made) == printable(text)


@settings(max_examples=10, deadline=None)
@given(st.text(min_size=1, max_size=60))
def test_the_compiler_reads_the_same_text_back(text: str) -> None:
    found = json.loads(typst.eval(b"", literal(text), ignore_system_fonts=True))
    assert found == printable(text)


def test_a_literal_is_data_in_running_text_too() -> None:
    """A template that forgets that it is not in code inserts no code either."""
    found = query("\n".join(f"= {literal(hostile)}" for hostile in HOSTILE), "heading")
    for hostile, heading in zip(HOSTILE, found, strict=True):
        assert printable(hostile).split() == plain(heading["body"]).split()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (12, "12"),
        (-2.5, "(-2.5)"),
        (1e-07, "1e-07"),
        (math.inf, "float.inf"),
        (-math.inf, "(-float.inf)"),
        (math.nan, "float.nan"),
        ((), "()"),
        (("a", 1), '("a", 1, )'),
        ({}, "(:)"),
        ({"key": "a"}, '(key: "a", )'),
    ],
)
def test_values_become_literals(value: object, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize(
    "value", [Markup("#read"), b"bytes", ["list"], {1: "a"}, {"a b": "c"}, {"a: #b": 1}, object()]
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be"):
        literal(value)


def test_no_template_can_insert_a_text_as_it_is() -> None:
    environment = module._environment()
    shown = environment.from_string("{{ a }} {{ a ~ 'b' }} {{ (a,) }}").render(a="#x")
    assert shown == '"\\u{23}x" "\\u{23}xb" ("\\u{23}x", )'
    with pytest.raises(TemplateError, match="safe"):
        environment.from_string("{{ a | safe }}")
    with pytest.raises(TypeError, match="Undefined"):
        environment.from_string("{{ forgotten }}").render()


def test_data_enters_the_template_in_one_place_and_it_loads_nothing() -> None:
    text = re.sub(r"\{#.*?#\}", "", TEMPLATE.read_text(encoding="utf-8"))
    assert re.findall(r"\{\{.*?\}\}|\{%.*?%\}", text) == ["{{ contents }}"]
    loading = ("#import", "#include", "read(", "plugin(", "@preview", "eval(", "json(", "csv(")
    assert [word for word in loading if word in text] == []


def test_the_compiler_can_read_no_file_and_no_package() -> None:
    for path in ("/etc/passwd", "/proc/self/environ", str(TEMPLATE)):
        with pytest.raises(LabError, match="not found"):
            compiled(f'#read("{path}")', {}, "pdf")
    with pytest.raises(LabError, match="escape the project root"):
        compiled('#read("../../etc/passwd")', {}, "pdf")
    linked = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><image href="{}"/></svg>'
    for path in ("/etc/hostname", "../../etc/hostname", "file:///etc/hostname"):
        with pytest.raises(LabError, match="Typst refuses"):
            compiled(
                '#image(bytes(sys.inputs.a), format: "svg")', {"a": linked.format(path)}, "pdf"
            )


def test_the_same_contents_give_the_same_bytes_without_dates() -> None:
    once = typeset(contents(), figures())
    assert once == typeset(contents(), figures())
    assert once.startswith(b"%PDF")
    assert b"CreationDate" not in once
    assert b"/Title(Configuration A)" in once


@pytest.mark.parametrize(
    "hostile", [*HOSTILE[:2], *(pytest.param(each, marks=pytest.mark.full) for each in HOSTILE[2:])]
)
def test_hostile_text_in_every_place_is_shown_as_it_is(hostile: str) -> None:
    pictures = {f"{hostile} {name}": picture for name, picture in figures().items()}
    attacked = every_text(contents(), lambda text: f"{hostile} {text}")
    named = every_text(attacked, printable)
    pictures = {printable(name): picture for name, picture in pictures.items()}
    assert typeset(named, pictures).startswith(b"%PDF")
    assert warnings(named) == []
    titles = [plain(heading["body"]) for heading in query_of(named)]
    shown = printable(hostile) + " Results"
    assert shown in [title.replace("\u200b", "") for title in titles]


def query_of(report: Contents) -> list[dict[str, object]]:
    every = {figure.name: figures()["fig-a"] for figure in report.figures}
    found = typst.query(
        source(report).encode(), "heading", ignore_system_fonts=True, sys_inputs=every
    )
    return list(json.loads(found))


def warnings(report: Contents) -> list[str]:
    """Give what the compiler has to say of a report that it does not refuse."""
    every = {figure.name: figures()["fig-a"] for figure in report.figures}
    compiler = typst.Compiler(ignore_system_fonts=True, font_paths=_fonts(False), sys_inputs=every)
    _, found = compiler.compile_with_warnings(source(report).encode(), format="pdf")
    return [warning.message for warning in found]


def test_page_one_and_its_table_are_typeset() -> None:
    assert len(typeset(contents(), figures())) > len(
        typeset(replace(contents(), front=None), figures())
    )


def test_a_long_report_has_an_appendix_of_its_own() -> None:
    whole = contents()
    assert split(whole) == (whole, None)
    (part,) = whole.results
    many = tuple(replace(part.figures[0], name=f"fig-{place}") for place in range(15))
    main, appendix = split(replace(whole, results=(replace(part, figures=many),)))
    assert appendix is not None
    shown = [[f.name for f in one.figures] for one in (main, appendix)]
    assert sorted([*shown[0], *shown[1]]) == sorted([*(f.name for f in many), "topology-1"])
    assert main.front == whole.front
    assert (main.parameters, appendix.parameters) == ((), whole.parameters)
    assert (main.limitations, appendix.claims.claims) == (whole.limitations, ())


def test_the_report_compiles_without_a_warning() -> None:
    assert warnings(contents()) == []


@pytest.mark.full
def test_other_programs_read_the_pdf_without_a_remark(tmp_path: Path) -> None:
    """The tier installs them; poppler takes a key that Typst writes for an error."""
    pdf = tmp_path / "report.pdf"
    pdf.write_bytes(typeset(contents(), figures()))
    for words in (("qpdf", "--check", pdf), ("pdfinfo", pdf), ("pdftotext", pdf, "-")):
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stderr == "", words
        assert "warning" not in done.stdout.lower()


def test_every_page_can_be_had_as_a_picture_of_a4() -> None:
    pages = page_images(contents(), figures(), pixels_per_inch=72)
    assert len(pages) >= 2
    sizes = {struct.unpack(">II", page[16:24]) for page in pages}
    assert sizes == {(595, 842)}


def test_a_table_of_many_numbers_lies_across_and_tall_figures_stand_upright() -> None:
    whole = contents()
    (part,) = whole.results
    (table,) = part.tables
    numbers = tuple(Column(f"n{n}", "estimate") for n in range(6))
    rows = (tuple(Entry("1.0") for _ in numbers),)
    part = replace(part, tables=(replace(table, columns=numbers, groups=(Group("", rows),)),))
    assert part.tables[0].wide
    tall = figures() | {"fig-a": BARS.replace("200 100", "200 600").replace("100pt", "600pt")}
    pages = page_images(replace(whole, results=(part,)), tall, pixels_per_inch=72)
    sizes = [struct.unpack(">II", page[16:24]) for page in pages]
    assert sizes[:3] == [(595, 842), (842, 595), (595, 842)]


def test_a_missing_picture_is_named() -> None:
    with pytest.raises(LabError, match="no picture for fig-b"):
        typeset(contents(), {n: p for n, p in figures().items() if n != "fig-b"})


def test_a_report_without_claims_remarks_or_figures_is_typeset_too() -> None:
    whole = contents()
    bare = replace(
        whole,
        answer=(),
        topologies=(),
        results=tuple(replace(part, figures=()) for part in whole.results),
        claims=replace(whole.claims, claims=()),
        validity=replace(whole.validity, left_out=()),
        reproduce=replace(whole.reproduce, facts=()),
    )
    assert typeset(bare, {}).startswith(b"%PDF")


def test_text_is_made_printable() -> None:
    assert (
        printable("a\u202eb\x00c\ud800d\n\te") == f"a{REPLACEMENT}b{REPLACEMENT}c{REPLACEMENT}d  e"
    )
    assert printable("± – “é” \u00a0漢") == "± – “é” \u00a0漢"


@given(st.text())
def test_what_is_printable_has_no_controls(text: str) -> None:
    made = printable(text)
    assert len(made) == len(text)
    assert not {unicodedata.category(c) for c in made} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_letters_that_no_font_has_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fontManager, "ttflist", [])
    monkeypatch.setattr(glyphs, "_warned", set())
    with pytest.warns(UserWarning, match="no font here has 輻"):
        shown = compiled(f"#text({literal('輻 a')})", {}, "png")
    assert shown == compiled(f"#text({literal(f'{REPLACEMENT} a')})", {}, "png")
