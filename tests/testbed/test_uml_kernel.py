"""Building and finding kernels, with a small stand-in for the kernel source and for make."""

from __future__ import annotations

import errno
import functools
import io
import json
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import without_syscalls
from without_syscalls import PTRACE, SECCOMP

from tcpf_lab.base.errors import KernelAbsentError, KernelBuildError, RequestError
from tcpf_lab.cli import console
from tcpf_lab.plan.compose import Plan
from tcpf_lab.plan.step import Phase, Sysctl
from tcpf_lab.testbed.uml import kernel as uml_kernel
from tcpf_lab.testbed.uml import preflight
from tcpf_lab.testbed.uml import recipe as uml_recipe
from tcpf_lab.testbed.uml import source as uml_source
from tcpf_lab.testbed.uml.guest import UmlTestbed
from tcpf_lab.testbed.uml.recipe import Recipe
from tcpf_lab.testbed.workshop import Progress

EMPTY = Plan(phases=(), expect={}, window=(0.0, 1.0), programs=())
MAKEFILE = "# comment\nVERSION = {0}\nPATCHLEVEL = {1}\nSUBLEVEL = 117\nEXTRAVERSION =\n"
PROGRAM = "int main(void)\n{\n\treturn 0;\n}\n"
PATCH = """A reason.

--- a/greeting
+++ b/greeting
@@ -1 +1 @@
-hello
+good bye
"""
#: Does what the real one does, as far as the build can see.
FAKE_MAKE = """#!/bin/sh
echo "$*" >> "{calls}"
for word; do
    case $word in
    KCONFIG_ALLCONFIG=*) fragment=${{word#*=}} ;;
    M=*) modules=${{word#*=}} ;;
    O=*) plugins=${{word#*=}} ;;
    esac
done
case "$*" in
*M=*)
    {modules_extra}
    [ ! -e "$modules/sch_a.c" ] || cp "$modules/sch_a.c" "$modules/sch_a.ko"
    ;;
*O=*)
    mkdir "$plugins"
    : > "$plugins/q_a.d"
    : > "$plugins/q_a.so"
    ;;
*allnoconfig)
    sed -e /REFUSED/d -e '/=n$/d' "$fragment" > .config
    ;;
*)
    {extra}
    echo "  CC      init/main.o"
    cat greeting > linux
    chmod +x linux
    : > Module.symvers
    : > System.map
    mkdir -p scripts/basic arch/um arch/x86 include tools/include
    : > scripts/basic/fixdep
    : > scripts/basic/fixdep.o
    : > arch/x86/Makefile.um
    : > arch/x86/source.c
    ;;
esac
"""


