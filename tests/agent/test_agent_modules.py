"""Modules: unloaded after a run, unless somebody uses them, also by having interfaces."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from private_host import ROOT

from tcpf_lab.testbed.ssh.agent import modules, system
from tcpf_lab.testbed.ssh.agent.system import Left


class Kernel:
    """Modules of a kernel that is not there, and `rmmod` for them."""

    def __init__(self, path, monkeypatch):
        self.path, self.loaded, self.removed, self.busy = path, {}, [], {}
        monkeypatch.setattr(modules, "LOADED", path)
        monkeypatch.setattr(modules.system, "run", self.run)
        monkeypatch.setattr(modules, "_LOOK_S", 0.001)

    def has(self, **uses):
        """Say which modules are loaded, and by what they are used."""
        self.loaded = uses
        rows = [
            f"{n} 4096 {len(u)} {','.join(u) + ',' if u else '-'} Live 0x0" for n, u in uses.items()
        ]
        self.path.write_text("".join(f"{row}\n" for row in rows))

    def run(self, argv):
        name = argv[1]
        if self.busy.get(name, 0) > 0:
            self.busy[name] -= 1
            return system.Output(1, "", f"rmmod: ERROR: Module {name} is in use\n")
        self.removed.append(name)
        left = {n: [u for u in users if u != name] for n, users in self.loaded.items() if n != name}
        self.has(**left)
        return system.Output(0, "", "")


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    return Kernel(tmp_path / "modules", monkeypatch)


def test_modules_that_came_by_themselves_go_with_what_they_brought(kernel):
    kernel.has(sch_tbf=[], usb_storage=[], sch_netem=[], tcp_diag=[], inet_diag=["tcp_diag"],
               libx=["sch_netem"], nls_utf8=[])  # fmt: skip
    modules.unload_new(["sch_tbf", "usb_storage"], patience=1)
    assert sorted(kernel.removed) == ["inet_diag", "libx", "sch_netem", "tcp_diag"]
    assert sorted(kernel.loaded) == ["nls_utf8", "sch_tbf", "usb_storage"]


def test_module_is_unloaded_as_soon_as_it_is_free(kernel):
    kernel.has(act_tcpf=[])
    kernel.busy["act_tcpf"] = 3
    modules.unload("act-tcpf", patience=5)
    assert kernel.removed == ["act_tcpf"]
    modules.unload("act_tcpf", patience=5)
    assert kernel.removed == ["act_tcpf"]


def test_module_that_stays_in_use_is_left(kernel):
    kernel.has(act_tcpf=[])
    kernel.busy["act_tcpf"] = 10**6
    with pytest.raises(Left, match="module act_tcpf: rmmod: ERROR: Module act_tcpf is in use"):
        modules.unload("act_tcpf", patience=0.05)


def test_kernel_without_modules_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(modules, "LOADED", tmp_path / "none")
    assert modules.loaded() == {}
    modules.unload_new([], patience=0)


@pytest.mark.parametrize("kind", ["veth", "dummy", "ifb"])
def test_module_of_interfaces_that_others_have_is_left_to_them(kernel, monkeypatch, kind):
    """The kernel counts no use of it, and would delete them."""
    monkeypatch.setattr(modules, "everywhere", lambda: {kind, "bridge"})
    kernel.has(veth=[], dummy=[], ifb=[], sch_tbf=[])
    modules.unload_new([], patience=0.05)
    modules.unload(kind, patience=0.05)
    assert list(kernel.loaded) == [kind]


def test_module_goes_with_the_last_interface_of_its_kind(kernel, monkeypatch):
    seen = [{"veth"}, {"veth"}, set()]
    monkeypatch.setattr(modules, "everywhere", lambda: seen.pop(0))
    kernel.has(veth=[])
    modules.unload_new([], patience=5)
    assert kernel.removed == ["veth"]


@pytest.mark.parametrize(("module", "kind"), [("bonding", "bond"), ("8021q", "vlan")])
def test_kind_that_is_not_called_as_its_module(kernel, monkeypatch, module, kind):
    monkeypatch.setattr(modules, "everywhere", lambda: {kind})
    kernel.has(**{module: []})
    modules.unload(module, patience=0)
    assert kernel.removed == []


def test_kinds_of_interfaces_are_seen_in_every_namespace(host):
    """Here, under a name, and where there is but a process."""
    look = [sys.executable, "-c", "import json; from tcpf_lab.testbed.ssh.agent import modules; "
            "print(json.dumps(sorted(modules.everywhere())))"]  # fmt: skip

    def seen():
        said = subprocess.run([*host.enter, *look], cwd=ROOT, capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        return set(json.loads(said.stdout))

    before = seen()
    assert "veth" in before
    assert before.isdisjoint({"bridge", "ifb"})
    host.sh("ip -n cable link add name b0 type bridge")
    assert seen() == before | {"bridge"}
    host.sh("ip -n cable link delete b0")
    inner = "ip link add name i0 type ifb; echo made; read line"
    argv = [*host.enter, "unshare", "--net", "sh", "-c", inner]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"made\n"
        assert seen() == before | {"ifb"}
    assert seen() == before
    host.settled()
    host.assert_same()
