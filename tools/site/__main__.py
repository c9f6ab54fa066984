"""Build the documentation into ``site/``: ``python -m tools.site [--check]``."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

from tools.site.paths import ROOT, STAGE
from tools.site.stage import stage

_REQUEST = re.compile(r'(?:\bsrc=|<link [^>]*href=)"?(?:https?:)?//[^">]*')


def foreign(site: Path) -> list[str]:
    """Give what the pages of a site request from other hosts, after the name of the page."""
    pages = ((path, path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html")))
    return [f"{path}: {found}" for path, text in pages for found in _REQUEST.findall(text)]


def main() -> None:
    """Stage the documents and build the site; a broken link is an error."""
    parser = argparse.ArgumentParser(prog="lab docs", description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check that it builds: no gallery, notebooks without output",
    )
    arguments = parser.parse_args()
    stage(complete=not arguments.check)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    command += ["--config-file", str(STAGE / "mkdocs.yml")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    # `--quiet` would not count warnings.
    done = subprocess.run(command, env=quiet, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        sys.exit("\n".join(line for line in lines if not line.startswith(("INFO", "  - "))))
    if requests := foreign(ROOT / "site"):
        sys.exit("a page requests from another host:\n" + "\n".join(requests))
    print(ROOT / "site" / "index.html")


if __name__ == "__main__":
    main()
