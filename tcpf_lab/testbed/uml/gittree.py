"""The source of a kernel in a git tree, as it is now or at a revision.

Neither the tree nor its index is touched: what was changed goes into an index and a store of
objects of its own.  Patches are applied to such an index too, so that only files that differ from
those of the last build are written, and `make` compiles no other.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tcpf_lab.base.errors import KernelBuildError, RequestError
from tcpf_lab.testbed.uml.recipe import LEFT_OUT, Recipe, makefile_version, patch_refused
from tcpf_lab.testbed.workshop import Workshop

#: No hook, monitor or conversion of the user's takes part.
_GIT = (
    *("git", "--no-optional-locks", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"),
    *("-c", "core.splitIndex=false", "-c", "core.autocrlf=false", "-c", "core.safecrlf=false"),
    *("-c", "gc.auto=0", "-c", "advice.addEmbeddedRepo=false"),
)
#: What a configuration reads of a source.
_OF_CONFIGURATION = (":(glob)**/Kconfig*", ":(glob)arch/*/Makefile*", "Makefile", "scripts")
#: Line of a patch that has git ask for the mode of a new file.
_HEADER = re.compile(rb"^diff --git .*\n(?=--- )", re.MULTILINE)


@dataclass(frozen=True)
class Snapshot:
    """A state of a git tree."""

    place: Path  #: the tree
    digest: str  #: hash of the state, as `git write-tree` gives it
    commit: str  #: empty before the first one
    dirty: bool  #: whether the state has changes that the commit lacks
    version: str  #: of Linux, ``7.3.4``
    bench: Path = field(compare=False)  #: directory that is kept from build to build

    name = "git"

    @property
    def origin(self) -> dict[str, object]:
        """What a run's manifest says of the source."""
        return {"source": "git", "tree": self.digest, "commit": self.commit, "dirty": self.dirty}

    @property
    def described(self) -> str:
        """One phrase for a person."""
        changes = " with changes" if self.dirty else ""
        return f"tree {self.digest[:12]}, commit {self.commit[:12] or 'none'}{changes}"

    @property
    def workplace(self) -> Path:
        """Where the source and what is made of it stay from build to build."""
        return self.bench / "source"

    @contextmanager
    def filled(self, recipe: Recipe, shop: Workshop) -> Iterator[str]:
        """Bring the working copy to this state, patched; what has not changed is not written."""
        store = _store(self.bench)
        with tempfile.TemporaryDirectory(prefix=".patching-", dir=self.bench) as at:
            patching = store | {"GIT_INDEX_FILE": f"{at}/index"}
            shop.progress("patch", 0.0)
            _run(self.bench, ("read-tree", self.digest), patching)
            left_out = (f":(top){pattern}" for pattern in LEFT_OUT)
            _run(self.bench, ("rm", "-rfq", "--cached", "--ignore-unmatch", *left_out), patching)
            for number, patch in enumerate(recipe.patches):
                words = ("apply", "--cached", "--whitespace=nowarn", "-")
                # As `patch` reads it: a new file needs no mode.
                text = _HEADER.sub(b"", patch.read_bytes())
                reply = _try(self.bench, words, patching, text)
                if reply.returncode:
                    raise patch_refused(patch, recipe, reply.stderr.splitlines(), str(self.place))
                shop.progress("patch", (number + 1) / len(recipe.patches))
            patched = _run(self.bench, ("write-tree",), patching)
        shop.progress("unpack", 0.0)
        (self.bench / "index.lock").unlink(missing_ok=True)  # of a killed build: this one is alone
        checkout = store | {"GIT_INDEX_FILE": str(self.bench / "index")}
        _remove_unfinished(self.bench, checkout)
        _run(self.bench, ("read-tree", "--reset", "-u", patched), checkout)
        shop.progress("unpack", 1.0)
        note = self.bench / _AT_WORK
        note.touch()
        try:
            yield _run(self.bench, ("ls-files", "-s", "--", *_OF_CONFIGURATION), checkout)
        except KernelBuildError:  # its programs have ended by themselves
            note.unlink()
            raise
        note.unlink()


