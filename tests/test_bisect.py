"""The commit that makes a metric worse: verdicts, skips, and the messages of what cannot be."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpf_lab.base.errors import KernelBuildError, LabError, NoRoomError, RequestError
from tcpf_lab.base.errors import TestbedError as BedError
from tcpf_lab.cli.bisect import _worse_by
from tcpf_lab.cli.main import app
from tcpf_lab.papers.bisected import Bisection, Commit, page_of_bisection
from tcpf_lab.papers.stored import as_text, read_page
from tcpf_lab.report.claims.page import Drawing
from tcpf_lab.report.style import house_style
from tcpf_lab.run.bisect import Criterion, Numbers, Search, judge
from tcpf_lab.testbed.uml.gittree import History

TEN = Criterion("timeouts", 0.1, 12)


def git(tree: Path, *words: str) -> str:
    own = ("-c", "user.name=A", "-c", "user.email=a@b.example")
    reply = subprocess.run(["git", *own, *words], cwd=tree, check=True, capture_output=True)
    return reply.stdout.decode().strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Eleven commits, each tagged with its number."""
    made = tmp_path / "tree"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    for number in range(11):
        git(made, "commit", "-q", "--allow-empty", "-m", f"commit {number}")
        git(made, "tag", f"c{number}")
    return made


class Lab:
    """Builds and measures commits, as ``kernels`` and ``means`` have them by their number."""

    def __init__(self, tree: Path, means: Mapping[str, float], noise: float = 0) -> None:
        self.tree, self.means, self.noise = tree, means, noise
        self.broken: Mapping[str, LabError] = {}
        self.measured: list[tuple[str, int]] = []
        self.lines: list[str] = []

    def build(self, commit: str) -> str:
        number = int(git(self.tree, "describe", "--tags", commit)[1:])
        if error := self.broken.get(f"c{number}"):
            raise error
        return next(name for name in reversed(self.means) if int(name[1:]) <= number)

    def measure(self, kernel: str, seeds: int) -> dict[int, float]:
        if error := self.broken.get(f"{kernel} runs") or self.broken.get(f"{kernel} {seeds} seeds"):
            raise error
        self.measured.append((kernel, seeds))
        own = self.noise * (kernel != "c0")
        return {n: 100 + n + self.means[kernel] + own * (-1) ** n for n in range(1, seeds + 1)}

    def find(self, good: str = "c0", bad: str = "c10") -> Bisection:
        history = History(self.tree, good, bad)
        return Search(history, TEN, self.build, self.measure, self.lines.append).run()


def contents(tree: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def subjects(found: Bisection) -> list[str]:
    return [one.subject for one in found.first_bad]


def word_of(good: Numbers, own: Numbers, sign: float) -> str:
    return judge(Commit("", "", "", ""), good, own, TEN, sign).word


@pytest.mark.parametrize(
    ("own", "sign", "word"),
    [
        ((100, 110, 120), 0, "good"),
        ((120, 130, 140), 0, "bad"),
        ((80, 90, 100), 0, "bad"),  # either way, for BAD
        ((80, 90, 100), 1, "good"),  # better, where BAD is worse
        ((105, 140, 122), 1, "skip"),
        ((120,), 1, "skip"),
    ],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(own, sign, word):
    good, theirs = dict(enumerate((100, 110, 120))), dict(enumerate(own))
    assert word_of(good, theirs, sign) == word


def test_nothing_is_worse_than_none_unless_all_of_the_interval_is():
    zero = dict.fromkeys(range(3), 0.0)
    assert word_of(zero, zero, 1) == "good"
    assert word_of(zero, dict.fromkeys(range(3), 2.0), 1) == "bad"


def test_looks_double_and_share_the_error():
    assert TEN.looks == (3, 6, 12)
    assert TEN.confidence == pytest.approx(1 - 0.05 / 3)
    assert Criterion("timeouts", 0.1, 2).looks == (2,)


def test_ends_at_the_first_bad_commit_and_measures_equal_kernels_once(tree):
    before = contents(tree)
    lab = Lab(tree, {"c0": 0, "c7": 30})
    found = lab.find()
    assert contents(tree) == before
    assert subjects(found) == ["commit 7"]
    assert lab.measured == [("c0", 3), ("c7", 3)]
    assert {len(one.changes) for one in found.revisions} == {3}
    places = [int(one.commit.subject.removeprefix("commit ")) for one in found.revisions]
    assert places == sorted(places)
    assert found.threshold == pytest.approx(10.2)
    assert "first bad commit" in found.log


def test_seeds_are_added_while_a_verdict_is_open(tree):
    lab = Lab(tree, {"c0": 0, "c7": 20}, noise=5)
    assert subjects(lab.find()) == ["commit 7"]
    assert {number for name, number in lab.measured if name == "c7"} == {3, 6}


@pytest.mark.parametrize("end", ["c5", "c5 runs"])
def test_what_does_not_build_boot_or_run_is_skipped(tree, end):
    lab = Lab(tree, {"c0": 0, "c5": 0, "c6": 0, "c7": 30})
    broken = "'make' failed; last lines:\n  a.c:3:1: error: no\n  make: 2"
    lab.broken = {end: (BedError if "runs" in end else KernelBuildError)(broken)}
    found = lab.find()
    assert subjects(found) == ["commit 7"]
    (skipped,) = (one for one in found.revisions if one.word == "skip")
    assert skipped.commit.subject == "commit 5"
    assert skipped.remark == "a.c:3:1: error: no"


def test_skipped_commits_beside_the_first_bad_one_leave_several(tree):
    lab = Lab(tree, {"c0": 0, "c7": 30})
    lab.broken = {"c6": KernelBuildError("the kernel does not boot: panic")}
    assert subjects(lab.find()) == ["commit 7", "commit 6"]


def test_all_skipped_leaves_all(tree):
    lab = Lab(tree, {"c0": 0, "c10": 30})
    lab.broken = {f"c{n}": KernelBuildError("does not compile") for n in range(1, 10)}
    found = lab.find()
    assert len(found.first_bad) == 10
    assert {one.remark for one in found.revisions[1:-1]} == {"does not compile"}


def test_a_full_disk_ends_the_search(tree):
    lab = Lab(tree, {"c0": 0, "c7": 30})
    lab.broken = {"c5": NoRoomError("the disk is full")}
    with pytest.raises(NoRoomError):
        lab.find()


@pytest.mark.parametrize(("broken", "option"), [("c0", "--good"), ("c10", "--bad")])
def test_an_end_that_does_not_build_is_an_error_that_names_it(tree, broken, option):
    lab = Lab(tree, {"c0": 0, "c7": 30})
    lab.broken = {broken: KernelBuildError("does not boot", where="log")}
    with pytest.raises(KernelBuildError) as caught:
        lab.find()
    assert caught.value.where.startswith(f"{option} ")


def test_a_seed_that_good_cannot_run_is_no_fault_of_bad(tree):
    lab = Lab(tree, {"c0": 0, "c7": 20}, noise=5)
    lab.broken = {"c0 6 seeds": BedError("1 of 6 runs failed")}
    with pytest.raises(LabError, match="1 of 6 runs failed") as caught:
        lab.find()
    assert caught.value.where.startswith("--good ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (5, "BAD is not worse than GOOD: .* 4.67 ± 5.1 in 3 seeds; worse is 10.2 or more"),
        (10, "not shown to be worse .* 10 ± 0.85 in 12 seeds; worse is 10.7 or more"),
        (None, "have the same kernel"),
    ],
)
def test_bad_must_be_worse(tree, change, message):
    lab = Lab(tree, {"c0": 0} if change is None else {"c0": 0, "c7": change}, noise=1)
    with pytest.raises(LabError, match=message) as caught:
        lab.find()
    assert caught.value.exit_status == 1


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        ("nothing", "c10", "no commit 'nothing'"),
        ("c0", "-h", "no commit '-h'"),
        ("c10", "c0", "GOOD is not an ancestor of BAD"),
        ("c3", "c3", "both are the same commit"),
    ],
)
def test_revisions_that_cannot_be_bisected(tree, good, bad, message):
    with pytest.raises(RequestError, match=message):
        History(tree, good, bad)


