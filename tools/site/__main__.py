"""Build the documentation into ``site/``: ``python -m tools.site [--check]``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tools.site.paths import ROOT, STAGE
from tools.site.stage import stage


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
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    command += ["--config-file", str(STAGE / "mkdocs.yml")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=quiet)
    if done.returncode == 0:
        print(ROOT / "site" / "index.html")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
