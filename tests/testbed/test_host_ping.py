"""The echo that the doctor lets hosts send, by the Python that they have."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tcpf_lab.testbed.ssh import ping as host_ping
from tcpf_lab.testbed.ssh.ping import checksum, echo, ping

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="sending ICMP takes root")


@pytest.mark.parametrize("size", [84, 85, 1000, 1001])
def test_a_request_has_its_size_and_a_right_checksum(size):
    packet = echo(4711, 3, size)
    assert len(packet) == size - 20
    kind, code, _, identity, number = struct.unpack_from("!BBHHH", packet)
    assert (kind, code, identity, number) == (8, 0, 4711, 3)
    assert checksum(packet + bytes(len(packet) % 2)) == 0


@AS_ROOT
def test_this_machine_answers_itself_and_nobody_answers_for_a_lost_packet(monkeypatch):
    found = ping("127.0.0.1", 1000, 2)
    assert found is not None
    assert 0 < found < 1
    monkeypatch.setattr(host_ping, "REPLY_S", 0.2)
    assert ping("127.0.0.1", 70_000, 1) is None  # larger than any packet
    monkeypatch.setattr(socket.socket, "sendto", lambda *_: 0)
    assert ping("127.0.0.1", 84, 1) is None


@AS_ROOT
def test_it_runs_as_a_text_without_the_package(tmp_path):
    text = Path(host_ping.__file__).read_text()
    command = [sys.executable, "-I", "-c", text, "127.0.0.1", "84", "1"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert 0 < float(said.stdout) < 1
