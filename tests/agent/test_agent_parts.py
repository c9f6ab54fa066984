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

from tcpf_lab.testbed.ssh.agent import __main__, journal, modules, network, system, undo
from tcpf_lab.testbed.ssh.agent.system import AgentError
from tcpf_lab.testbed.ssh.session import packed

PACKAGE = Path(system.__file__).parent


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_every_module_is_for_python_3_9_and_its_library(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    names = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    names += [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    for name in names:
        assert (
            name.startswith("tcpf_lab.testbed.ssh.agent")
            or name.split(".")[0] in sys.stdlib_module_names
        )
    matches = [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    assert matches == []


def test_packed_agent_is_the_same_bytes_and_runs_by_itself(tmp_path):
    program = packed()
    assert program == packed()
    with zipfile.ZipFile(io.BytesIO(program)) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert "tcpf_lab/testbed/ssh/agent/serve.py" in names
        assert not [name for name in names if name.endswith(".pyc")]
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    path = tmp_path / "agent.pyz"
    path.write_bytes(program)
    said = subprocess.run(
        [sys.executable, "-I", "-S", path, "list", "--state", tmp_path], capture_output=True
    )
    assert (said.returncode, json.loads(said.stdout)) == (0, [])


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
    with pytest.raises(AgentError, match="is not undone"):
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
    with pytest.raises(AgentError, match="is not a run's name"):
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


def test_record_that_fails_in_an_unforeseen_way_stops_nothing(tmp_path, book, monkeypatch):
    book.add("module", name="first")
    book.add("namespace", node="S")
    book.add("unheard of", name="x")
    done = []
    monkeypatch.setitem(undo._UNDO, "module", lambda work, record: done.append(record["name"]))
    monkeypatch.setitem(undo._UNDO, "namespace", lambda work, record: 1 / 0)
    report = undo.by_hand(tmp_path, None, force=False)[0]
    assert done == ["first"]
    assert report["undone"] == 1
    assert report["left"] == [
        "unheard of: KeyError: 'unheard of'", "namespace: ZeroDivisionError: division by zero"
    ]  # fmt: skip
    assert journal.unfinished(tmp_path)[0]["left"] == report["left"]


def test_undoing_that_fails_as_a_whole_is_told(tmp_path, book, monkeypatch):
    def fail(*_):
        raise MemoryError("none left")

    monkeypatch.setattr(undo, "undo", fail)
    reports = undo.by_hand(tmp_path, None, force=False)
    assert reports == [{"token": "a-run", "undone": 0, "left": ["MemoryError: none left"]}]


def test_agent_that_has_ended_since_it_was_listed_is_not_missed(tmp_path, book, monkeypatch):
    gone = subprocess.Popen(["true"])
    gone.wait()
    run = {**journal.unfinished(tmp_path)[0], "pid": gone.pid, "alive": True}
    monkeypatch.setattr(undo.journal, "unfinished", lambda _: [run])
    reports = undo.by_hand(tmp_path, None, force=True)
    assert reports == [{"token": "a-run", "undone": 0, "left": [], "lost": []}]


def test_list_names_what_would_be_undone(tmp_path, book, monkeypatch):
    monkeypatch.setattr(modules, "loaded", lambda: {"sch_tbf": (0, []), "nls": (0, [])})
    book.add("modules_before", names=["sch_red"])
    book.add("namespace", node="S")
    book.add("veth", ends=[{"node": "S", "device": "S-R0"}, {"node": "R0", "device": "R0-S"}])
    book.add("nic", node="S", device="S-D", state={"interface": "eth1"})
    book.add("sysctl", key="net.ipv4.tcp_mem", value="1 2 3")
    book.add("module", name="act_tcpf")
    book.done(2)
    (run,) = __main__.unfinished(tmp_path)
    assert [(record["kind"], record["name"]) for record in run["records"]] == [
        ("module", "act_tcpf"),
        ("sysctl", "net.ipv4.tcp_mem = 1 2 3"),
        ("nic", "eth1 (S-D in S)"),
        ("veth", "S-R0 in S - R0-S in R0"),
        ("modules_before", "sch_tbf"),
        ("run", str(book.root)),
    ]
    assert len(run["records"]) == run["entries"]


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
    assert network.offloads(SHOWN) == {
        "rx-checksumming": True,
        "tx-checksum-ip-generic": True,
        "tx-tcp-segmentation": True,
        "generic-receive-offload": True,
    }


@pytest.mark.parametrize("key", ["tcp_sack", "../net/ipv4", "net..ipv4", "net/../kernel", "a.b;c"])
def test_name_that_is_no_kernel_parameter_is_refused(key):
    with pytest.raises(AgentError, match="not the name"):
        system.path(key)


def test_names_of_kernel_parameters():
    assert system.path("net.ipv4.tcp_sack") == Path("/proc/sys/net/ipv4/tcp_sack")
    assert system.path("net/ipv4/conf/a.7/rp_filter") == Path(
        "/proc/sys/net/ipv4/conf/a.7/rp_filter"
    )


def test_proc_net_is_that_of_the_thread():
    assert system.of_this_thread("/proc/net/snmp") == "/proc/thread-self/net/snmp"
    assert system.of_this_thread("/proc/self/net/snmp") == "/proc/thread-self/net/snmp"
    assert system.of_this_thread("/proc/stat") == "/proc/stat"


@pytest.mark.parametrize(
    ("word", "written"),
    [("up", "up"), ("a b", '"a b"'), ('a"b', "'a\"b'"), ("", '""'), ("a\\b", '"a\\b"')],
)
def test_words_of_a_batch(word, written):
    assert network._quoted(word) == written


@pytest.mark.parametrize("word", ["a\nb", "\"'", "a#b", "#"])
def test_words_that_a_batch_cannot_hold_are_refused(word):
    with pytest.raises(AgentError, match="not a word"):
        network._quoted(word)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (system.Output(-9, "", ""), "a batch of 2 commands was killed by SIGKILL in node S"),
        (system.Output(1, "", "Command failed -:9\n"), "a batch of 2 commands ended with status 1"),
        (system.Output(1, "", "no\nCommand failed -:2\n"), "command 2 of 2 failed in node S"),
    ],
)
def test_batch_that_fails_at_no_line_is_named_as_a_whole(said, message, monkeypatch):
    monkeypatch.setattr(system, "run", lambda argv, **_: said)
    with pytest.raises(AgentError, match=message) as error:
        network.batch("ip", "S", [["link", "show"], ["address", "show"]])
    named = "-batch" not in error.value.command
    assert named is message.startswith("command")


def test_failed_program_with_a_signal_is_named():
    assert system.ending(-9) == "was killed by SIGKILL"
    assert system.ending(-77) == "was killed by signal 77"