def snapshot(place: Path, bench: Path, revision: str = "") -> Snapshot:
    """Take the state of a git tree: tracked files as they are, new ones unless git ignores them.

    Parameters
    ----------
    place : Path
        Top directory of the tree.
    bench : Path
        Directory for objects and for builds, made if need be.
    revision : str, optional
        Take this one instead, whatever is checked out.

    Raises
    ------
    RequestError
        If it is not the top of a git tree, or there is no such revision.
    KernelBuildError
        If git fails, or it is not a kernel's source.
    """
    _borrow(place, bench)
    head = _try(place, ("rev-parse", "--verify", "-q", f"{revision or 'HEAD'}^{{commit}}"), {})
    commit = head.stdout.strip()
    if revision:
        if not commit:
            raise RequestError(f"no commit '{revision}'", where=str(place))
        digest = _run(place, ("rev-parse", f"{commit}^{{tree}}"), {})
    else:
        digest = _state(place, bench)
    tree = _run(place, ("rev-parse", f"{commit}^{{tree}}"), {}) if commit else ""
    makefile = _try(bench, ("cat-file", "blob", f"{digest}:Makefile"), _store(bench))
    if makefile.returncode:
        raise KernelBuildError(
            "not a kernel source: git tracks no Makefile in it",
            where=str(place),
            hint="`git status --ignored` lists what git ignores; `git add -f` adds it",
        )
    version = makefile_version(makefile.stdout, place)
    return Snapshot(place, digest, commit, digest != tree, version, bench)


class History:
    """The commits between two revisions of a git tree, for `git bisect` in a store of its own.

    Parameters
    ----------
    place : Path
        Top directory of the tree, of which nothing is written.
    good, bad : str
        Revisions; `good` is an ancestor of `bad`.

    Raises
    ------
    RequestError
        If it is not the top of a git tree, or the revisions are not what they should be.
    """

    def __init__(self, place: Path, good: str, bad: str) -> None:
        at = tempfile.mkdtemp(prefix="tcpf-lab-bisect-")  # another search has its own state
        weakref.finalize(self, shutil.rmtree, at, ignore_errors=True)
        self._store = _borrow(place, Path(at))
        self.good, self.bad = _commit(place, good, "--good"), _commit(place, bad, "--bad")
        where = f"--good {good} --bad {bad}"
        if self.good == self.bad:
            raise RequestError("both are the same commit", where=where)
        if _try(place, ("merge-base", "--is-ancestor", self.good, self.bad), {}).returncode:
            base = _try(place, ("merge-base", self.good, self.bad), {}).stdout.strip()
            hint = f"--good {base[:12]}, the last that both have in common" if base else ""
            if base == self.bad:
                hint = f"--good {bad} --bad {good}: BAD is the older one"
            raise RequestError("GOOD is not an ancestor of BAD", where=where, hint=hint)
        shallow = Path(place, _run(place, ("rev-parse", "--git-path", "shallow"), {}))
        if shallow.exists():
            shutil.copyfile(shallow, self._store / "shallow")
        self._git("update-ref", "--no-deref", "HEAD", self.good)
        self._git("bisect", "start", "--no-checkout", self.bad, self.good)
        listed = self._git("rev-list", "--topo-order", "--reverse", f"{self.good}..{self.bad}")
        #: All commits, from GOOD to BAD.
        self.commits = (self.good, *listed.split())

    def next(self) -> str | None:
        """Return the commit to be tested next; None if nothing is left to be."""
        return None if self.first_bad() else self._git("rev-parse", "BISECT_HEAD")

    def mark(self, commit: str, word: Literal["good", "bad", "skip"]) -> None:
        """Record what a commit is."""
        self._git("bisect", word, commit)

    def first_bad(self) -> tuple[str, ...]:
        """Return the first bad commit; all that may be it if only skipped ones are left."""
        return tuple(_FIRST_BAD.findall(self.log()))

    def log(self) -> str:
        """Return what `git bisect replay` reads."""
        return self._git("bisect", "log")

    def described(self, commit: str) -> dict[str, str]:
        """Return hash, subject, author and date (ISO 8601) of a commit."""
        shown = ("show", "-s", "--no-show-signature", "--format=%H%x00%s%x00%an <%ae>%x00%aI")
        found = self._git(*shown, commit)
        return dict(zip(("hash", "subject", "author", "date"), found.split("\0"), strict=True))

    def _git(self, *words: str) -> str:
        environment = {"GIT_DIR": str(self._store)}
        reply = _try(self._store, words, environment)
        ended = words[0] == "bisect" and "could be any of" in reply.stdout  # status 2
        return reply.stdout.strip() if ended else _output(self._store, words, reply)


