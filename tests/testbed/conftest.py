"""A testbed of real hosts: an sshd in a network of its own on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import real_sshd

from tcpf_lab.testbed.inventory import Inventory
from tcpf_lab.testbed.ssh.run import SshTestbed


@pytest.fixture(scope="session")
def one_host(tmp_path_factory):
    """Return a host: this machine, with another network and other temporary files."""
    if reason := real_sshd.why_not(namespaces=True):
        pytest.skip(reason)
    with real_sshd.host(tmp_path_factory.mktemp("host")) as server:
        yield server


@pytest.fixture
def ssh(one_host, tmp_path, monkeypatch) -> SshTestbed:
    """Return the testbed of that host, which plays every role."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("~/.cache").expanduser()))
    state = one_host.directory / "state"
    shutil.rmtree(state, ignore_errors=True)
    entry = {
        "address": one_host.address,
        "port": one_host.port,
        "user": "root",
        "control": real_sshd.CONTROL,
        "roles": ["S", "R0", "R1", "R2", "D"],
    }
    words = {
        "name": "one-host",
        "hosts": {"alpha": entry},
        "ssh": one_host.ssh(),
        "state_directory": str(state),
    }
    return SshTestbed(Inventory.model_validate(words))
