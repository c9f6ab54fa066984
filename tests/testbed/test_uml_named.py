"""Kernels that the user has named, with a small stand-in for the source and for make."""

from __future__ import annotations

import functools
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from test_uml_kernel import EMPTY, MAKEFILE, PATCH, Site

from tcpf_lab.base.errors import KernelAbsentError, KernelBuildError, LabError, RequestError
from tcpf_lab.cli import console
from tcpf_lab.run.selection import RunRequest, choose
from tcpf_lab.testbed.uml import boot, registered
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.uml import source as uml_source
from tcpf_lab.testbed.uml.guest import UmlTestbed

OWN = PATCH.replace("-hello", "-good bye").replace("+good bye", "+so long")


class Tree(Site):
    """A git tree, and all that a site has."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(root, monkeypatch)
        (self.recipe_root / "uml/patches/6.12").mkdir()
        monkeypatch.setenv("XDG_CACHE_HOME", str(root / "xdg"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
        monkeypatch.setattr(registered, "_found", {})
        monkeypatch.setattr(
            uml_recipe, "load", functools.partial(uml_recipe.load, self.recipe_root)
        )
        self.cache = uml_kernel.cache_directory()
        self.tree = root / "tree"
        self.tree.mkdir()
        for name, text in (
            ("Makefile", MAKEFILE.format(6, 13)),
            ("greeting", "hello\n"),
            ("other", "as it was\n"),
            (".gitignore", "*.o\n"),
        ):
            (self.tree / name).write_text(text)
        self.git("init", "-q")
        self.commit()

    def git(self, *words: str) -> str:
        own = ("-c", "user.name=a", "-c", "user.email=a@b.example")
        reply = subprocess.run(
            ["git", *own, *words], cwd=self.tree, capture_output=True, text=True, check=True
        )
        return reply.stdout

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "one")
        return self.git("rev-parse", "HEAD").strip()

    def content(self) -> dict[Path, bytes]:
        files = (path for path in self.tree.rglob("*") if path.is_file())
        return {path: path.read_bytes() for path in files}

    def made(self) -> uml_kernel.Kernel:
        return uml_source.build("mine")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(boot, "check", lambda _kernel: None)
    found = Tree(tmp_path, monkeypatch)
    registered.add("mine", found.tree)
    return found


def test_git_tree_is_built_as_it_is_and_stays_as_it_is(tree: Tree) -> None:
    commit = tree.git("rev-parse", "HEAD").strip()
    first = tree.made()
    assert first.path.read_text() == "good bye\n"
    assert first.version == "6.13.117"
    clean = {"source": "git", "tree": tree.git("rev-parse", "HEAD^{tree}").strip()}
    assert first.origin == clean | {"commit": commit, "dirty": False}
    (tree.tree / "other").write_text("changed\n")
    (tree.tree / "new.c").write_text("new\n")
    (tree.tree / "new.o").write_text("ignored\n")
    before = tree.content()
    second = tree.made()
    assert tree.content() == before
    assert second.origin["dirty"] is True
    assert second.key != first.key
    assert second.kernel_key != first.kernel_key
    bench = registered.get("mine").bench / "source"
    assert (bench / "new.c").exists()
    assert not (bench / "new.o").exists()
    calls = tree.calls.read_text()
    tree.commit()
    third = tree.made()
    assert replace(third, origin={}) == replace(second, origin={}), "the same tree"
    assert third.origin["dirty"] is False
    assert tree.calls.read_text() == calls, "at once"


def test_only_what_has_changed_is_written_and_built_again(tree: Tree) -> None:
    first = tree.made()
    bench = registered.get("mine").bench / "source"
    times = {name: (bench / name).stat().st_mtime_ns for name in ("greeting", "Makefile")}
    (tree.tree / "other").unlink()
    (tree.tree / "new.c").write_text("new\n")
    calls = tree.calls.read_text()
    second = tree.made()
    assert {name: (bench / name).stat().st_mtime_ns for name in times} == times
    assert not (bench / "other").exists()
    more = tree.calls.read_text().removeprefix(calls)
    assert "M=" not in more, "modules are those of the first: nothing they are made from differs"
    assert (second.directory / "tcpf-guest").samefile(first.directory / "tcpf-guest")
    assert second.modules == first.modules
    assert "allnoconfig" not in more, "nothing that a configuration reads"


def test_git_tree_is_configured_again_for_what_a_configuration_reads(tree: Tree) -> None:
    config = tree.made().tree / ".config"
    expected = config.read_text()
    for name in ("Kconfig", ".config"):
        (tree.tree / name).write_text("config A\n")
        calls = tree.calls.read_text()
        kernel = tree.made()
        assert "allnoconfig" in tree.calls.read_text().removeprefix(calls)
        assert (kernel.tree / ".config").read_text() == expected


def test_revision_is_built_whatever_is_checked_out(tree: Tree) -> None:
    old = tree.git("rev-parse", "HEAD").strip()
    (tree.tree / "greeting").write_text("hello\nworld\n")
    (tree.recipe_root / "uml/patches/0001-first.patch").unlink()
    what = registered.get("mine")
    kernel = uml_source.build_registered(what, lambda _phase, _share: None, revision=old)
    assert kernel.path.read_text() == "hello\n"
    assert kernel.origin["commit"] == old
    with pytest.raises(RequestError, match="no commit 'nothing'"):
        registered.look(what, revision="nothing")


def test_patches_and_configuration_are_added_and_part_of_the_key(tree: Tree) -> None:
    plain = tree.made()
    (tree.root / "own.patch").write_text(OWN)
    (tree.root / "lines").write_text("# a comment\nCONFIG_C=5\n# CONFIG_A is not set\n")
    registered.add("mine", tree.tree, [tree.root / "own.patch"], [str(tree.root / "lines")])
    kernel = tree.made()
    assert kernel.path.read_text() == "so long\n"
    assert kernel.patches == ("0001-first.patch", str(tree.root / "own.patch"))
    assert kernel.config == ("CONFIG_C=5", "CONFIG_A=n")
    assert (kernel.tree / ".config").read_text() == "CONFIG_EARLY_PRINTK=y\nCONFIG_C=5\n"
    assert kernel.kernel_key != plain.kernel_key
    facts = UmlTestbed(kernel).facts(EMPTY)
    assert (facts["kernel_config"], facts["kernel_origin"]) == (list(kernel.config), kernel.origin)


def test_tarball_with_a_name_is_not_that_of_its_version(tree: Tree) -> None:
    registered.add("ball", tree.tarball("6", "13"))
    named = uml_source.build("ball")
    assert named.path.read_text() == "good bye\n"
    assert uml_kernel.find(recipe=uml_recipe.load(version="6.13")) is None
    assert registered.require("ball") == named


def test_runs_of_one_command_are_on_one_kernel(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tree.made()
    mine = replace(EMPTY, kernel="mine")
    bed = UmlTestbed(first)
    assert bed.kernel_of(mine) == first
    (tree.tree / "other").write_text("changed\n")
    assert bed.kernel_of(mine) == first
    monkeypatch.setattr(registered, "_found", {})
    later = UmlTestbed(first)
    (problem,) = (each for each in later.check(mine) if "mine" in each)
    assert "'mine' is not built as its source is now" in problem
    assert "`tcpf-lab kernel build mine`" in problem
    assert later.identity(mine) == {}
    second = tree.made()
    assert later.identity(mine)["kernel"] == second.kernel_key != first.kernel_key


def test_name_that_is_not_registered_is_refused_with_the_likely_one(tree: Tree) -> None:
    with pytest.raises(RequestError, match=r"registered: mine\. Did you mean 'mine'"):
        uml_source.build("mien")
    registered.remove("mine")
    other = registered.directory().with_name("other.toml")
    other.touch()
    for name in ("mine", "../other"):
        with pytest.raises(RequestError, match=f"no kernel '{name}' is registered"):
            registered.remove(name)
    assert other.exists()


def test_removed_kernel_leaves_no_work_directory_and_what_was_built(tree: Tree) -> None:
    kernel = tree.made()
    bench = registered.get("mine").bench
    registered.remove("mine")
    assert not bench.exists()
    assert kernel.path.exists()
    assert registered.listed() == []


def test_prune_removes_what_nothing_is_built_from_now(tree: Tree) -> None:
    for variant in ("kasan", "unlogged"):
        (tree.recipe_root / f"uml/config.{variant}").touch()
    old = tree.made()
    (tree.tree / "greeting").write_text("hello\nworld\n")
    (tree.recipe_root / "uml/patches/0001-first.patch").unlink()
    new = tree.made()
    of_version = uml_source.build(tarball=tree.tarball("6", "14"))
    bench = registered.get("mine").bench
    (bench.with_name("bisect-1") / "git").mkdir(parents=True)
    registered.add("gone", tree.tarball("6", "13", "gone.tar.xz"))
    (tree.root / "gone.tar.xz").unlink()
    with pytest.raises(LabError, match="gone"):
        registered.prune()
    assert old.path.exists()
    registered.remove("gone")
    assert set(registered.prune()) == {old.directory, bench.with_name("bisect-1")}
    assert new.path.exists()
    assert of_version.path.exists()
    assert bench.exists()
    assert registered.prune() == []


def test_list_says_what_is_built_and_what_cannot_be(tree: Tree) -> None:
    registered.add("gone", tree.tarball("6", "13", "gone.tar.xz"))
    (tree.root / "gone.tar.xz").unlink()
    tree.made()
    gone, mine = registered.listed()
    assert (mine["name"], mine["version"], mine["built"]) == ("mine", "6.13.117", True)
    assert "gone.tar.xz: neither a git tree nor a tarball" in gone["problem"]
    (tree.tree / "other").write_text("changed\n")
    assert registered.listed()[1]["built"] is False


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"name": "6.12-mine"}, "'6.12-mine' cannot name a kernel"),
        ({"name": "v7"}, "'v7' cannot name a kernel"),
        ({"source": "nothing"}, "nothing: neither a git tree nor a tarball"),
        ({"source": "kernel"}, "kernel: not a git tree: .*not a git repository"),
        ({"source": "tree/below"}, "below: not the top of its git tree"),
        ({"source": "greeting"}, "greeting: not a readable tarball"),
        ({"patches": ["nothing"]}, "nothing: cannot be read: No such file"),
        ({"config": ["CONFIG_A=m"]}, "--config: not an option of the kernel: 'CONFIG_A=m'"),
        ({"config": ["greeting"]}, "greeting: not an option of the kernel: 'hello'"),
    ],
)
def test_wrong_registration_is_one_error(
    tree: Tree, words: dict[str, object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.root)
    (tree.tree / "below").mkdir()
    (tree.root / "greeting").write_text("hello\n")
    values = {"name": "a", "source": "tree", "patches": [], "config": []} | words
    with pytest.raises(LabError, match=message):
        registered.add(
            str(values["name"]),
            Path(str(values["source"])),
            [Path(each) for each in values["patches"]],  # type: ignore[attr-defined]
            values["config"],  # type: ignore[arg-type]
        )
    assert registered.names() == ["mine"]


def test_tree_that_is_no_kernel_or_too_old_is_refused(tree: Tree) -> None:
    (tree.tree / "Makefile").write_text(MAKEFILE.format(5, 10))
    with pytest.raises(RequestError, match=r"5\.10 is too early: patches are for 6\.12 and later"):
        registered.add("old", tree.tree)
    (tree.tree / "Makefile").write_text("all:\n")
    with pytest.raises(KernelBuildError, match="no version in its Makefile"):
        registered.add("none", tree.tree)
    (tree.tree / "Makefile").unlink()
    with pytest.raises(KernelBuildError, match="git tracks no Makefile"):
        registered.add("none", tree.tree)


def test_patch_that_does_not_apply_is_named_with_file_and_hunk(tree: Tree) -> None:
    (tree.root / "own.patch").write_text(OWN.replace("-good", "-bad"))
    registered.add("mine", tree.tree, [tree.root / "own.patch"])
    registered.add("ball", tree.tarball("6", "13"), [tree.root / "own.patch"])
    for name, reason in (("mine", "patch failed: greeting:1"), ("ball", "Hunk #1 FAILED at 1")):
        with pytest.raises(KernelBuildError) as caught:
            uml_source.build(name)
        assert f"patch {tree.root}/own.patch does not apply to this Linux 6.13:\n    {reason}" in (
            caught.value.message
        )
        assert not list(tree.cache.glob("*/linux"))
    (tree.tree / "greeting").write_text("another\n")
    with pytest.raises(
        KernelBuildError, match=r"tcpf-lab's patch 0001-first\.patch does not"
    ) as caught:
        tree.made()
    assert caught.value.hint.startswith("Linux 6.12 are tested: ")


def test_line_of_configuration_without_effect_is_named(tree: Tree) -> None:
    registered.add("mine", tree.tree, config=["CONFIG_REFUSED=y"])
    with pytest.raises(KernelBuildError, match="drops CONFIG_REFUSED=y") as caught:
        tree.made()
    assert caught.value.where == "--config"


def test_tree_that_does_not_compile_is_an_error_of_its_lines(tree: Tree) -> None:
    fault = 'echo "net/a.c:3:1: error: sorry"; seq 50; exit 2'
    tree.use_make(extra=fault)
    with pytest.raises(
        KernelBuildError, match=r"does not compile:\n    net/a\.c:3:1: error: sorry\n  try"
    ):
        tree.made()
    tree.use_make()
    assert tree.made().path.exists()


def test_what_a_killed_build_has_written_is_made_again(tree: Tree) -> None:
    first = tree.made()
    bench = registered.get("mine").bench
    whole, half = bench / "source/whole.o", bench / "source/half.o"
    whole.write_text("whole")
    os.utime(whole, ns=(0, 0))
    (bench / "at-work").touch()
    half.write_text("ha")
    (bench / "index.lock").touch()
    (tree.cache / ".building-0").mkdir()
    (tree.tree / "other").write_text("changed\n")
    assert tree.made().key != first.key
    assert whole.exists()
    assert not half.exists()
    assert not list(tree.cache.glob(".building-*"))


def test_kernel_that_panics_is_not_kept(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    site = Tree(tree.root / "second", monkeypatch)
    text = "#!/bin/sh\necho 'last words'\necho 'Kernel panic - not syncing: trial'\nexit 1\n"
    (site.tree / "greeting").write_text(text)
    (site.recipe_root / "uml/patches/0001-first.patch").unlink()
    registered.add("mine", site.tree)
    with pytest.raises(
        KernelBuildError, match=r"does not boot: .*panicked: Kernel panic"
    ) as caught:
        site.made()
    assert "  | last words\n" in caught.value.message
    assert not list(site.cache.glob("*/linux"))


def test_shipped_experiment_runs_on_another_kernel_if_its_own_is_absent(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(_source: object, version: str = "") -> None:
        raise KernelAbsentError("no source")

    monkeypatch.setattr(console, "build_kernel", build)
    said: list[str] = []
    monkeypatch.setattr(console, "_warn", said.append)
    chosen = console.on_available_kernel(choose(RunRequest("smoke.yaml")))
    assert {run.experiment.kernel for run in chosen.runs} == {"mine"}
    assert registered.require("mine").path.exists()
    assert said == ["no source: smoke runs on kernel 'mine', as with --set kernel='mine'"]
    own = tmp_path / "own.yaml"
    own.write_text(choose(RunRequest("smoke.yaml")).source.read_text())
    with pytest.raises(KernelAbsentError):
        console.on_available_kernel(choose(RunRequest(str(own))))
