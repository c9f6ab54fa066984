"""What probes sent, and what became of it, from the records of their programs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from tcpf_lab.metrics.probes import read_probe

EPOCH_NS = 1_700_000_000 * 10**9


def echoes(tmp_path, replies, count):
    """Read replies to echo requests of every 20 ms, of which 10 ms were requested.

    A reply is its request's number and the round-trip time in ms.
    """
    lines = (
        f"[{1_700_000_000 + at:.6f}] 64 bytes from 10.0.0.1: icmp_seq={(number + 1) & 0xFFFF} "
        f"ttl=61 time={took} ms"
        for number, took in replies
        for at in (0.02 * number + took / 1e3,)
    )
    end = f"{count} packets transmitted, {len(replies)} received, time {20 * (count - 1)}ms"
    (tmp_path / "ping.txt").write_text("\n".join((*lines, end, "")))
    probe = {"kind": "icmp", "records": "ping.txt", "sender": "Sping", "start_s": 0.0}
    probe |= {"interval_s": 0.01, "count": count}
    clocks = SimpleNamespace(of=lambda _node: None)
    run = SimpleNamespace(epoch_ns=EPOCH_NS, clocks=clocks)
    return read_probe(SimpleNamespace(stats=tmp_path, root=tmp_path), run, probe)


def test_echoes_are_told_apart_after_the_last_sequence_number(tmp_path):
    """The first answers are lost, and those around the wrap come in the wrong order."""
    replies = [(5, 40.0), (65536, 20.0), (65534, 60.0), (65535, 50.0), (131_073, 30.0)]
    found = echoes(tmp_path, replies, 131_074)
    there = np.flatnonzero(~found.lost)
    assert there.tolist() == [5, 65534, 65535, 65536, 131_073]
    assert np.allclose(1e3 * found.took_s[there], [40, 60, 50, 20, 30])
    assert np.allclose(found.time_s, 0.02 * np.arange(131_074), atol=1e-5), "of those lost too"


def test_echoes_without_any_reply_are_lost(tmp_path):
    assert np.all(echoes(tmp_path, [], 3).lost)