class Site:
    """A recipe, a source tarball, a cache and a fake make, all in one directory."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.cache = root / "cache"
        self.calls = root / "calls"
        self.recipe_root = root / "kernel"
        (self.recipe_root / "uml/patches").mkdir(parents=True)
        (self.recipe_root / "traffic").mkdir()
        self.write("uml/version", "6.12\n")
        self.write("uml/config", "# comment\n\nCONFIG_A=y\nCONFIG_B=n\n")
        self.write("uml/patches/0001-first.patch", PATCH)
        self.write("uml/guest.c", PROGRAM)
        for part in ("plan.c", "program.c", "node.c", "module.c"):
            self.write(f"uml/guest_{part}", "/* nothing */\n")
        self.write("uml/guest.h", "/* nothing */\n")
        for files in uml_recipe.TRAFFIC_PROGRAMS.values():
            self.write(files[0], PROGRAM)
            for file in files[1:]:
                self.write(file, "/* nothing */\n")
        for part in ("sched", "drivers", "tc", "include/net"):
            (self.recipe_root / part).mkdir(parents=True)
        self.write("sched/Kbuild", "obj-m := sch_a.o\n")
        self.write("sched/sch_a.c", "/* a module */\n")
        self.write("drivers/Kbuild", "obj-m :=\n")
        self.write("tc/Makefile", "all:\n")
        self.write("tc/q_a.c", "/* a plugin */\n")
        self.write("include/net/a.h", "/* a header */\n")
        self.source = self.tarball("6", "12")
        tools = root / "tools"
        tools.mkdir()
        self.make = tools / "make"
        self.use_make()
        monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")

    def write(self, name: str, text: str) -> None:
        (self.recipe_root / name).write_text(text)

    def use_make(self, extra: str = ":", modules_extra: str = ":") -> None:
        text = FAKE_MAKE.format(calls=self.calls, extra=extra, modules_extra=modules_extra)
        self.make.write_text(text)
        self.make.chmod(0o755)

    def tarball(self, version: str, patchlevel: str, name: str = "linux.tar.xz") -> Path:
        files = {
            "Makefile": MAKEFILE.format(version, patchlevel),
            "greeting": "hello\n",
            "arch/arm/boot/a.dts": "left out",
            "arch/um/Makefile": "kept",
        }
        path = self.root / name
        with tarfile.open(path, "w:xz") as archive:
            for member, text in files.items():
                info = tarfile.TarInfo(f"linux-source-6.12/{member}")
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text.encode()))
        return path

    @property
    def recipe(self) -> Recipe:
        return uml_recipe.load(self.recipe_root)

    def build(self, progress: uml_kernel.Progress | None = None) -> uml_kernel.Kernel:
        return uml_kernel.build(self.source, self.cache, progress, self.recipe)

    def entries(self) -> list[str]:
        """What a build has left in the cache, apart from its notes."""
        notes = {"lock", "source.json", "failed-build.log"}
        return sorted({p.name for p in self.cache.glob("*")} - notes)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_build_leaves_patched_kernel_programs_and_module_tree(site: Site) -> None:
    kernel = site.build()
    assert kernel.path.read_text() == "good bye\n"
    assert kernel.version == "6.12.117"
    assert kernel.patches == ("0001-first.patch",)
    assert (kernel.directory / "tcpf-traffic").stat().st_mode & 0o100
    assert (kernel.directory / "tcpf-guest").stat().st_mode & 0o100
    kept = {str(p.relative_to(kernel.tree)) for p in kernel.tree.rglob("*") if p.is_file()}
    assert {"Makefile", ".config", "Module.symvers", "scripts/basic/fixdep"} <= kept
    assert "arch/x86/Makefile.um" in kept
    assert "arch/x86/source.c" not in kept
    assert "scripts/basic/fixdep.o" not in kept
    assert site.entries() == sorted([kernel.key, "current"])
    assert (site.cache / "current/linux").samefile(kernel.path)


def test_build_reports_each_phase_up_to_its_end(site: Site) -> None:
    seen: dict[str, float] = {}
    site.build(seen.__setitem__)
    phases = ["unpack", "patch", "configure", "compile", "programs", "modules", "clean"]
    assert list(seen) == phases
    assert all(share == 1.0 for share in seen.values())


def test_second_build_takes_the_first_from_the_cache(site: Site) -> None:
    first = site.build()
    calls = site.calls.read_text()
    assert site.build() == first
    assert site.calls.read_text() == calls


def test_changed_guest_program_reuses_the_kernel(site: Site) -> None:
    first = site.build()
    calls = site.calls.read_text()
    site.write("uml/guest.c", PROGRAM.replace("return 0", "return 1"))
    second = site.build()
    assert second.key != first.key
    assert second.path.samefile(first.path)
    assert (second.tree / "Module.symvers").exists()
    assert not (second.directory / "tcpf-guest").samefile(first.directory / "tcpf-guest")
    assert changed_parts(first, second) == {"tcpf-guest"}
    assert kernel_steps(site.calls.read_text()) == kernel_steps(calls)


def changed_parts(first: uml_kernel.Kernel, second: uml_kernel.Kernel) -> set[str]:
    """Name what makes runs stale that were made with the first, if they load no module."""
    before, now = (UmlTestbed(kernel).identity(EMPTY) for kernel in (first, second))
    return {part for part in now if now[part] != before[part]}


def kernel_steps(calls: str) -> list[str]:
    """Leave out what is made for modules and plugins."""
    return [call for call in calls.splitlines() if "-C" not in call.split()]


def test_build_leaves_modules_and_plugins_with_their_hashes(site: Site) -> None:
    kernel = site.build()
    module, plugin = kernel.directory / "modules/sch_a.ko", kernel.directory / "tc/q_a.so"
    assert module.read_text() == "/* a module */\n"
    assert kernel.modules == {"sch_a": uml_recipe.sha256_of(module)}
    assert kernel.plugins == {"q_a": uml_recipe.sha256_of(plugin)}
    assert [path.name for path in plugin.parent.iterdir()] == ["q_a.so"]
    assert uml_recipe.plugin_of("sch_a") == "q_a"
    assert uml_recipe.plugin_of("act_b") == "m_b"
    assert uml_recipe.plugin_of("c") == "link_c"


def test_changed_module_reuses_kernel_and_leaves_the_machine_as_it_is(site: Site) -> None:
    first = site.build()
    calls = site.calls.read_text()
    site.write("sched/sch_a.c", "/* another module */\n")
    second = site.build()
    assert second.key != first.key
    assert changed_parts(first, second) == set()
    assert second.modules != first.modules
    assert second.plugins == first.plugins
    assert second.path.samefile(first.path)
    assert kernel_steps(site.calls.read_text()) == kernel_steps(calls)


def test_products_in_a_checkout_are_neither_used_nor_part_of_the_key(site: Site) -> None:
    before = site.recipe.digest
    for name in ("sched/sch_b.ko", "sched/sch_b.mod.c", "sched/.sch_b.o.cmd", "tc/q_b.so"):
        site.write(name, "left over")
    assert site.recipe.digest == before
    kernel = site.build()
    assert set(kernel.modules) == {"sch_a"}
    assert set(kernel.plugins) == {"q_a"}


def test_module_that_does_not_compile_is_named_with_its_line(site: Site) -> None:
    fault = 'echo "$modules/sch_a.c:3:1: error: sorry"; echo "make[2]: *** [a.o] Error 1"; exit 2'
    site.use_make(modules_extra=f"seq 50; {fault}")
    with pytest.raises(KernelBuildError) as caught:
        site.build()
    assert f"{site.recipe_root}/sched/sch_a.c:3:1: error: sorry" in caught.value.message
    assert "make[2]" not in caught.value.message
    assert site.entries() == []


def test_symbol_that_the_kernel_does_not_have_is_named(site: Site) -> None:
    fault = 'ERROR: modpost: \\"nothing\\" [sch_a.ko] undefined!'
    site.use_make(modules_extra=f'echo "{fault}"; exit 2')
    with pytest.raises(KernelBuildError, match=r'modpost: "nothing" .* undefined'):
        site.build()


def test_variant_has_a_configuration_patches_and_a_key_of_its_own(site: Site) -> None:
    first = site.build()
    site.write("uml/config.kasan", "CONFIG_B=y\n")
    (site.recipe_root / "uml/patches/kasan").mkdir()
    site.write("uml/patches/kasan/0001-more.patch", PATCH.replace("hello", "good bye", 1))
    recipe = uml_recipe.load(site.recipe_root, "kasan")
    assert recipe.config == "CONFIG_A=y\nCONFIG_B=y\n"
    second = uml_kernel.build(site.source, site.cache, recipe=recipe)
    assert (second.tree / ".config").read_text() == "CONFIG_A=y\nCONFIG_B=y\n"
    assert second.patches == ("0001-first.patch", "kasan/0001-more.patch")
    assert second.variant == "kasan"
    assert uml_kernel.find(site.cache, recipe) == second
    assert uml_kernel.find(site.cache, site.recipe) == first
    assert (site.cache / "current/linux").samefile(first.path)
    assert (site.cache / "current-kasan/linux").samefile(second.path)


def test_variant_that_shares_its_source_is_built_in_one_tree_with_the_other(site: Site) -> None:
    site.write("uml/config.unlogged", "CONFIG_A=n\n")
    recipe = uml_recipe.load(site.recipe_root, "unlogged")
    second = uml_kernel.build(site.source, site.cache, recipe=recipe)
    first = uml_kernel.find(site.cache, site.recipe)
    assert first is not None
    assert (first.variant, second.variant) == ("standard", "unlogged")
    assert (first.tree / ".config").read_text() == "CONFIG_A=y\n"
    assert (second.tree / ".config").read_text() == ""
    for kernel in (first, second):
        assert kernel.path.read_text() == "good bye\n"
        assert set(kernel.modules) == {"sch_a"}
    assert (site.cache / "current/linux").samefile(first.path)
    assert (site.cache / "current-unlogged/linux").samefile(second.path)
    assert site.build() == first
    logs = [(kernel.directory / "build.log").read_text() for kernel in (first, second)]
    assert [log.count("$ tar ") for log in logs] == [1, 1]
    assert [log.count("allnoconfig") for log in logs] == [1, 2]
    assert not list(site.cache.glob(".building-*"))


def test_variant_is_built_alone_where_the_other_is_there(site: Site) -> None:
    site.write("uml/config.unlogged", "CONFIG_A=n\n")
    first = site.build()
    recipe = uml_recipe.load(site.recipe_root, "unlogged")
    second = uml_kernel.build(site.source, site.cache, recipe=recipe)
    assert (second.directory / "build.log").read_text().count("allnoconfig") == 1
    assert site.build() == first


def test_unknown_variant_is_refused_with_the_known_ones() -> None:
    with pytest.raises(RequestError, match="unknown variant 'debug'; allowed: standard, kasan"):
        uml_recipe.load(variant="debug")


def test_changed_patch_builds_another_kernel(site: Site) -> None:
    first = site.build()
    site.write("uml/patches/0001-first.patch", PATCH.replace("good bye", "so long"))
    second = site.build()
    assert "kernel" in changed_parts(first, second)
    assert second.path.read_text() == "so long\n"
    assert first.path.read_text() == "good bye\n"


def test_found_kernel_is_the_one_that_was_built(site: Site) -> None:
    assert uml_kernel.find(site.cache, site.recipe) is None
    kernel = site.build()
    assert uml_kernel.find(site.cache, site.recipe) == kernel


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["linux", "kernel.json", "tcpf-guest", "modules/sch_a.ko", "tc/q_a.so"]
)
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_damaged_entry_is_named_not_found_and_made_again(
    site: Site, name: str, damage: str
) -> None:
    kernel = site.build()
    path = kernel.directory / name
    sound = path.read_bytes()
    if damage == "flip" and sound:
        path.write_bytes(bytes((sound[0] ^ 1, *sound[1:])))
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(sound[: len(sound) // 2] or b"more")
    assert uml_kernel.find(site.cache, site.recipe) is None
    if name != "kernel.json":  # which says what the entry is
        named = uml_kernel.damaged(site.cache, site.recipe)
        assert named == [f"{kernel.directory}: damaged: {name}"]
    assert site.build().key == kernel.key
    if name != "kernel.json":  # it holds the time that the build took
        assert path.read_bytes() == sound
    assert uml_kernel.find(site.cache, site.recipe) is not None


def test_wrong_bit_in_what_an_entry_says_of_itself_is_told(site: Site) -> None:
    kernel = site.build()
    facts = kernel.directory / "kernel.json"
    facts.write_text(facts.read_text().replace(kernel.kernel_key, "0" * 16))
    assert uml_kernel.damaged(site.cache, site.recipe) == [
        f"{kernel.directory}: damaged: kernel.json"
    ]


def test_damaged_kernel_is_nobodys_twin(site: Site) -> None:
    first = site.build()
    first.path.write_text("damaged")
    site.write("uml/guest.c", PROGRAM.replace("return 0", "return 1"))
    assert site.build().path.read_text() == "good bye\n"


def test_kernel_of_a_changed_recipe_is_not_found(site: Site) -> None:
    site.build()
    site.write("uml/config", "CONFIG_A=y\n")
    assert uml_kernel.find(site.cache, site.recipe) is None


@pytest.mark.parametrize(
    "file",
    [
        "uml/version",
        "uml/config",
        "uml/patches/0001-first.patch",
        "uml/guest.c",
        "traffic/tcpf-traffic.c",
        "traffic/instant.h",
        "sched/Kbuild",
        "sched/sch_a.c",
        "tc/Makefile",
        "tc/q_a.c",
        "include/net/a.h",
    ],
)
def test_key_changes_with_every_file_of_the_recipe(site: Site, file: str) -> None:
    before = uml_recipe.key(site.recipe.digest, "source", "gcc 12")
    path = site.recipe_root / file
    path.write_text(path.read_text() + "\n6")
    assert uml_recipe.key(site.recipe.digest, "source", "gcc 12") != before


def test_key_changes_with_source_compiler_and_new_patch(site: Site) -> None:
    before = uml_recipe.key(site.recipe.digest, "source", "gcc 12")
    assert uml_recipe.key(site.recipe.digest, "source", "gcc 12") == before
    assert uml_recipe.key(site.recipe.digest, "other", "gcc 12") != before
    assert uml_recipe.key(site.recipe.digest, "source", "gcc 13") != before
    site.write("uml/patches/0002-second.patch", PATCH)
    assert uml_recipe.key(site.recipe.digest, "source", "gcc 12") != before


def test_source_hash_is_remembered_until_the_file_changes(site: Site) -> None:
    site.cache.mkdir()
    first = uml_recipe.source_sha256(site.source, site.cache)
    assert first == uml_recipe.sha256_of(site.source)
    assert uml_recipe.source_sha256(site.source, site.cache) == first
    site.source.write_bytes(b"another content")
    assert uml_recipe.source_sha256(site.source, site.cache) == uml_recipe.sha256_of(site.source)


def test_source_of_another_version_is_refused(site: Site) -> None:
    site.source = site.tarball("6", "1")
    with pytest.raises(
        KernelBuildError, match=r"wrong kernel version: the source is Linux 6\.1\.117"
    ):
        site.build()
    assert not site.cache.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such kernel source"), (b"no tarball", "not a readable tarball")],
)
def test_unusable_source_is_named(site: Site, content: bytes | None, message: str) -> None:
    site.source.unlink()
    if content:
        site.source.write_bytes(content)
    with pytest.raises(KernelBuildError, match=message) as caught:
        site.build()
    assert caught.value.where == str(site.source)


def test_truncated_source_leaves_nothing(site: Site) -> None:
    site.source = site.tarball("6", "12", "short.tar.xz")
    site.source.write_bytes(site.source.read_bytes()[:-40])
    with pytest.raises(KernelBuildError):
        site.build()
    assert site.entries() == []


def test_tarball_of_something_else_is_refused(site: Site) -> None:
    with tarfile.open(site.source, "w:xz") as archive:
        archive.add(site.make, "top/file")
    with pytest.raises(KernelBuildError, match="not a kernel source"):
        site.build()


def test_all_missing_packages_are_named_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = site.root / "few"
    few.mkdir()
    for tool in ("gcc", "tar", "xz"):
        (few / tool).symlink_to(shutil.which(tool) or "/bin/false")
    monkeypatch.setenv("PATH", str(few))
    with pytest.raises(KernelBuildError) as caught:
        site.build()
    assert caught.value.hint.startswith("sudo apt-get install make flex bison bc patch")
    assert "gcc" not in caught.value.message.split(", ")


def test_missing_compiler_means_missing_headers_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(site.root))
    assert {"gcc", "libc6-dev"} <= set(uml_recipe.missing_packages())


def test_small_disk_is_refused_before_anything_is_unpacked(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**10, 10**10, 10**8))
    with pytest.raises(KernelBuildError, match=r"needs 1\.\d GB, 0\.1 GB are free"):
        site.build()
    assert not site.calls.exists()
    assert site.entries() == []


def test_disk_that_fills_up_during_the_build_is_recognised(site: Site) -> None:
    site.use_make("echo 'ld: cannot write: No space left on device'; exit 1")
    with pytest.raises(KernelBuildError, match="the disk is full"):
        site.build()
    assert site.entries() == []


def test_disk_without_room_for_the_cache_is_recognised(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", str(path))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(KernelBuildError, match="the disk is full"):
        site.build()


def test_disk_full_while_copying_the_result_is_recognised(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_tree: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(uml_recipe, "keep_for_modules", full)
    with pytest.raises(KernelBuildError, match="the disk is full"):
        site.build()
    assert site.entries() == []


def test_failed_compilation_shows_the_end_of_the_log_and_where_it_is(site: Site) -> None:
    site.use_make("echo 'main.c:1: error: sorry'; exit 2")
    with pytest.raises(KernelBuildError, match=r"main\.c:1: error: sorry") as caught:
        site.build()
    log = Path(caught.value.where)
    assert "make ARCH=um" in log.read_text()
    assert site.entries() == []


def test_interrupted_build_leaves_no_entry_and_no_program(site: Site) -> None:
    site.use_make("echo '  CC      init/main.o'; sleep 60")

    def interrupt(phase: str, share: float) -> None:
        if phase == "compile" and share > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        site.build(interrupt)
    assert site.entries() == []
    site.use_make()
    assert site.build().path.exists()  # the lock is free again


def test_leftover_of_a_killed_build_is_removed_by_the_next(site: Site) -> None:
    leftover = site.cache / ".building-0123456789abcdef"
    (leftover / "source").mkdir(parents=True)
    site.build()
    assert not leftover.exists()


def test_two_builds_at_once_build_one_kernel(site: Site) -> None:
    site.use_make("sleep 0.5")
    kernels: list[uml_kernel.Kernel] = []
    builders = [threading.Thread(target=lambda: kernels.append(site.build())) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert kernels[0] == kernels[1]
    assert site.calls.read_text().count("allnoconfig") == 1


def test_two_builds_at_once_hash_the_source_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[Path] = []

    def slow(path: Path) -> str:
        if path == site.source:
            hashed.append(path)
            time.sleep(0.2)  # long enough for the other to come by
        return sha256_of(path)

    sha256_of = uml_recipe.sha256_of
    monkeypatch.setattr(uml_recipe, "sha256_of", slow)
    builders = [threading.Thread(target=site.build) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert hashed == [site.source]


def test_option_that_kconfig_drops_is_named(site: Site) -> None:
    site.write("uml/config", "CONFIG_A=y\nCONFIG_REFUSED=y\n")
    with pytest.raises(KernelBuildError, match="configuration drops CONFIG_REFUSED=y"):
        site.build()
    assert site.entries() == []


def test_option_switched_off_is_satisfied_by_its_absence(tmp_path: Path) -> None:
    fragment, config = tmp_path / "fragment", tmp_path / "config"
    fragment.write_text("# note\nCONFIG_A=n\nCONFIG_B=n\nCONFIG_C=3\nCONFIG_D=y\n")
    config.write_text("# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_C=3\nCONFIG_D=m\n")
    assert uml_recipe.unsatisfied(fragment, config) == ("CONFIG_B=n", "CONFIG_D=y")


def test_patch_that_does_not_fit_stops_the_build(site: Site) -> None:
    site.write("uml/patches/0002-second.patch", PATCH.replace("hello", "bonjour"))
    with pytest.raises(KernelBuildError, match="0002-second"):
        site.build()
    assert site.entries() == []


def test_warning_in_a_guest_program_stops_the_build(site: Site) -> None:
    site.write("uml/guest.c", "int main(void)\n{\n\tint unused;\n\treturn 0;\n}\n")
    with pytest.raises(KernelBuildError, match="unused"):
        site.build()


def test_environment_of_the_build_is_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCFLAGS", "-O0")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    environment = uml_recipe.build_environment()
    assert environment["LC_ALL"] == "C"
    assert "KCFLAGS" not in environment


def test_cache_is_below_the_xdg_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert uml_kernel.cache_directory() == tmp_path / "tcpf-lab/kernel"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert uml_kernel.cache_directory() == tmp_path / "home/.cache/tcpf-lab/kernel"


@pytest.mark.parametrize(
    ("home", "cache", "said"),
    [
        ("/nonexistent/home", "", "/nonexistent/home: the home directory does not exist"),
        ("/nonexistent/home", "/proc/none", "/proc/none/tcpf-lab/kernel: cannot be created"),
        ("/proc", "", "/proc/.cache/tcpf-lab/kernel: cannot be created"),
    ],
)
def test_no_home_is_made_for_the_cache(
    site: Site, monkeypatch: pytest.MonkeyPatch, home: str, cache: str, said: str
) -> None:
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    with pytest.raises(KernelBuildError, match=said) as refused:
        uml_kernel.build(site.source, recipe=site.recipe)
    assert "XDG_CACHE_HOME" in refused.value.hint
    assert not Path("/nonexistent").exists()


def test_a_build_without_a_terminal_prints_every_phase(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(_version: str, _tarball: None, progress: Progress, _variant: str) -> None:
        for share in (0.0, 0.5):
            progress("compile", share)
        progress("modules", 1.0)

    monkeypatch.setattr(uml_source, "build", build)
    console.build_kernel(None)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" s  ")[1] for line in lines] == ["kernel: compile", "kernel: modules"]


def test_status_tells_what_is_missing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(site.root))
    status = uml_kernel.status(site.cache)
    assert status["built"] is False
    assert "make" in status["missing_packages"]


@pytest.mark.parametrize("version", ["6.1", "6.12", "7.3"])
def test_patches_of_a_version_are_numbered_and_each_gives_a_reason(version: str) -> None:
    recipe = uml_recipe.load(variant="kasan", version=version)
    (*numbered, last) = recipe.patches
    assert last.parent.name == "kasan"
    assert [patch.name for patch in numbered] == sorted(patch.name for patch in numbered)
    for patch in recipe.patches:
        header = patch.read_text().partition("\n--- a/")[0]
        assert "\nReason: " in header, patch.name


def test_version_takes_the_patches_of_the_latest_series_before_it(site: Site) -> None:
    for series in ("6.2", "6.12"):
        (site.recipe_root / "uml/patches" / series).mkdir()
        site.write(f"uml/patches/{series}/0002-own.patch", PATCH)
        site.write(f"uml/config.{series}", f"CONFIG_OF_{series.replace('.', '_')}=y\n")
    series = {
        v: uml_recipe.load(site.recipe_root, version=v).series for v in ("6.2", "6.10", "7.1")
    }
    assert series == {"6.2": "6.2", "6.10": "6.2", "7.1": "6.12"}
    recipe = uml_recipe.load(site.recipe_root, version="6.10")
    assert recipe.patch_names == ("0001-first.patch", "6.2/0002-own.patch")
    assert recipe.config.endswith("\nCONFIG_OF_6_2=y\n")
    with pytest.raises(RequestError, match=r"6\.1 is too early: patches are for 6\.2 and later"):
        uml_recipe.load(site.recipe_root, version="6.1")
    with pytest.raises(RequestError, match="not a version of Linux: 'next'"):
        uml_recipe.load(site.recipe_root, version="next")


def test_run_of_a_version_needs_its_kernel(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = UmlTestbed(site.build())
    seven = replace(EMPTY, kernel="7.3")
    monkeypatch.setattr(uml_kernel, "cache_directory", lambda: site.cache)
    load = functools.partial(uml_recipe.load, site.recipe_root)
    monkeypatch.setattr(uml_recipe, "load", load)
    assert bed.check(seven) == (
        "the standard kernel of Linux 7.3 is not built: `tcpf-lab kernel build 7.3`",
    )
    assert bed.identity(seven) == {}
    kernel = uml_source.build(tarball=site.tarball("7", "3"))
    assert bed.kernel_of(seven) == kernel
    assert bed.identity(seven)["kernel"] != bed.identity(EMPTY)["kernel"]
    assert bed.facts(seven)["kernel"] == "7.3.117"
    switch = Sysctl("S", "net.ipv4.tcp_linux22_rto", "1")
    assert bed.check(replace(seven, phases=(Phase("old", (switch,)),)))[-1] == (
        "Linux 7.3.117 has no tcp.linux22: use kernel '6.12', or --set 'tcp.linux22={}'"
    )


def test_what_a_later_linux_brought_needs_that_kernel(tmp_path: Path) -> None:
    accurate = Phase("", (Sysctl("S", "net.ipv4.tcp_ecn", "3"),))
    dualpi2, config = {"qdisc": {"kind": "dualpi2"}}, tmp_path / ".config"
    config.write_text("CONFIG_NET_SCH_PIE=y\n")
    for plan, version, message in (
        (replace(EMPTY, phases=(accurate,)), "6.17.2", "Linux 6.17.2 has no tcp.ecn"),
        (replace(EMPTY, phases=(accurate,)), "6.18", None),
        (replace(EMPTY, expect=dualpi2), "6.12.117", "Linux 6.12.117 has no queue of kind dualpi2"),
        (EMPTY, "6.12.117", None),
    ):
        found = preflight.newer_problem(plan, version, config)
        assert (found or "").partition(":")[0] == (message or "")
    config.write_text("CONFIG_NET_SCH_DUALPI2=y\n")
    assert preflight.newer_problem(replace(EMPTY, expect=dualpi2), "7.3.4", config) is None
    config.unlink()  # as of a kernel that a worker of a cluster has received
    assert preflight.newer_problem(replace(EMPTY, expect=dualpi2), "7.3.4", config) is None


@pytest.mark.parametrize(
    ("value", "version", "named"),
    [
        *(("0", "7.3.4", True), ("2", "6.17", True), ("1", "7.3.4", False)),
        *(("0", "6.16.9", False), ("off", "7.3.4", False)),
    ],
)
def test_a_sysctl_that_a_later_linux_does_not_heed_is_named(
    value: str, version: str, named: bool
) -> None:
    plan = replace(EMPTY, phases=(Phase("", (Sysctl("S", "net.ipv4.tcp_recovery", value),)),))
    assert bool(preflight.effect_problem(plan, version)) is named


@pytest.mark.parametrize(
    ("forbidden", "found"),
    [
        ([PTRACE], ["Linux 6.12 needs ptrace, which is not permitted", None]),
        ([SECCOMP], [None, None]),
        (
            [PTRACE, SECCOMP],
            [
                "Linux 6.12 needs ptrace, which is not permitted",
                "Linux 7.3 needs seccomp filters or ptrace, neither of which is permitted",
            ],
        ),
    ],
)
def test_kernel_is_refused_only_where_nothing_can_hold_its_processes(
    forbidden: list[int], found: list[str | None]
) -> None:
    code = (
        "import json; from tcpf_lab.testbed.uml.preflight import hold_problem as p;"
        "print(json.dumps([p('6.12'), p('7.3')]))"
    )
    without = [sys.executable, without_syscalls.__file__, ",".join(map(str, forbidden))]
    reply = subprocess.run(
        [*without, sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    problems = json.loads(reply.stdout)
    assert [each and each.partition(" (")[0] for each in problems] == found
    assert ('or kernel: "7.3"' in (problems[0] or "")) is (forbidden == [PTRACE])


def test_source_of_another_version_is_built_with_the_patches_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uml_kernel, "cache_directory", lambda: site.cache)
    load = functools.partial(uml_recipe.load, site.recipe_root)
    monkeypatch.setattr(uml_recipe, "load", load)
    kernel = uml_source.build(tarball=site.tarball("7", "3"))
    assert kernel.version == "7.3.117"
    assert uml_kernel.find(site.cache, load(version="7.3")) == kernel
    assert uml_kernel.find(site.cache, load()) is None


#: An archive without one of the suites.
FAKE_APT = """#!/bin/sh
case "$*" in
*indextargets*)
    echo bookworm http://archive.example/debian
    ;;
