"""Faults one after another in a process of its own, of which there are some side by side."""

from __future__ import annotations

import importlib
import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tcpf_lab.results.layout import read_json, write_json
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml.kernel import FACTS, with_digest
from tools.faults import places, processes, verdict
from tools.faults.kinds import KINDS
from tools.faults.stage import Fault, Reference, Stage
from tools.faults.verdict import Outcome

_CACHE = Path("tcpf-lab/kernel")
#: Set in every lane: whether it has mounts of its own.
_namespace = False


def load() -> None:
    """Load once what all commands forked from here need.

    For a process without other threads, as `python -m tools.faults` is: what its forks inherit of a
    library that keeps some, such as the compiler of PDFs once it was used, would wait for them.
    """
    for verb in ("analyze", "run", "hosts", "results"):
        importlib.import_module(f"tcpf_lab.cli.{verb}")


def begin() -> None:
    """Make this process fit to plant faults: parent of orphans, mounts of its own."""
    global _namespace
    processes.adopt()
    processes.end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller ends its lanes
    _namespace = os.geteuid() == 0 and places.enter_namespace()


def side_by_side(
    faults: Sequence[Fault], reference: Reference, work: Path, lanes: int, until: float | None
) -> Iterator[Outcome]:
    """Plant faults and yield what became of each; begin none when it is later than ``until``."""
    with ProcessPoolExecutor(lanes, initializer=begin) as executor:
        futures = [executor.submit(perform, fault, reference, work, until) for fault in faults]
        try:
            for future in as_completed(futures):
                if (outcome := future.result()) is not None:
                    yield outcome
        finally:
            for future in futures:
                future.cancel()


def perform(fault: Fault, reference: Reference, work: Path, until: float | None) -> Outcome | None:
    """Plant one fault on a stage of its own and judge what became of it."""
    started = time.monotonic()
    if until is not None and started > until:
        return None
    kind = KINDS[fault.kind]
    if kind.mounts and not _namespace:
        reason = "mounts need root and a mount namespace"
        return Outcome(fault.number, fault.kind, reason, "not run", (), 0.0)
    root = work / f"fault-{fault.number}"
    shutil.rmtree(root, ignore_errors=True)
    try:
        stage = Stage(root, reference, _cache(work, root) if kind.cache else None)
        stage.set_up(fault.finished, fault.leftovers, fault.draw)
        injected = kind.inject(stage, fault, random.Random(fault.draw))
        problems = (*injected.problems, *verdict.after(stage, fault, injected))
        state = "failed" if problems else "passed" if injected.hit else "missed"
        what = injected.what
    except Exception:  # noqa: BLE001 - a fault of the suite must not cost the other faults
        state, what, problems = "failed", "the suite itself", (traceback.format_exc(),)
    if state != "failed":
        shutil.rmtree(root, ignore_errors=True)
    seconds = round(time.monotonic() - started, 2)
    return Outcome(fault.number, fault.kind, what, state, problems, seconds)


def prepare_cache(work: Path) -> None:
    """Make the cache that faults in it begin with: the kernel twice, under two names.

    The second is of another recipe with the same kernel: where the first is damaged, only programs
    and modules have to be compiled.
    """
    cache = work / _CACHE
    kernel = uml_kernel.find()
    assert kernel is not None, "the caller has looked"
    shutil.rmtree(cache, ignore_errors=True)
    twin = cache / "0000000000000000"
    _link_tree(kernel.directory, twin)
    facts = read_json(twin / FACTS)
    (twin / FACTS).unlink()  # its other name is the user's
    write_json(twin / FACTS, with_digest({**facts, "recipe": "another"}))
    uml_kernel.build(cache=cache)


def _cache(work: Path, root: Path) -> Path:
    """Copy that cache for one fault."""
    _link_tree(work / _CACHE, root / "cache" / _CACHE)
    return root / "cache"


def _link_tree(source: Path, target: Path) -> None:
    def link(one: str, other: str) -> str:
        try:
            os.link(one, other)
        except OSError:  # another file system
            shutil.copy2(one, other)
        return other

    shutil.copytree(source, target, symlinks=True, copy_function=link)
