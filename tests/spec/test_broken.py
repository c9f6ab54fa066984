"""Broken files of ``broken.yaml``: where, which key, and what is allowed; the wording is free."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tcpf_lab.base.errors import RequestError, SpecError
from tcpf_lab.spec.calibrated import read_subject
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.load import each, load_any
from tools.fuzz.text_seeds import BROKEN, broken_specs

TABLE = YAML(typ="safe").load(BROKEN)
FILES = broken_specs()
#: A message: where, the key path if there is one, the sentence.
MESSAGE = re.compile(
    r"(?P<file>[^:]+):(?P<line>\d+): (?:(?P<key>[a-z_]+(?:[.\[][^:]*)?): )?(?P<text>.*)"
)
#: What a sentence says of the allowed values: a list of words, or else limits.
WORDS = re.compile(r"(?:allowed|needed|units|one of): (.*?)\)?(?:\. Did you mean '(.*)'\?)?$")
LIMITS = re.compile(
    r"(?:from|to|at least|at most|more than|less than) "
    r"(?:(\d[\d.]*(?: (?:[kMG]?i?B|[kMG]?bit|[um]?s|min|h)\b)?)|([a-z_.]+) \()"
)


def parts_of(message: str) -> dict[str, Any]:
    """Take a message apart into what the table records."""
    found = MESSAGE.fullmatch(message)
    assert found, message
    key, text = found["key"], found["text"]
    if message.partition(": ")[2].startswith("not valid YAML: "):
        key = None
    words = WORDS.search(text)
    missing = re.search(r"missing key '(\w+)'", text)
    limits = [number or word for number, word in LIMITS.findall(text)]
    parts = {
        "line": int(found["line"]),
        "key": key,
        "missing": missing[1] if missing else None,
        "allowed": words[1].split(", ") if words else limits,
        "meant": words[2] if words else None,
    }
    return {name: part for name, part in parts.items() if part}


def read(path: Path, text: bytes) -> None:
    """Read a file as the command line does; a calibration with its experiments."""
    path.write_bytes(text)
    found = load_any(path)
    if isinstance(found, Calibration):
        read_subject(found, path)


@pytest.mark.parametrize("name", TABLE["broken"])
def test_a_broken_file_is_refused_with_place_key_and_what_is_allowed(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(RequestError) as caught:
        read(tmp_path / "broken.yaml", FILES[name])
    assert caught.value.exit_status == TABLE["exit_status"]
    problems = each(caught.value) if isinstance(caught.value, SpecError) else (caught.value,)
    assert [parts_of(str(problem)) for problem in problems] == TABLE["broken"][name]["errors"]


@pytest.mark.parametrize("name", TABLE["bases"])
def test_what_broken_files_are_made_from_is_whole(name: str, tmp_path: Path) -> None:
    read(tmp_path / "whole.yaml", TABLE["bases"][name].encode())


@pytest.mark.parametrize("name", ["several_at_once", "collection_of_nothing", "empty", "not_utf8"])
def test_the_command_line_ends_with_the_messages_on_the_error_stream(
    name: str, tmp_path: Path, lab: Callable[..., tuple[int, str, str]]
) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(FILES[name])
    status, out, complaints = lab("run", path)
    assert (status, out) == (TABLE["exit_status"], "")
    lines = complaints.splitlines()
    assert all(line.startswith(f"error: {path}:") for line in lines)
    found = [parts_of(line.removeprefix("error: ")) for line in lines]
    assert found == TABLE["broken"][name]["errors"]