*update*)
    echo "E: The repository 'http://archive.example sid Release' does not have a Release file."
    exit 100
    ;;
*download*linux-source-7.3)
    case "$*" in *--print-uris*) ;; *) touch linux-source-7.3.deb ;; esac
    ;;
*)
    exit 100
    ;;
esac
"""
FAKE_DPKG = """#!/bin/sh
mkdir -p "$3/usr/src"
touch "$3/usr/src/linux-source-7.3.tar.xz"
"""


def test_source_is_fetched_though_a_suite_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("apt-get", FAKE_APT), ("dpkg-deb", FAKE_DPKG)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def obtained(version: str) -> Path:
        return uml_source.obtain(version, lambda _phase, _share: None, tmp_path / "cache")

    assert obtained("7.3").name == "linux-source-7.3.tar.xz"
    with pytest.raises(
        KernelAbsentError,
        match=r"no suite of the Debian archive has linux-source-7\.4\n    E: .* sid Release",
    ):
        obtained("7.4")


@pytest.mark.parametrize("file", ["uml/guest.c", "sched/Kbuild", "drivers/Kbuild", "tc/Makefile"])
def test_incomplete_kernel_directory_is_named(site: Site, file: str) -> None:
    (site.recipe_root / file).unlink()
    with pytest.raises(KernelBuildError, match="incomplete") as caught:
        uml_recipe.load(site.recipe_root)
    assert caught.value.where.endswith(file)
