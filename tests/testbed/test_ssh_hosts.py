"""Connections to a real sshd: whose key is accepted, what runs, what is said of what fails."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import pytest
import real_sshd
from paramiko import RejectPolicy

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh import files
from tcpf_lab.testbed.ssh import hosts as ssh_hosts
from tcpf_lab.testbed.ssh import hosts as ssh_process
from tcpf_lab.testbed.ssh.hosts import Host, run

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if reason := real_sshd.why_not():
        pytest.skip(reason)
    with real_sshd.serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def inventory_of(server, **ssh):
    hosts = {
        "alpha": {
            "address": server.address,
            "port": server.port,
            "user": "root",
            "control": "lo",
            "roles": ["S", "R0", "R1", "R2", "D"],
        }
    }
    words = {**server.ssh(), **ssh}
    return Inventory.model_validate({"name": "here", "hosts": hosts, "ssh": words})


@pytest.fixture
def host(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    with contextlib.closing(Host(inventory_of(server), "alpha")) as host:
        yield host


def test_program_runs_and_is_fed_and_read(host):
    reply = run(host, ("sh", "-c", "tr a-z A-Z; echo oops >&2; exit 3"), b"some words" * 100_000)
    assert (reply.status, reply.errors) == (3, "oops")
    assert reply.output == b"SOME WORDS" * 100_000


def test_words_arrive_as_they_were_given(host):
    words = ("$HOME", "a b", "it's", '"', "*", "x\ny", "")
    reply = run(host, ("printf", "%s|", *words))
    assert reply.text == "".join(f"{word}|" for word in words)


def test_our_address_is_known_to_the_host(host):
    assert host.client_address == "127.0.0.1"


def test_program_that_says_nothing_is_given_up(host):
    begun = time.monotonic()
    with pytest.raises(TestbedError, match="no data for too long during `sleep 60`"):
        run(host, ("sleep", "60"), silence=0.5)
    assert time.monotonic() - begun < 10


def refusal(server, monkeypatch, home, **ssh):
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(TestbedError) as caught:
        Host(inventory_of(server, **ssh), "alpha")
    assert caught.value.where == "host alpha (roles S, R0, R1, R2, D)"
    return caught.value


def test_unknown_host_key_is_refused(server, monkeypatch, tmp_path):
    (tmp_path / "none").write_text("")
    error = refusal(server, monkeypatch, tmp_path, known_hosts=str(tmp_path / "none"))
    assert "is not in known_hosts" in error.message
    assert f"`ssh -p {server.port} root@127.0.0.1`" in error.hint


def test_other_host_key_is_refused(server, monkeypatch, tmp_path):
    other = real_sshd.make_key(tmp_path / "other").split()[:2]
    wrong = tmp_path / "known_hosts"
    wrong.write_text(f"[127.0.0.1]:{server.port} {' '.join(other)}\n")
    error = refusal(server, monkeypatch, tmp_path, known_hosts=str(wrong))
    assert "differs from the one in known_hosts" in error.message


def test_configuration_that_switches_checking_off_changes_nothing(server, monkeypatch, tmp_path):
    config = tmp_path / "config"
    config.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n")
    (tmp_path / "none").write_text("")
    words = {"config": str(config), "known_hosts": str(tmp_path / "none")}
    assert "is not in known_hosts" in refusal(server, monkeypatch, tmp_path, **words).message


def test_inventorys_host_key_counts_before_an_older_one_of_the_user(server, monkeypatch, tmp_path):
    (tmp_path / ".ssh").mkdir()
    old = real_sshd.make_key(tmp_path / "old").split()[:2]
    name = f"[127.0.0.1]:{server.port}"
    (tmp_path / ".ssh/known_hosts").write_text(f"{name} {' '.join(old)}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    Host(inventory_of(server), "alpha").close()


def test_users_known_hosts_will_do(server, monkeypatch, tmp_path):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/known_hosts").write_text(server.known_hosts.read_text())
    monkeypatch.setenv("HOME", str(tmp_path))
    Host(inventory_of(server, known_hosts=None), "alpha").close()


def test_key_that_is_not_accepted(server, monkeypatch, tmp_path):
    real_sshd.make_key(tmp_path / "mine")
    error = refusal(server, monkeypatch, tmp_path, identity=str(tmp_path / "mine"))
    assert "rejects all SSH keys" in error.message
    assert "ssh-add" in error.hint


def test_nobody_listens(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    inventory = inventory_of(server)
    alpha = inventory.hosts["alpha"].model_copy(update={"port": real_sshd.free_port()})
    closed = inventory.model_copy(update={"hosts": {"alpha": alpha}})
    with pytest.raises(TestbedError, match=r"no connection to root@127\.0\.0\.1"):
        Host(closed, "alpha")


def test_gateways_are_held_to_the_same_policy(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / "config"
    config.write_text(
        f"Host alpha\n  HostName 127.0.0.1\n  Port {server.port}\n"
        f"  ProxyJump jump\nHost jump\n  HostName 127.0.0.1\n  Port {server.port}\n  User root\n"
    )
    inventory = inventory_of(server, config=str(config))
    alpha = inventory.hosts["alpha"].model_copy(update={"address": None, "port": None})
    through = inventory.model_copy(update={"hosts": {"alpha": alpha}})
    chain = ssh_hosts._with_gateways(ssh_hosts._connection(through, "alpha"))
    assert len(chain) == 2
    assert all(isinstance(each.client._policy, RejectPolicy) for each in chain)
    with contextlib.closing(Host(through, "alpha")) as host:
        assert run(host, ("echo", "through")).text == "through\n"


def test_connection_that_breaks_is_an_error(server, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    host = Host(inventory_of(server), "alpha")
    session = int(run(host, ("sh", "-c", "echo $PPID")).text)
    threading.Timer(0.5, os.kill, (session, signal.SIGKILL)).start()
    with pytest.raises(TestbedError, match="host alpha"):
        run(host, ("sh", "-c", "sleep 30; echo never"), silence=20)
    host.close()


def test_files_are_pushed_once_and_fetched_with_their_checksums(host, tmp_path):
    path = str(tmp_path / "there/deep/file")
    assert files.put(host, b"content" * 10_000, path, "0755")
    assert not files.put(host, b"content" * 10_000, path, "0755")
    assert files.put(host, b"other", path)
    files.put_tree(host, {"a/b": b"1", "c": bytes(3_000_000)}, str(tmp_path / "tree"))
    assert files.fetch(host, str(tmp_path / "tree"), tmp_path / "here") == 2
    assert (tmp_path / "here/a/b").read_bytes() == b"1"
    assert (tmp_path / "here/c").stat().st_size == 3_000_000


def test_sudo_is_used_where_the_user_is_not_root(host, monkeypatch):
    replies = {
        ("sh", "-c", ssh_hosts._WHO): ssh_process.Reply(0, b"1000\n192.0.2.9\n", ""),
        ("sudo", "-n", "true"): ssh_process.Reply(0, b"", ""),
    }
    monkeypatch.setattr(ssh_hosts, "run", lambda _host, argv: replies[tuple(argv)])
    assert host._become_root() == ("sudo", "-n")
    assert host.client_address == "192.0.2.9"
    replies["sudo", "-n", "true"] = ssh_process.Reply(1, b"", "sudo: a password is required")
    with pytest.raises(TestbedError, match="a password is required") as caught:
        host._become_root()
    assert "`user: root`" in caught.value.hint