def test_a_directory_without_git_is_refused(tmp_path):
    (tmp_path / "plain").mkdir()
    with pytest.raises(RequestError, match="not a git tree"):
        History(tmp_path / "plain", "a", "b")


def test_searches_of_one_tree_at_the_same_time_are_apart(tree):
    first, second = History(tree, "c0", "c10"), History(tree, "c0", "c3")
    assert first.next() != second.next()


def test_signatures_that_git_shows_are_not_read(tree, tmp_path, monkeypatch):
    (tmp_path / ".gitconfig").write_text("[log]\nshowSignature = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    git(tree, "tag", "-a", "-m", "one\n-----BEGIN PGP SIGNATURE-----\n", "signed", "c9")
    git(tree, "checkout", "-q", "c8")
    git(tree, "merge", "-q", "--no-ff", "-m", "merged", "signed")
    history = History(tree, "c8", "HEAD")
    assert history.described(history.bad)["hash"] == history.bad


def test_neighbours_need_no_step(tree):
    lab = Lab(tree, {"c0": 0, "c7": 30})
    assert subjects(lab.find("c6", "c7")) == ["commit 7"]


def test_a_shallow_clone_is_enough(tree, tmp_path):
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "6", f"file://{tree}", str(shallow))
    assert subjects(Lab(shallow, {"c0": 0, "c7": 30}).find("c5")) == ["commit 7"]


def refused(tree: Path, **changed: str) -> RequestError:
    words = {"tree": str(tree), "good": "c0", "bad": "c10", "metric": "timeouts"}
    words |= {"worse-by": "10%"} | changed
    line = [part for name, word in words.items() for part in (f"--{name}", word)]
    done = CliRunner().invoke(app, ["bisect", "smoke.yaml", *line])
    assert isinstance(done.exception, RequestError)
    return done.exception


@pytest.mark.parametrize(
    ("option", "word", "message"),
    [
        ("metric", "timeout", "Did you mean 'timeouts'"),
        ("good", "c11", "no commit 'c11'"),
        ("worse-by", "10", "no share of GOOD's mean"),
    ],
)
def test_a_wrong_option_is_named(tree, monkeypatch, option, word, message):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tree.parent))
    error = refused(tree, **{option: word})
    assert message in error.message
    assert error.where == f"--{option} {word}"


@pytest.mark.parametrize("words", ["10", "0%", "ten%", "-3%", "nan%"])
def test_a_threshold_is_a_percentage(words):
    with pytest.raises(RequestError, match="no share of GOOD's mean"):
        _worse_by(words)


def test_the_page_is_drawn_and_read_again(tree, tmp_path):
    lab = Lab(tree, {"c0": 0, "c5": 0, "c6": 0, "c7": 30}, noise=1)
    lab.broken = {"c5": KernelBuildError("does not compile")}
    page = page_of_bisection("a test", lab.find())
    (tmp_path / "page.json").write_text(as_text(page))
    assert read_page(tmp_path / "page.json") == page
    (drawing,) = (block for block in page.blocks if isinstance(block, Drawing))
    with house_style():
        drawing.frame.draw(drawing.points)
