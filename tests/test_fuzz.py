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

from fuzz import __main__ as command_line
from fuzz import interpreted, pool, seeds, sound, storm, subject
from fuzz.containers import as_pcapng, blocks, put_together, take_apart
from fuzz.mutate import MOST_RECORDS, mutate
from fuzz.stage import MOST, TIME
from tcpf_lab.errors import TraceError
from tcpf_lab.trace.analysis import Options
from tcpf_lab.trace.engine import Engine
from tcpf_lab.trace.packet import ACK, PACKET, SYN
from tcpf_lab.trace.reader import Reader
from tcpf_lab.trace.scan import RECORDS

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


def test_mutations_hold_packets_of_which_only_the_frame_knows_the_length(sample: Path) -> None:
    data = next(iter(sorted(sample.glob("*.pcap")))).read_bytes()
    taken = [take_apart(mutate(data, seed)) for seed in range(400)]
    records = [record for one in taken if one for record in one.records]
    assert any(r.wire >= 0x7FFFFFFF and r.frame[12:18] == b"\x08\0\x45\0\0\0" for r in records)


def test_rows_of_interpreted_code_have_columns_called_like_numpys_own() -> None:
    rows = interpreted.as_records(np.zeros(2, [("flags", np.uint8), ("size", np.int64)]))
    rows[1].flags, rows[1].size = 18, 7
    assert rows["flags"].tolist() == [0, 18]
    assert rows[1].size == 7
    assert interpreted.as_records(np.zeros(3)).dtype == np.float64


def storm_of(folder: Path, seed: int) -> storm.Storm:
    folder.mkdir(exist_ok=True)
    return storm.Storm([data for _, data in seeds.recorded()], seed, folder / "current")


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_the_storm_is_made_of_connections_from_their_handshake_on() -> None:
    both_ways = dict(seeds.recorded())["S.pcap"]
    rows, facts, sizes, (known, fixed) = pool.make([both_ways])
    assert known == fixed > 20
    assert np.all(sizes[:known] > 3)
    flags = rows[0][33], rows[1][33], rows[2][33]
    assert flags == (SYN, SYN | ACK, ACK)
    assert np.all(np.diff(facts[: sizes[0], TIME]) >= 0)
    assert {int(version) >> 4 for version in rows[::MOST, 0][:known]} == {4, 6}


@pytest.mark.parametrize("place", [0, 3, 17])
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


def test_what_goes_wrong_in_a_storm_is_a_problem_with_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"problem": "", "growth_kb": 0, "inputs": 7000}
    replies = {
        "compiled, bounds checked": (0, json.dumps({**told, "growth_kb": 900_000}), ""),
        "compiled": (0, json.dumps({**told, "inputs": 6000}), ""),
    }
    wrong = json.dumps({**told, "problem": "the answer is another one"})

    def reply(command: list[str], way: str, *_: object) -> subprocess.CompletedProcess[str]:
        assert command[0] == "fuzz.storm"
        return subprocess.CompletedProcess(command, *replies[way])

    monkeypatch.setattr(command_line, "_python", reply)
    folders = {name: tmp_path / name for name in ("recorded", "storm", "seeds", "crashes")}
    for folder in folders.values():
        folder.mkdir()
    problems: list[str] = []
    assert command_line._storm(folders, 1.0, 5, problems)["inputs"] == 7000
    assert problems == [
        "storm, compiled, bounds checked: the process grew by 900000 kB",
        "storm, compiled: 6000 inputs, not 7000",
    ]
    for way in ("compiled", "compiled, bounds checked"):  # the latter ends it
        replies[way] = (0, wrong, "")
        problems.clear()
        command_line._storm(folders, 1.0, 5, problems)
        said = f"storm, {way}: the answer is another one: {folders['storm']}/inputs/wrong-5"
        assert [line for line in problems if "grew" not in line] == [said]
    replies["compiled, bounds checked"] = (0, json.dumps(told), "")
    (folders["storm"] / "current").write_bytes(b"an input")
    replies["compiled"] = (-11, "", "Segmentation fault")
    problems.clear()
    command_line._storm(folders, 1.0, 5, problems)
    assert "storm, compiled: status -11" in problems[0]
    assert (folders["crashes"] / "storm-5").read_bytes() == b"an input"


def test_answers_of_a_storm_that_went_wrong_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Weather:
        counts: Mapping[str, int] = {}
        features = 0

        def __init__(self, captures: list[bytes], seed: int, current: Path) -> None:
            self.calls = 0

        def run(self, digests: np.ndarray, expected: np.ndarray) -> str:
            self.calls += 1
            return problem if self.calls == 2 else ""

        def input(self) -> bytes:
            return b"an input"

    monkeypatch.setattr(storm, "Storm", Weather)
    answers, wrong = tmp_path / "answers-4", tmp_path / "inputs" / "wrong-4"
    for problem in ("not sound", ""):
        assert storm.storm([], tmp_path, 0.2, 4)["problem"] == problem
        assert (answers.exists(), wrong.exists()) == (not problem, bool(problem))
    before = answers.read_bytes()
    assert len(before) >= 8 * 2 * storm.BATCH
    for problem in ("another answer", ""):
        assert storm.storm([], tmp_path, 0.2, 4)["problem"] == problem
        assert (answers.read_bytes(), wrong.exists()) == (before, bool(problem))
    assert not (tmp_path / "unfinished").exists()


def test_interpreting_needs_a_process_of_its_own() -> None:
    with pytest.raises(RuntimeError, match="NUMBA_DISABLE_JIT=1"):
        interpreted.prepare()
