"""Parts of the agent that need neither root nor another kernel."""

from __future__ import annotations

import ast
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tcpf_lab.agent import commands, files, journal, layer3, modules, offloads, pack, sysctl, undo
from tcpf_lab.agent.errors import AgentError, Left

PACKAGE = Path(pack.__file__).parent


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_every_module_is_for_python_3_9_and_its_library(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    names += [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    for name in names:
        assert name.startswith("tcpf_lab.agent") or name.split(".")[0] in sys.stdlib_module_names
    matches = [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    assert matches == []


def test_packed_agent_is_the_same_bytes_and_runs_by_itself(tmp_path):
    program = pack.packed()
    assert program == pack.packed()
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert "tcpf_lab/agent/serve.py" in names
        assert not [name for name in names if name.endswith(".pyc")]
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    path = tmp_path / "agent.pyz"
    path.write_bytes(program)
    said = subprocess.run(
        [sys.executable, "-I", "-S", path, "list", "--state", tmp_path], capture_output=True
    )
    assert (said.returncode, json.loads(said.stdout)) == (0, [])
    assert len(pack.digest(program)) == 64


@pytest.fixture
def book(tmp_path):
    return journal.Journal.create(tmp_path, "a-run", owner=True)


def test_journal_is_read_as_it_was_written(tmp_path, book):
    book.add("namespace", node="S")
    book.add("sysctl", key="a.b", value="1\t2")
    book.done(2)
    records = journal.read(book.root)
    assert [record["kind"] for record in records] == ["run", "namespace", "sysctl"]
    assert [record["undone"] for record in records] == [False, False, True]
    assert records[0]["pid"] == os.getpid()
    assert [(r["token"], r["alive"], r["entries"]) for r in journal.unfinished(tmp_path)] == [
        ("a-run", True, 2)
    ]
    with pytest.raises(AgentError, match="has not been undone"):
        journal.Journal.create(tmp_path, "a-run")


def test_record_is_on_the_disk_before_the_change_is_made(book, monkeypatch):
    synced = []
    monkeypatch.setattr(journal.os, "fsync", lambda _: synced.append(len(journal.read(book.root))))
    book.add("namespace", node="S")
    assert synced == [2]


def test_torn_record_counts_for_nothing_and_is_gone_on_after(book):
    book.add("namespace", node="S")
    with (book.root / journal.NAME).open("ab") as file:
        file.write(b'{"n":2,"kind":"names')
    assert [record["n"] for record in journal.read(book.root)] == [0, 1]
    book.done(1)
    assert [record["n"] for record in journal.read(book.root)] == [0, 1]


def test_record_that_does_not_fit_leaves_no_half(book, monkeypatch):
    real = os.write
    monkeypatch.setattr(journal.os, "write", lambda handle, data: real(handle, data[:7]))
    with pytest.raises(AgentError, match="disk is full"):
        book.add("namespace", node="S")
    monkeypatch.undo()
    book.add("namespace", node="R0")
    assert [record.get("node") for record in journal.read(book.root)] == [None, "R0"]


@pytest.mark.parametrize("token", ["", ".", "..", "a/b", "-x", "a b", "x" * 200])
def test_token_that_cannot_be_a_directory_is_refused(tmp_path, token):
    with pytest.raises(AgentError, match="cannot be a run's name"):
        journal.directory(tmp_path, token)


def test_later_run_of_the_same_name_is_not_undone_for_an_earlier_agent(tmp_path, book):
    assert undo.undo(tmp_path, "a-run", agent=1).undone == 0
    assert book.root.exists()
    assert undo.undo(tmp_path, "a-run", agent=os.getpid()).left == []
    assert not journal.runs(tmp_path).exists()


def test_two_do_not_undo_at_once(tmp_path, book, monkeypatch):
    monkeypatch.setattr(undo, "LOCK_PATIENCE_S", 0.1)
    with journal.locked(book.root, 0) as there:
        assert there
        with pytest.raises(AgentError, match="is being undone by another process"):
            undo.undo(tmp_path, "a-run")


SHOWN = """Features for eth0:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
tcp-segmentation-offload: off
\ttx-tcp-segmentation: off [requested on]
generic-receive-offload: on
large-receive-offload: off [fixed]
"""


def test_offloads_that_can_be_set_without_headings():
    assert offloads.parse(SHOWN) == {
        "rx-checksumming": True,
        "tx-checksum-ip-generic": True,
        "tx-tcp-segmentation": True,
        "generic-receive-offload": True,
    }


@pytest.mark.parametrize("key", ["tcp_sack", "../net/ipv4", "net..ipv4", "net/../kernel", "a.b;c"])
def test_name_that_is_no_kernel_parameter_is_refused(key):
    with pytest.raises(AgentError, match="not the name"):
        sysctl.path(key)


def test_names_of_kernel_parameters():
    assert sysctl.path("net.ipv4.tcp_sack") == Path("/proc/sys/net/ipv4/tcp_sack")
    assert sysctl.path("net/ipv4/conf/a.7/rp_filter") == Path(
        "/proc/sys/net/ipv4/conf/a.7/rp_filter"
    )


def test_proc_net_is_that_of_the_thread():
    assert files.of_this_thread("/proc/net/snmp") == "/proc/thread-self/net/snmp"
    assert files.of_this_thread("/proc/self/net/snmp") == "/proc/thread-self/net/snmp"
    assert files.of_this_thread("/proc/stat") == "/proc/stat"


@pytest.mark.parametrize(
    ("word", "written"),
    [("up", "up"), ("a b", '"a b"'), ('a"b', "'a\"b'"), ("", '""'), ("a#b", '"a#b"')],
)
def test_words_of_a_batch(word, written):
    assert commands._quoted(word) == written


@pytest.mark.parametrize("word", ["a\nb", "\"'"])
def test_words_that_a_batch_cannot_hold_are_refused(word):
    with pytest.raises(AgentError, match="not a word"):
        commands._quoted(word)


def test_failed_program_with_a_signal_is_named():
    assert commands.ending(-9) == "was ended by SIGKILL"
    assert commands.ending(-77) == "was ended by signal 77"


def test_lifetimes_of_an_address_pass():
    body = layer3._ADDRESS.pack(2, 24, 0, 0, 5)
    body += layer3.attribute(6, layer3.struct.pack("=IIII", 30, 40, 7, 7))
    aged = layer3._aged(body, 9, 35.0)
    assert aged is not None
    assert layer3._ADDRESS.unpack_from(aged)[4] == 9
    found = layer3.attributes(aged[layer3._ADDRESS.size :])
    assert layer3.struct.unpack("=IIII", found[6]) == (0, 5, 0, 0)
    assert layer3._aged(body, 9, 40.0) is None


class Kernel:
    """Modules of a kernel that is not there, and `rmmod` for them."""

    def __init__(self, path, monkeypatch):
        self.path, self.loaded, self.removed, self.busy = path, {}, [], {}
        monkeypatch.setattr(modules, "LOADED", path)
        monkeypatch.setattr(modules.commands, "run", self.run)
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
            return commands.Said(1, "", f"rmmod: ERROR: Module {name} is in use\n")
        self.removed.append(name)
        left = {n: [u for u in users if u != name] for n, users in self.loaded.items() if n != name}
        self.has(**left)
        return commands.Said(0, "", "")


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
