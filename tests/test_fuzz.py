"""What fuzzing is made of, and every input that once made trouble."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fuzz import seeds, sound, storm, subject
from fuzz.containers import as_pcapng, take_apart
from fuzz.mutate import mutate
from tcpf_lab.errors import TraceError
from tcpf_lab.trace.analysis import Options
from tcpf_lab.trace.engine import Engine
from tcpf_lab.trace.packet import PACKET
from tcpf_lab.trace.reader import Reader
from tcpf_lab.trace.scan import RECORDS

CORPUS = Path(__file__).parent / "trace" / "corpus"


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
    """What once crashed too: no input raises, hangs, or is answered in two ways."""
    folders = [sample, CORPUS]
    by_python = replay(folders, {"NUMBA_DISABLE_JIT": "1"})
    compiled = {
        str(path): subject.answer(path.read_bytes())
        for folder in folders
        for path in sorted(folder.iterdir())
    }
    assert compiled == by_python
    assert len(compiled) >= 38


def test_the_same_packets_are_read_from_pcapng(sample: Path, tmp_path: Path) -> None:
    data = next(iter(sorted(sample.glob("*.pcap")))).read_bytes()
    taken = take_apart(data)
    assert taken is not None
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "b").write_bytes(as_pcapng(taken))
    a, b = (subject.read_capture(tmp_path / name).packets for name in "ab")
    assert np.array_equal(a["time_ns"], b["time_ns"])
    assert np.array_equal(a["seq"], b["seq"])


def storm_of(folder: Path, seed: int) -> storm.Storm:
    folder.mkdir(exist_ok=True)
    return storm.Storm([data for _, data in seeds.recorded()], seed, folder / "current")


@pytest.mark.nightly
def test_inputs_of_the_storm_are_a_function_of_its_seed_and_answered_soundly(
    tmp_path: Path,
) -> None:
    works = [storm_of(tmp_path / name, seed) for name, seed in zip("abc", (1, 1, 2), strict=True)]
    first, again, _ = works
    digests = [np.zeros(400, np.uint64) for _ in range(3)]
    none = digests[0][:0]
    assert [each.run(to, none) for each, to in zip(works, digests, strict=True)] == [""] * 3
    assert np.array_equal(digests[0], digests[1])
    assert not np.array_equal(digests[0], digests[2])
    assert len(set(digests[0].tolist())) > 380
    counts = first.counts
    assert counts["inputs"] == 400
    assert counts["packets"] > 10 * 400
    assert counts["events"] > 400
    assert counts["novel"] > 40
    assert again.run(digests[0], ~digests[1]) == "the answer is another one than before"
    assert again.counts["inputs"] == 401


@pytest.mark.nightly
def test_inputs_of_the_storm_are_captures_that_the_reader_reads(tmp_path: Path) -> None:
    """One at a time: what compiled code reads of it is what the reader does."""
    work, digest, read = storm_of(tmp_path / "one", 3), np.zeros(1, np.uint64), Counter()
    longest = 0
    for _ in range(60):
        before = work.counts["packets"]
        assert work.run(digest, digest[:0]) == ""
        path = tmp_path / "capture"
        path.write_bytes(work.input())
        with Reader(path) as reader:
            block = np.zeros(100, PACKET)
            with contextlib.suppress(TraceError):  # what is damaged ends the capture
                while count := reader.fill(block):
                    longest = max(longest, int(block["ip_length"][:count].max()))
        assert reader.counters[RECORDS] == work.counts["packets"] - before
        read[reader.format] += 1
    assert min(read.values()) > 10
    assert set(read) == {"pcap", "pcapng"}
    assert longest > 1 << 23


@pytest.mark.nightly
@pytest.mark.parametrize("place", [0, 17])
def test_a_state_that_cannot_be_is_found(place: int) -> None:
    """Each rule is broken in the state of a sender in the middle of a transfer."""
    engine = Engine(Options().settings)
    (path, *_) = sorted(seeds.RECORDED.glob("S.pcap.zst"))
    engine.feed(subject.read_capture(path).packets[: 200 + place])
    sender = int(np.argmax(engine.senders["tail"] - engine.senders["head"] > 1))
    assert sound.wrong_senders(engine.senders, engine.arena) == 0
    for field, change, wrong in (
        ("una", 1 << 40, 1),
        ("tail", 1 << 20, 2),
        ("sack_bytes", 1, 3),
    ):
        state = engine.senders.copy()
        state[field][sender] += change
        assert sound.wrong_senders(state, engine.arena) == wrong
    arena = engine.arena.copy()
    arena["end"] += 1
    assert sound.wrong_senders(engine.senders, arena) == 4
