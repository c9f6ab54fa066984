"""Where the site is made from, and where."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build"
STAGE = BUILD / "site"
DOCS = STAGE / "docs"
