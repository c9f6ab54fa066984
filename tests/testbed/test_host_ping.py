"""The echo that the doctor lets hosts send, by their agents."""

from __future__ import annotations

import os
import socket
import struct
import threading

import pytest

from tcpf_lab.testbed.ssh.agent import network
from tcpf_lab.testbed.ssh.agent.network import checksum, echo, ping
from tcpf_lab.testbed.ssh.agent.system import Cancelled

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
    found = ping("127.0.0.1", 1000, 2, threading.Event())
    assert found is not None
    assert 0 < found < 1
    monkeypatch.setattr(network, "REPLY_S", 0.2)
    assert ping("127.0.0.1", 70_000, 1, threading.Event()) is None  # larger than any packet
    monkeypatch.setattr(socket.socket, "sendto", lambda *_: 0)
    assert ping("127.0.0.1", 84, 1, threading.Event()) is None
    ended = threading.Event()
    ended.set()
    with pytest.raises(Cancelled):
        ping("127.0.0.1", 84, 1, ended)