_FIRST_BAD = re.compile(r"^# (?:possible )?first bad commit: \[([0-9a-f]+)\]", re.MULTILINE)


def _commit(place: Path, revision: str, option: str) -> str:
    words = ("rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}")
    found = _try(place, words, {}).stdout.strip()
    if not found:
        message = f"no commit '{revision}' in {place}"
        hint = f"`git -C {place} log --oneline` lists them"
        raise RequestError(message, where=f"{option} {revision}", hint=hint)
    return found


def _borrow(place: Path, bench: Path) -> Path:
    """Return the bench's repository, made if need be, which finds the tree's objects."""
    objects = _objects(place)
    store = bench.resolve() / "git"
    if not (store / "HEAD").exists():
        (bench / "source").mkdir(parents=True, exist_ok=True)
        _run(bench, ("init", "-q", "--bare", "--template=", str(store)), {})
    (store / "objects/info").mkdir(exist_ok=True)
    (store / "objects/info/alternates").write_text(f"{objects}\n", encoding="utf-8")
    return store


def _state(place: Path, bench: Path) -> str:
    with tempfile.TemporaryDirectory(prefix=".looking-", dir=bench) as at:
        index = Path(at) / "index"
        own = Path(place, _run(place, ("rev-parse", "--git-path", "index"), {}))
        if own.exists():
            shutil.copy2(own, index)  # with its time, by which git knows what it must read
        aside = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(bench.resolve() / "git/objects"),
        }
        _run(place, ("add", "-A"), aside)
        return _run(place, ("write-tree",), aside)


def _objects(place: Path) -> Path:
    """Return the directory of a tree's objects; refuse what is not the top of a git tree."""
    reply = _try(place, ("rev-parse", "--show-toplevel", "--git-path", "objects"), {})
    top, _, objects = reply.stdout.rstrip("\n").partition("\n")
    if reply.returncode or not top:
        said = reply.stderr.strip().partition("\n")[0]
        raise RequestError(
            f"not a git tree: {said}",
            where=str(place),
            hint="`git init`, `git add -A` and `git commit` in it, or give a tarball",
        )
    if Path(top).resolve() != place.resolve():
        raise RequestError("not the top of its git tree", where=str(place), hint=f"give {top}")
    return (place / objects).resolve()


#: Made before anything is compiled and removed after it, even if that failed, but not if all was
#: killed.
_AT_WORK = "at-work"


def _remove_unfinished(bench: Path, checkout: Mapping[str, str]) -> None:
    """Remove what a killed build has made: an object may be half an object."""
    note = bench / _AT_WORK
    if not note.exists():
        return
    since = note.stat().st_mtime_ns
    made = _run(bench, ("ls-files", "-z", "--others"), checkout).split("\0")
    for name in filter(None, made):
        path = bench / "source" / name
        if path.is_symlink() or (path.is_file() and path.stat().st_mtime_ns >= since):
            path.unlink()
    note.unlink()


def _store(bench: Path) -> dict[str, str]:
    return {
        "GIT_DIR": str(bench.resolve() / "git"),
        "GIT_WORK_TREE": str(bench.resolve() / "source"),
    }


def _try(
    place: Path, words: Sequence[str], extra: Mapping[str, str], fed: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run git with the user's settings of what is ignored, but not with those of a hook."""
    kept = ("PATH", "HOME", "XDG_CONFIG_HOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    try:
        return subprocess.run(
            [*_GIT, *words],
            cwd=extra.get("GIT_WORK_TREE", place),
            env=environment | {"LC_ALL": "C"} | dict(extra),
            input=fed.decode(errors="surrogateescape"),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
    except FileNotFoundError:
        if place.is_dir():
            raise KernelBuildError("no git", hint="sudo apt-get install git") from None
        raise RequestError("no such directory", where=str(place)) from None


def _run(place: Path, words: Sequence[str], extra: Mapping[str, str]) -> str:
    return _output(place, words, _try(place, words, extra))


def _output(place: Path, words: Sequence[str], reply: subprocess.CompletedProcess[str]) -> str:
    if reply.returncode:
        said = "".join(f"\n    {line}" for line in reply.stderr.splitlines()[-8:])
        raise KernelBuildError(f"'git {words[0]}' failed:{said}", where=str(place))
    return reply.stdout.removesuffix("\n")
