"""Damaged files: captures, records of a run, the kernel's cache."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

from tcpf_lab.results.layout import RunFiles
from tcpf_lab.testbed.uml import kernel
from tcpf_lab.testbed.uml.kernel import FACTS
from tools.faults import processes
from tools.faults.stage import (
    DONE,
    FAILED,
    REFUSED,
    TABLES,
    Fault,
    Injected,
    Stage,
    answer,
    fingerprint,
)

_OTHER_JSON = (b"{}", b"[]", b"null", b'{"format": 1}', b"1e999", b'"' + b"x" * 50 + b'"')


def spoil(path: Path, rng: random.Random, *, json: bool = False) -> str:
    """Damage a file; say how."""
    content = path.read_bytes()
    ways = ["bit", "bits", "cut", "zeros", "empty"] if content else ["more"]
    way = rng.choice([*ways, "more", "gone", *(["other JSON"] if json else [])])
    changed = _changed(content, way, rng)
    path.unlink()  # it may have a second name elsewhere
    if changed is None:
        return f"{way}: {path.name}"
    if changed == content:
        changed += b"\0"
    path.write_bytes(changed)
    return f"{way}: {path.name}"


def _changed(content: bytes, way: str, rng: random.Random) -> bytes | None:
    spoiled = bytearray(content)
    if way in ("bit", "bits"):
        for _ in range(1 if way == "bit" else rng.randrange(2, 20)):
            spoiled[rng.randrange(len(spoiled))] ^= 1 << rng.randrange(8)
    elif way == "cut":
        del spoiled[rng.randrange(len(spoiled)) :]
    elif way == "zeros":
        start = rng.randrange(len(spoiled))
        stop = min(len(spoiled), start + rng.randrange(1, 4096))
        spoiled[start:stop] = bytes(stop - start)
    elif way == "more":
        spoiled += rng.randbytes(rng.randrange(1, 100))
    elif way == "other JSON":
        return rng.choice(_OTHER_JSON)
    return {"gone": None, "empty": b""}.get(way, bytes(spoiled))


def capture(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Damage a kept capture, and analyse the run anew."""
    run = rng.choice(sorted(stage.complete(), key=lambda each: each.root.name))
    path = rng.choice(sorted(run.pcap.iterdir()))
    if rng.random() < 0.1:
        what = _swap(path, rng.choice(sorted(run.pcap.iterdir())))
    else:
        what = spoil(path, rng)
    return _analysed(stage, run, what)


def _swap(one: Path, other: Path) -> str:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first if first != second else first + b"\0")
    return f"swapped: {one.name} and {other.name}"


def counters(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Damage what a run's counters are read from, and analyse the run anew."""
    run = rng.choice(sorted(stage.complete(), key=lambda each: each.root.name))
    path = rng.choice(sorted([*run.stats.iterdir(), run.manifest]))
    return _analysed(stage, run, spoil(path, rng, json=path.suffix == ".json"))


def _analysed(stage: Stage, run: RunFiles, what: str) -> Injected:
    """The damage is told, or makes no difference."""
    name = run.root.name
    command = stage.command("analysed", "analyze", str(run.root)).fork()
    problems = answer(command, (DONE, FAILED, REFUSED), name.replace("+", r"\+"))
    if command.status == DONE:
        print_now = fingerprint(run.root, whole=False)
        for file in ("metrics.json", "series.npz"):
            if print_now.get(file) != stage.reference.prints[name][file]:
                problems.append(f"other numbers without a word: {file}")
    return Injected(f"{what} of {name}", True, problems, (name,))


def record(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Damage a record of a run, and make a report of the runs as they are."""
    run = rng.choice(sorted(stage.complete(), key=lambda each: each.root.name))
    names = ("manifest.json", "metrics.json", "run.yaml", "series.npz", "plan.txt", "SHA256SUMS")
    path = rng.choice([run.root / name for name in names])
    what = f"{spoil(path, rng, json=path.suffix == '.json')} of {run.root.name}"
    words = ("report", str(stage.root / "faults.yaml"), "--results", str(stage.files.results))
    shutil.copyfile(Path(__file__).with_name("experiment.yaml"), stage.root / "faults.yaml")
    command = stage.command("reported", *words).fork()
    problems = answer(command, (DONE, FAILED, REFUSED), "left out|stale|no usable")
    table, usual = stage.files.table("csv").read_bytes(), stage.reference.tables[TABLES[0]]
    if command.status == DONE and table != usual and "left out" not in command.text():
        problems.append("another table without a word")
    problems += _numbers(stage, table)
    return Injected(what, True, problems, (run.root.name,))


def _numbers(stage: Stage, table: bytes) -> list[str]:
    """A cell of as many runs as without the fault has the numbers that it has there."""
    usual = {_cell(line): line for line in stage.reference.tables["table.csv"].splitlines()}
    return [
        f"a wrong number in the cell {_cell(line)}"
        for line in table.splitlines()
        if line != (same := usual.get(_cell(line), b"")) and _valid_runs(line) == _valid_runs(same)
    ]


def _cell(line: bytes) -> str:
    return ",".join(line.decode().split(",")[:3])


def _valid_runs(line: bytes) -> str:
    return (line.decode().split(",") + [""] * 5)[4]


def cache(stage: Stage, _fault: Fault, rng: random.Random) -> Injected:
    """Damage an entry of the kernel's cache: it is made again, or what is wrong is named.

    Now and then the command that makes it again is killed.
    """
    assert stage.cache is not None
    found = kernel.find(stage.cache / "tcpf-lab/kernel")
    assert found is not None
    entry = found.directory
    names = ["linux", "kernel.json", "tcpf-guest", "tcpf-traffic"]
    names += ["modules/sch_rio.ko", "modules/act_token.ko", "tc/q_rio.so", "tc/m_token.so"]
    path = entry / rng.choice(names)
    mode = path.stat().st_mode
    what = spoil(path, rng, json=path.name == FACTS)
    if path.exists():
        os.chmod(path, mode)  # noqa: PTH101 - Path.chmod is the same
    command = stage.command("run").fork()
    statuses: tuple[int, ...] = (DONE, FAILED)
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0, 8))
        if command.running and processes.kill(command.pid):
            statuses, what = (-signal.SIGKILL,), f"kill -9 of the controller after {what}"
    problems = answer(command, statuses, "kernel|module|tcpf-|plugin")
    return Injected(f"{what} in the kernel's cache", True, problems)
