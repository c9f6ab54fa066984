"""What fuzzing is made of, and every input that once made trouble."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fuzz import interpreted, seeds, subject
from fuzz.containers import as_pcapng, blocks, put_together, take_apart
from fuzz.mutate import MOST_RECORDS, mutate

CORPUS = Path(__file__).parent / "trace" / "corpus"
#: Seconds that an input may take, compiled.
LIMIT_S = 10


def replay(folders: list[Path], environment: Mapping[str, str]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.replay", *map(str, folders)],
        cwd=seeds.ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a few seeds, and mutations of them."""
    folder = tmp_path_factory.mktemp("sample")
    written = seeds.make(folder, 1)
    for path in written[4:]:
        path.unlink()
    for number, path in enumerate(written[:4]):
        for seed in range(8):
            (folder / f"{number}-{seed}").write_bytes(mutate(path.read_bytes(), seed))
    return folder


def test_compiled_and_interpreted_answers_are_the_same(sample: Path) -> None:
    """Past crashers too: no input raises, hangs, or is answered in two ways."""
    folders = [sample, CORPUS]
    by_python = replay(folders, {"NUMBA_DISABLE_JIT": "1"})
    compiled = {
        str(path): subject.answer(path.read_bytes())
        for folder in folders
        for path in sorted(folder.iterdir())
    }
    assert compiled == by_python
    assert len(compiled) >= 36


def test_captures_are_taken_apart_and_put_together(sample: Path) -> None:
    for path in sample.glob("*.pcap"):
        data = path.read_bytes()
        taken = take_apart(data)
        assert taken is not None
        assert put_together(taken) == data
        parts = blocks(as_pcapng(taken))
        assert len(parts) == len(taken.records) + 3  # section, interface, what is left: nothing
        assert parts[-1] == b""
    assert take_apart(b"something else") is None


def test_the_same_packets_are_read_from_pcapng(sample: Path, tmp_path: Path) -> None:
    data = next(iter(sorted(sample.glob("*.pcap")))).read_bytes()
    taken = take_apart(data)
    assert taken is not None
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "b").write_bytes(as_pcapng(taken))
    a, b = (subject.read_capture(tmp_path / name).packets for name in "ab")
    assert np.array_equal(a["time_ns"], b["time_ns"])
    assert np.array_equal(a["seq"], b["seq"])


def test_a_mutation_is_a_function_of_its_seed(sample: Path) -> None:
    data = next(iter(sorted(sample.glob("*.pcap")))).read_bytes()
    changed = [mutate(data, seed) for seed in range(60)]
    assert changed == [mutate(data, seed) for seed in range(60)]
    assert len(set(changed)) > 50
    for one in changed:
        assert len((take_apart(one) or take_apart(data)).records) <= MOST_RECORDS
    assert mutate(b"", 3) == mutate(b"", 3)
    assert mutate(b"\n\r\r\n", 3) is not None


def test_rows_of_interpreted_code_have_columns_called_like_numpys_own() -> None:
    rows = interpreted.as_records(np.zeros(2, [("flags", np.uint8), ("size", np.int64)]))
    rows[1].flags, rows[1].size = 18, 7
    assert rows["flags"].tolist() == [0, 18]
    assert rows[1].size == 7
    assert interpreted.as_records(np.zeros(3)).dtype == np.float64


def test_interpreting_needs_a_process_of_its_own() -> None:
    with pytest.raises(RuntimeError, match="NUMBA_DISABLE_JIT=1"):
        interpreted.prepare()
