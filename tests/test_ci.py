"""What continuous integration reads fits the schemas of those that read it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (".github/workflows/ci.yml", "vendor.github-workflows"),
        (".gitlab-ci.yml", "vendor.gitlab-ci"),
    ],
)
def test_the_file_fits_its_schema(path: str, schema: str) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(ROOT / path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_actions_are_pinned_and_may_only_read() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    actions = re.findall(r"uses: (\S+)", text)
    assert actions
    assert [a for a in actions if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", a)] == []
    assert "\npermissions:\n  contents: read\n" in text
