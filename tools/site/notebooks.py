"""Notebooks as pages, with the output of their cells."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.site.paths import BUILD, ROOT

#: Where they are executed: beside results of their own.
_PLACE = BUILD / "notebooks"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours of a terminal
_FRAME = re.compile(r"<table [^>]*>")  # as pandas writes it


def executed(path: Path) -> dict[str, Any]:
    """Give a notebook with the output of its cells; it is executed once for each content."""
    source, result = path.read_text(encoding="utf-8"), _PLACE / f"{path.stem}.json"
    if result.exists():
        stored: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        if stored["source"] == source:
            return stored
    print(f"executing {path.name}", file=sys.stderr)
    from importlib import import_module

    from nbclient import NotebookClient

    nbformat: Any = import_module("nbformat")  # its functions have no types

    here = _PLACE / "notebooks"
    here.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "results/reference", _PLACE / "results/reference", dirs_exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    notebook = nbformat.reads(source, as_version=4)
    resources = {"metadata": {"path": str(here)}}
    NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=resources).execute()
    made = {**json.loads(nbformat.writes(notebook)), "source": source}
    result.write_text(json.dumps(made), encoding="utf-8")
    return made


def page(notebook: dict[str, Any], target: Path) -> str:
    """Give a notebook as Markdown; its pictures are written beside ``target``."""
    parts = []
    for number, cell in enumerate(notebook["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
        else:
            shell = text.startswith("%%sh\n")
            code = text.removeprefix("%%sh\n")
            parts.append(f"```{'sh' if shell else 'python'}\n{code}\n```")
            parts += _outputs(cell, target.with_name(f"{target.stem}-{number}"))
    return "\n\n".join(parts) + "\n"


def _outputs(cell: dict[str, Any], stem: Path) -> Iterator[str]:
    for number, output in enumerate(_joined(cell["outputs"])):
        data = output.get("data", {})
        if "image/png" in data:
            picture = stem.with_name(f"{stem.name}-{number}.png")
            picture.write_bytes(base64.b64decode(data["image/png"]))
            yield f"![Output]({picture.name})"
        elif "text/html" in data:
            table = _FRAME.sub("<table>", "".join(data["text/html"]))
            yield f'<div class="output">{table}</div>'
        else:
            text = _ESCAPE.sub("", "".join(output.get("text", data.get("text/plain", ""))))
            lines = "\n".join(line.rstrip() for line in text.rstrip().splitlines())
            yield f"```text\n{lines}\n```"


def _joined(outputs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Give standard output in one piece, first; leave out standard error, which is progress."""
    printed = ["".join(output["text"]) for output in outputs if output.get("name") == "stdout"]
    if printed:
        yield {"text": "".join(printed)}
    yield from (output for output in outputs if output["output_type"] != "stream")
