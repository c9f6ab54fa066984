"""What the site is built from: copies of the documents, gallery, notebooks and Python reference."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import tcpf_lab
from tools.site import notebooks
from tools.site.paths import BUILD, DOCS, ROOT, STAGE

#: A link or picture: `!`, label, target, anchor; a picture with a width: its file.
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r'<img [^>]*src="([^":]+)"')
_NAVIGATION = {
    "Get started": "docs/get-started.md",
    "Guide": [
        *("docs/experiments.md", "docs/queues.md", "docs/metrics.md", "docs/results.md"),
        *("docs/captures.md", "docs/testbeds.md", "docs/kernel.md", "docs/calibration.md"),
    ],
    "Papers": ["docs/papers.md", "docs/papers/*.md"],
    "Gallery": ["gallery/index.md", "gallery/*/*.md"],
    "Notebooks": ["notebooks/README.md", "notebooks/[0-9]*.md"],
    "Reference": ["docs/reference/*.md", "python.md"],
    "Project": ["docs/limitations.md", "CONTRIBUTING.md", "ARCHITECTURE.md"],
}
_PYTHON = """\
# Python

Results as tables with units; [Results](docs/results.md) shows them in use. \
`tcpf_lab` has all of these names.
"""


def stage(complete: bool) -> None:
    """Fill the directory that MkDocs reads; ``complete``: with gallery and executed notebooks."""
    shutil.rmtree(STAGE, ignore_errors=True)
    documents = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    _copy([*documents, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "notebooks" / "README.md"])
    front = (DOCS / "README.md").rename(DOCS / "index.md")
    text = front.read_text(encoding="utf-8")
    front.write_text("---\nhide: [toc]\n---\n" + text, encoding="utf-8")
    public = "".join(f"\n::: {module}.{name}\n" for name, module in tcpf_lab.PUBLIC.items())
    (DOCS / "python.md").write_text(_PYTHON + public, encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        _write_notebook(path, complete)
    if complete:
        _write_gallery()
    assets = DOCS / "assets"
    assets.mkdir()
    for name in ("iframe-worker.js", "site.css"):
        shutil.copy(Path(__file__).with_name(name), assets)
    base = "../../tools/site/mkdocs.yml"
    settings = {"INHERIT": base, "nav": [{"Overview": "index.md"}, *_navigation()]}
    (STAGE / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")


def _copy(wanted: list[Path]) -> None:
    """Copy documents, and every file of the checkout that they link to."""
    done: set[Path] = set()
    while wanted:
        path = wanted.pop()
        if path in done:
            continue
        done.add(path)
        target = DOCS / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copyfile(path, target)
            continue
        text = path.read_text(encoding="utf-8")
        linked = {path.parent / target for target in targets(text)}
        wanted += [each.resolve() for each in linked if each.is_file() and each.suffix != ".ipynb"]
        target.write_text(_relinked(text, path.parent), encoding="utf-8")


def targets(text: str) -> list[str]:
    """Give the files that a document links to or shows."""
    return [match[3] for match in LINK.finditer(text)] + PICTURE.findall(text)


def _relinked(text: str, directory: Path) -> str:
    """Lead links to notebooks and to the README to their pages; drop links to directories."""

    def relink(match: re.Match[str]) -> str:
        image, label, name, anchor = match.groups(default="")
        target = directory / name
        if target.is_dir():
            return label
        if target.resolve() == ROOT / "README.md":
            name = name.removesuffix("README.md") + "index.md"
        return f"{image}[{label}]({re.sub(r'[.]ipynb$', '.md', name)}{anchor})"

    return LINK.sub(relink, text)


def _write_notebook(path: Path, complete: bool) -> None:
    target = DOCS / "notebooks" / f"{path.stem}.md"
    target.parent.mkdir(exist_ok=True)
    if complete:
        notebook = notebooks.executed(path)
    else:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    target.write_text(_relinked(notebooks.page(notebook, target), path.parent), encoding="utf-8")


def _write_gallery() -> None:
    """Draw every stored page anew, and an index of their figures."""
    print("drawing the gallery", file=sys.stderr)
    drawn = BUILD / "gallery"
    shutil.rmtree(drawn, ignore_errors=True)
    command = [sys.executable, "-m", "tcpf_lab", "report", "results/reference"]
    command += ["--format", "md,figures", "--results", str(drawn)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    unused = shutil.ignore_patterns("*.pdf", "*.svg")
    shutil.copytree(drawn / "pages", DOCS / "gallery", ignore=unused)
    index = "".join(_gallery_index(DOCS / "gallery"))
    (DOCS / "gallery" / "index.md").write_text(index, encoding="utf-8")


def _gallery_index(gallery: Path) -> Iterator[str]:
    yield "# Gallery\n\nFigures drawn from the stored reference numbers by "
    yield "`./lab report results/reference --format md,figures`; a heading leads to the page.\n"
    for page in sorted(gallery.glob("*/*.md")):
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        yield f"\n## [{title}: `{page.parent.name}`]({page.relative_to(gallery).as_posix()})\n\n"
        yield '<div class="gallery">\n'
        for figure in sorted(page.parent.glob("figures/*.png")):
            name = figure.relative_to(gallery).as_posix()
            yield f'<a href="{name}"><img src="{name}" alt="{figure.stem}" loading="lazy"></a>\n'
        yield "</div>\n"


def _navigation() -> Iterator[dict[str, object]]:
    for title, entry in _NAVIGATION.items():
        if isinstance(entry, str):
            yield {title: entry}
        elif paths := [each for pattern in entry for each in sorted(DOCS.glob(pattern))]:
            yield {title: [path.relative_to(DOCS).as_posix() for path in dict.fromkeys(paths)]}
