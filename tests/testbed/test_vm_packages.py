"""Packages for the guests, from an archive of our own: real packages, a stand-in for apt."""

from __future__ import annotations

import lzma
import re
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tcpf_lab.base.errors import LabError, RequestError, TestbedError
from tcpf_lab.testbed.inventory import load_inventory
from tcpf_lab.testbed.vm import kernel as vm_kernel
from tcpf_lab.testbed.vm import kernel as vm_packages
from tcpf_lab.testbed.vm import layout, root
from tcpf_lab.testbed.vm.kernel import GuestKernel
from tcpf_lab.testbed.vm.layout import GUESTS, ROLES, WIRES, End

APT_CACHE = """#!/bin/sh
[ "$1" = depends ] && echo "$2" && cat "{home}/depends/$2"
"""
APT_GET = """#!/bin/sh
case "$*" in *install*) exec cat "{home}/simulated" ;; esac
while [ "$1" != download ]; do shift; done
shift
for package; do
    cp "{home}/$package.deb" . || {{ echo "E: Unable to locate package $package"; exit 100; }}
done
"""
RELEASE = "6.12.9+deb12-amd64"
HEADERS = f"linux-headers-{RELEASE}"


def silent(_phase: str, _share: float) -> None:
    pass


class Archive:
    """A directory of packages and of what is known of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "depends").mkdir(parents=True)
        for name, script in (("apt-cache", APT_CACHE), ("apt-get", APT_GET)):
            (home / name).write_text(script.format(home=home))
            (home / name).chmod(0o755)

    def add(self, name: str, files: Mapping[str, bytes], depends: Sequence[str] = ()) -> None:
        tree = self.home / "trees" / name
        control = f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
        for path, content in {**files, "DEBIAN/control": control.encode()}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_bytes(content)
        # What `--root-owner-group` is for: the tests may run as anybody.
        build = ["dpkg-deb", "--root-owner-group", "-b", str(tree), str(self.home / f"{name}.deb")]
        subprocess.run(build, check=True, capture_output=True)
        self.depends(name, *depends)

    def depends(self, name: str, *depends: str) -> None:
        lines = [f"  Depends: {other}\n" for other in depends]
        (self.home / "depends" / name).write_text("".join([*lines, "  Suggests: a-manual\n"]))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    found = Archive(tmp_path / "archive")
    monkeypatch.setattr(vm_packages, "TOOL_PATH", f"{found.home}:{vm_packages.TOOL_PATH}")
    return found


@pytest.fixture
def kernels(archive: Archive) -> Archive:
    """Return an archive that has one kernel of 6.12 and knows of one of 6.1."""
    archive.depends("linux-image-amd64", "linux-image-6.1.0-56-amd64")
    archive.depends("linux-image-6.12-amd64", f"linux-image-{RELEASE}")
    module = f"lib/modules/{RELEASE}/kernel/net/veth.ko"
    archive.add(f"linux-image-{RELEASE}", {f"boot/vmlinuz-{RELEASE}": b"bz", module: b""})
    makefile = f"usr/src/{HEADERS}/Makefile"
    archive.add(HEADERS, {makefile: b"all:\n"}, ["linux-kbuild-6.12.9", "linux-compiler-gcc"])
    archive.add("linux-kbuild-6.12.9", {"usr/lib/linux-kbuild-6.12.9/fixdep": b""})
    return archive


def test_kernel_is_a_tree_of_image_modules_and_headers(kernels: Archive, tmp_path: Path) -> None:
    phases: list[str] = []
    kernel = vm_kernel.fetch("6.12", lambda phase, _: phases.append(phase), tmp_path / "cache")
    assert kernel.release == RELEASE
    assert kernel.image.read_bytes() == b"bz"
    assert (kernel.modules / "kernel/net/veth.ko").exists()
    assert (kernel.modules / "modules.dep").exists()
    assert (kernel.directory / f"usr/src/{HEADERS}/Makefile").exists()
    assert (kernel.directory / "usr/lib/linux-kbuild-6.12.9/fixdep").exists()
    # A directory there would hide the link of the machine's root.
    assert not (kernel.directory / "lib").exists()
    assert phases[0] == f"download linux-image-{RELEASE}"
    assert [path.name for path in (tmp_path / "cache/kernels").iterdir()] == [RELEASE]
    (kernels.home / "apt-get").unlink()
    assert vm_kernel.fetch("6.12", silent, tmp_path / "cache") == kernel


def test_distribution_without_the_series_says_what_it_has(archive: Archive, tmp_path: Path) -> None:
    archive.depends("linux-image-amd64", "linux-image-6.1.0-56-amd64")
    with pytest.raises(TestbedError, match=r"no Linux 6\.12 .*, only 6\.1\.0-56-amd64"):
        vm_kernel.fetch("6.12", silent, tmp_path)


def test_failed_download_leaves_only_its_log(kernels: Archive, tmp_path: Path) -> None:
    (kernels.home / f"{HEADERS}.deb").unlink()
    with pytest.raises(LabError, match=re.escape(f"Unable to locate package {HEADERS}")):
        vm_kernel.fetch("6.12", silent, tmp_path / "cache")
    left = [path.name for path in (tmp_path / "cache/kernels").iterdir()]
    assert left == [f"fetch-{RELEASE}.log"]


def test_machine_without_room_is_told_so(kernels: Archive, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match=r"1000000\.0 GB are needed"):
        vm_packages.obtain(tmp_path / "entry", [HEADERS], 10**15, silent)
    assert not (tmp_path / ".making-entry").exists()


def test_machine_without_apt_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_packages, "TOOL_PATH", "/nowhere")
    with pytest.raises(TestbedError, match="apt-get, dpkg-deb, depmod"):
        vm_packages.require_tools()


def test_missing_programs_come_with_what_they_need(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        root, "PACKAGES", {"openssh-server": lambda: False, "busybox-static": lambda: True}
    )
    archive.add("openssh-server", {"usr/sbin/sshd": b"the sshd"})
    archive.add("libwrap0", {"lib/libwrap.so.0": b"a library", "bin/odd": b""})
    (archive.home / "simulated").write_text(
        "Reading package lists...\n"
        "Inst openssh-client [1:9.2p1-1] (1:9.2p1-2 Debian:12 [amd64]) []\n"
        "Inst libwrap0 (7.6 Debian:12 [amd64])\n"
        "Inst openssh-server (1:9.2p1-2 Debian:12 [amd64])\n"
        "Conf libwrap0 (7.6 Debian:12 [amd64])\n"
    )
    tree = root.fetch(silent, tmp_path / "cache")
    assert tree.name == "openssh-server"
    assert (tree / "usr/sbin/sshd").read_bytes() == b"the sshd"
    assert (tree / "usr/lib/libwrap.so.0").read_bytes() == b"a library"
    assert (tree / "usr/bin/odd").exists()
    assert sorted(path.name for path in tree.iterdir()) == ["packages.json", "usr"]
    (archive.home / "apt-get").unlink()
    assert root.fetch(silent, tmp_path / "cache") == tree


def test_machine_that_has_everything_gets_an_empty_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root, "PACKAGES", {"openssh-server": lambda: True})
    assert list(root.fetch(silent, tmp_path).iterdir()) == []


def test_tree_has_precedence_over_the_machine(tmp_path: Path) -> None:
    own = tmp_path / "usr/bin/busybox"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"the tree's")
    own.chmod(0o755)
    assert root.busybox(tmp_path) == b"the tree's"


# Roles, interfaces and wires of the guests, and the files by which others learn of them.

PORTS = {role: 40000 + number for number, role in enumerate(ROLES)}
ENDS, ROUTERS = GUESTS


def test_every_role_is_in_one_guest() -> None:
    assert Counter(role for guest in GUESTS for role in guest.roles) == Counter(ROLES)


def test_wires_join_neighbours_along_the_path() -> None:
    joined = [f"{a.role}-{b.role}" for a, b in WIRES]
    assert joined == ["S-R0", "R0-R1", "R1-R2", "R2-D"]
    assert [f"{a.role}-{b.role}" for a, b in layout.crossing()] == ["S-R0", "R2-D"]


@pytest.mark.parametrize(
    ("role", "peer", "interface"),
    [
        ("S", "R0", "data0"),
        ("R0", "S", "data0"),
        ("R0", "R1", "data1"),
        ("R1", "R0", "data0"),
        ("R1", "R2", "data1"),
        ("R2", "R1", "data0"),
        ("R2", "D", "data1"),
        ("D", "R2", "data0"),
    ],
)
def test_data0_is_towards_the_sender(role: str, peer: str, interface: str) -> None:
    assert End(role, peer).interface == interface


def test_no_two_interfaces_have_one_address() -> None:
    addresses = [end.mac for wire in WIRES for end in wire]
    addresses += [layout.mac(role, 0) for role in ROLES]
    assert len(set(addresses)) == len(addresses) == 13
    # Locally administered, of one host.
    assert all(int(address[:2], 16) & 3 == 2 for address in addresses)


def test_guests_are_told_all_of_their_interfaces() -> None:
    assert layout.setup(ENDS).splitlines() == [
        "faster 0",
        "card 52:54:00:1a:00:00 S control",
        "card 52:54:00:1a:04:00 D control",
        "card 52:54:00:1a:00:01 S data0",
        "card 52:54:00:1a:04:01 D data0",
    ]
    lines = layout.setup(ROUTERS).splitlines()
    assert lines[0] == "faster 40"
    assert lines[-2:] == [
        "wire R0 data1 52:54:00:1a:01:02 R1 data0 52:54:00:1a:02:01",
        "wire R1 data1 52:54:00:1a:02:02 R2 data0 52:54:00:1a:03:01",
    ]
    assert sum(line.startswith("card ") for line in lines) == 5


def test_every_role_is_started_in_namespaces_of_its_own() -> None:
    lines = [line for line in layout.inittab(ROUTERS).splitlines() if "/role " in line]
    assert [line.rpartition("/role ")[2] for line in lines] == [
        "R0 vm-R0",
        "R1 vm-R1",
        "R2 vm-R2",
    ]
    assert all(" unshare -n -m -u " in line for line in lines)


def test_inventory_is_one_that_can_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text(layout.inventory(PORTS, "6.12.1"))
    found = load_inventory(path)
    assert found.name == "vm"
    assert found.roles == ROLES
    assert {found.hosts[found.host_of(role)].port for role in ROLES} == set(PORTS.values())
    assert found.interface("R1", "R2") == "data1"
    assert [pair for pair in _pairs() if found.shares_kernel(*pair)] == [("R0", "R1"), ("R1", "R2")]
    assert all(found.interface(*pair) and found.interface(*pair[::-1]) for pair in _pairs())
    assert found.ssh.identity == str(tmp_path / "keys/identity")
    assert found.ssh.known_hosts == str(tmp_path / "known_hosts")


def _pairs() -> list[tuple[str, str]]:
    return [(a.role, b.role) for a, b in WIRES]


def test_ssh_reads_the_configuration_as_it_is_meant(tmp_path: Path) -> None:
    place = tmp_path / "a b"  # a cache may be anywhere
    place.mkdir()
    (place / "config").write_text(layout.ssh_config(PORTS, place))
    reply = subprocess.run(
        ["ssh", "-F", str(place / "config"), "-G", "vm-R1"],
        capture_output=True,
        text=True,
        check=True,
    )
    read = dict(line.split(" ", 1) for line in reply.stdout.splitlines())
    assert (read["hostname"], read["port"], read["user"]) == ("127.0.0.1", "40002", "root")
    assert read["identityfile"] == str(place / "keys/identity")
    assert read["stricthostkeychecking"] == "true"
    assert str(place / "known_hosts") in read["userknownhostsfile"]


def test_known_hosts_names_ports() -> None:
    keys = {role: f"ssh-ed25519 key-of-{role}" for role in ROLES}
    lines = layout.known_hosts(PORTS, keys).splitlines()
    assert len(lines) == 5
    assert re.fullmatch(r"\[127\.0\.0\.1\]:40004 ssh-ed25519 key-of-D", lines[-1])


# Kernels in the cache: which is found, and which modules come in which order.

CACHED = "6.12.9-amd64"


@pytest.fixture
def kernel(tmp_path: Path) -> GuestKernel:
    """Return a kernel whose modules are names only."""
    kernel = GuestKernel(tmp_path / "kernels" / CACHED, CACHED)
    kernel.modules.mkdir(parents=True)
    (kernel.modules / "modules.dep").write_text(
        "kernel/fs/9p/9p.ko.xz: kernel/net/9pnet.ko.xz kernel/fs/netfs.ko.xz\n"
        "kernel/net/9pnet.ko.xz: kernel/fs/netfs.ko.xz\n"
        "kernel/net/9pnet-virtio.ko.xz: kernel/net/9pnet.ko.xz kernel/fs/netfs.ko.xz\n"
        "kernel/fs/netfs.ko.xz:\n"
    )
    (kernel.modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    (kernel.directory / vm_packages.FACTS).write_text("{}")
    return kernel


def test_modules_come_after_those_that_they_need(kernel: GuestKernel) -> None:
    files = kernel.module_files("virtio_pci", "9p", "9pnet_virtio")
    names = [vm_kernel.module_name(file) for file in files]
    assert names == ["netfs", "9pnet", "9p", "9pnet_virtio"]


def test_missing_module_is_named(kernel: GuestKernel) -> None:
    with pytest.raises(TestbedError, match=f"Linux {CACHED} has no module 'zfs'"):
        kernel.module_files("9p", "zfs")


def test_compressed_modules_are_unpacked(tmp_path: Path) -> None:
    plain, packed, odd = tmp_path / "a.ko", tmp_path / "b.ko.xz", tmp_path / "c.ko.gz"
    plain.write_bytes(b"a module")
    packed.write_bytes(lzma.compress(b"a module"))
    odd.touch()
    assert vm_kernel.module_content(plain) == vm_kernel.module_content(packed) == b"a module"
    with pytest.raises(TestbedError, match="unknown compression"):
        vm_kernel.module_content(odd)


def test_build_is_read_from_the_image(kernel: GuestKernel) -> None:
    text = f"{CACHED} (who@where) #1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1 (2026-01-02)".encode()
    head = bytearray(0x3000)
    head[0x202:0x206] = b"HdrS"
    head[0x20E:0x210] = (0x2A00).to_bytes(2, "little")
    head[0x2C00 : 0x2C00 + len(text)] = text
    kernel.image.parent.mkdir()
    kernel.image.write_bytes(head)
    assert kernel.build == "#1 SMP PREEMPT_DYNAMIC Debian 6.12.9-1 (2026-01-02)"
    kernel.image.write_bytes(b"MZ" + bytes(0x3000))
    assert kernel.build is None


def test_cached_kernel_is_found_by_its_series(kernel: GuestKernel, tmp_path: Path) -> None:
    assert vm_kernel.find("6.12", tmp_path) == kernel
    assert vm_kernel.find("6.1", tmp_path) is None
    no_work = vm_kernel.fetch("6.12", lambda *_: pytest.fail("there is nothing to do"), tmp_path)
    assert no_work == kernel


def test_unknown_series_is_refused() -> None:
    with pytest.raises(RequestError, match=r"'5\.10'; allowed: 6\.12, 6\.1"):
        vm_kernel.fetch("5.10", lambda *_: None)


# Archives, read back by the program that has always read them.

ENTRIES = {
    "init": root.program(b"#!/bin/sh\n"),
    "etc/keys/secret": root.private(b"k" * 33),
    "run": root.link("var/run"),
    "empty": root.private(b""),
}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    reader = shutil.which("busybox")
    assert reader, "./lab test installs busybox-static"
    archive = root.cpio(ENTRIES, ("proc",))
    subprocess.run([reader, "cpio", "-idm"], input=archive, cwd=tmp_path, check=True)
    return tmp_path


def test_files_come_back_with_content_and_mode(unpacked: Path) -> None:
    assert (unpacked / "init").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((unpacked / "init").stat().st_mode) == 0o755
    assert (unpacked / "etc/keys/secret").read_bytes() == b"k" * 33
    assert stat.S_IMODE((unpacked / "etc/keys/secret").stat().st_mode) == 0o600
    assert (unpacked / "empty").read_bytes() == b""


def test_links_and_empty_directories_come_back(unpacked: Path) -> None:
    assert (unpacked / "run").readlink() == Path("var/run")
    assert list((unpacked / "proc").iterdir()) == []


def test_same_entries_give_the_same_bytes() -> None:
    assert root.cpio(ENTRIES) == root.cpio(dict(ENTRIES))


def test_directories_stand_before_what_is_in_them() -> None:
    archive = root.cpio({"a/b/c": root.program(b"")})
    places = [archive.index(name) for name in (b"a\0", b"a/b\0", b"a/b/c\0")]
    assert places == sorted(places)


def test_keys_in_a_guests_archive_are_for_their_owner_alone(tmp_path):
    for name in (root.CLIENT, *ROLES):
        (tmp_path / name).write_text("private")
        (tmp_path / f"{name}.pub").write_text("ssh-ed25519 AAAA comment")
    found = root.archive(GUESTS[0], {}, tmp_path)
    place = found.index(b".tcpf-lab/keys/authorized")
    assert int(found[place - 96 : place - 88], 16) == stat.S_IFREG | 0o600
