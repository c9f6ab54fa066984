"""Which planted faults the tests find: every patch of ``faults.txt``, in a copy of the last commit.

``run.py --only marker --jobs 2`` first runs the tests nearest to each fault, then the others, up to
the first that fails.  ``run.py --check`` says which patches no longer apply to the checkout.
pytest's own arguments come behind ``--``.  What is in ``--out`` already, of
the same commit and the same arguments, is not run again.

A fault in Rust is built into a module of the copy's own.  The kernel's sources identify its build,
so no guest runs a fault in a header before that is built, which takes minutes: such a fault is left
to the tests in user space.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

FAULTS = Path(__file__).resolve().with_name("faults.txt")
ROOT = FAULTS.parents[2]
#: What `./lab test` selects, without and with ``--full``; ``oracles`` is `./lab oracles`.
TIERS = {
    "fast": "not full and not nightly and not oracle",
    "full": "not nightly and not (oracle and full)",
    "oracles": "oracle and not full",
    "all": "",
}
MODULE = "_trace.abi3.so"
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider")


def nearest(changed: str, tree: Path) -> list[str]:
    """Name the tests that are called as a source file is, then those of its directory.

    Of a module in the root of the package: those in the root of the tests that name it.
    """
    source = Path(changed)
    if source.suffix == ".rs":
        return ["tests/trace"]
    own = tree / "tests" / ("kernel" if source.suffix == ".h" else "/".join(source.parts[1:-1]))
    if source.suffix == ".h":
        others = [own / "test_headers.py"]
    elif len(source.parts) == 2:
        beside = sorted(own.glob("test_*.py"))
        others = [path for path in beside if source.stem in path.read_text(encoding="utf-8")]
    else:
        others = [own, own.parent] if len(source.parts) > 3 else [own]
    found = dict.fromkeys((*sorted(own.glob(f"test_*{source.stem}*.py")), *others))
    return [str(path.relative_to(tree)) for path in found if path.exists()]


def test(tree: Path, words: list[str], seconds: float) -> tuple[bool | None, str]:
    """Run pytest in a copy; whether a test failed (None: no end in time), and which."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    process = subprocess.Popen(
        [*PYTEST, *words],
        cwd=tree,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=max(seconds, 1))
    except BaseException as error:  # the guests and programs of tests end with them
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return None, "no end in time"
        raise
    if process.returncode in (0, 5):  # 5: nothing was selected
        return False, ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", printed, re.MULTILINE)
    if process.returncode > 2 or failed is None:
        raise RuntimeError(f"pytest ended with status {process.returncode}:\n{printed[-2000:]}")
    return True, failed[1]


def planted() -> dict[str, str]:
    """Give the patches by name; each begins with what it spoils."""
    parts = re.split(r"^=== (.+)\n", FAULTS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def check(patches: dict[str, str]) -> int:
    """Say which patches do not apply to the checkout as it is."""
    command = ["patch", "-p1", "-s", "-F0", "--dry-run"]
    missed = 0
    for name, patch in patches.items():
        tried = subprocess.run(command, cwd=ROOT, input=patch, capture_output=True, text=True)
        if tried.returncode:
            missed += 1
            print(f"{name}: {tried.stdout.strip()}")
    return 1 if missed else 0


def judge(patch: str | None, tree: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Copy the last commit, put a fault in, and see whether a test fails."""
    began = time.monotonic()
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
    near, which = [], TIERS[asked.suite]
    module = ROOT / "tcpf_lab" / MODULE
    if patch is not None:
        subprocess.run(["patch", "-p1", "-s"], cwd=tree, input=patch, text=True, check=True)
        changed = re.findall(r"^\+\+\+ b/(.+)$", patch, re.MULTILINE)[0]
        near = nearest(changed, tree)
        if changed.endswith(".rs"):
            target = Path(f"{tree}-target")
            command = ["cargo", "build", "--release", "--locked", "--target-dir", target]
            manifest = ["--manifest-path", tree / "trace/python/Cargo.toml"]
            subprocess.run([*command, *manifest], check=True, capture_output=True)
            module = target / "release/lib_trace.so"
        if changed.endswith(".h"):
            which = f"({which or 'not uml'}) and not uml"
    shutil.copy(module, tree / "tcpf_lab" / MODULE)
    words = [*asked.pytest, *(["-m", which] if which else [])]
    found, by = test(tree, [*words, *near], asked.timeout) if near else (False, "")
    if found is False and not asked.nearest:
        rest = [*words, *(f"--ignore={path}" for path in near)]
        found, by = test(tree, rest, asked.timeout - (time.monotonic() - began))
    return {"found": found, "by": by, "seconds": round(time.monotonic() - began, 1)}


def main() -> int:
    """Run what is asked for, keep the results, and list them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="of the patches' names")
    parser.add_argument("--suite", choices=TIERS, default="fast")
    parser.add_argument("--nearest", action="store_true", help="no other tests than the nearest")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds for each fault")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "planted.json")
    parser.add_argument("--check", action="store_true", help="only whether the patches apply")
    parser.add_argument("pytest", nargs="*")
    asked = parser.parse_args()
    patches = planted()
    if asked.check:
        return check(patches)
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    suite = " ".join([commit.strip(), asked.suite, *asked.pytest, *["nearest"] * asked.nearest])
    every = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    results: dict[str, Any] = every.setdefault(suite, {})
    wanted = [name for name in patches if fnmatch.fnmatch(name, f"*{asked.only}*")]
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(asked.jobs):
        trees.put(Path(tempfile.gettempdir()) / f"planted-{os.getuid()}" / str(number))

    def one(name: str) -> tuple[str, dict[str, Any]]:
        tree = trees.get()
        try:
            return name, judge(patches.get(name), tree, asked)
        finally:
            trees.put(tree)

    if not asked.nearest and results.get("no fault", {}).get("found") is not False:
        results["no fault"] = one("no fault")[1]
        if results["no fault"]["found"] is not False:
            print(f"the tests fail without a fault: {results['no fault']['by']}")
            return 2
    with ThreadPoolExecutor(asked.jobs) as pool:
        begun = [pool.submit(one, name) for name in wanted if name not in results]
        for done in as_completed(begun):
            name, results[name] = done.result()
            asked.out.write_text(json.dumps(every, indent=1) + "\n")
            print(name, results[name], flush=True)
    for name in wanted:
        verdict = {True: "found", False: "NOT FOUND", None: "?"}[results[name]["found"]]
        print(f"{name:42} {verdict:10} {results[name]['seconds']:6.0f} s  {results[name]['by']}")
    missed = [name for name in wanted if results[name]["found"] is not True]
    print(f"{len(wanted) - len(missed)} of {len(wanted)} are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
