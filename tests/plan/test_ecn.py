"""ECN that no queue uses is refused before a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.plan.effect import refuse_ecn_without_marks
from tcpf_lab.spec.load import apply_overrides, parse

TEXT = """\
name: ecn
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms}}
tcp: {profile: modern, ecn: classic}
traffic: {start_spread: 0 s, warmup: 0 s, duration: 2 s}
cases:
  TailDrop: {queue: {kind: bfifo, limit: 500 kB}}
  RED: {queue: {kind: red, limit: 500 kB, min: 10 kB, max: 100 kB, probability: 0.25}}
matrix: {flows: 8, seed: 1}
"""


def refuse(tmp_path: Path, *settings: str) -> None:
    source = tmp_path / "ecn.yaml"
    source.write_text(TEXT)
    refuse_ecn_without_marks([apply_overrides(parse(TEXT, "ecn.yaml"), settings)], source)


@pytest.mark.parametrize(
    "setting",
    ["tcp.sack=true", "matrix.tcp.ecn=[off, classic]", "cases.RED.queue={kind: sfq}"],
)
def test_ecn_over_queues_that_cannot_mark_is_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(RequestError, match="no case has a queue that marks") as caught:
        refuse(tmp_path, setting)
    assert f"{tmp_path}/ecn.yaml:3: tcp.ecn" in str(caught.value)
    assert "ecn: true" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "setting",
    [
        *("tcp.ecn=off", "tcp.ecn=passive", "cases.RED.queue.ecn=true"),
        "matrix.cases.RED.queue.ecn=[true, false]",
        "cases.RED.queue={kind: fq, ce_threshold: 1 ms}",
        *(f"cases.RED.queue={{kind: {kind}}}" for kind in ("fq_codel", "cake", "sfb")),
        "cases.RED.queue={kind: tc, limit: 500 kB, words: gred}",
    ],
)
def test_ecn_is_allowed_where_a_queue_may_mark(tmp_path: Path, setting: str) -> None:
    refuse(tmp_path, setting)


def test_ecn_of_a_group_is_refused_too(tmp_path: Path) -> None:
    groups = ("matrix={seed: 1}", "traffic.groups={a: {flows: 2}, b: {ecn: classic}}")
    with pytest.raises(RequestError, match=r"traffic\.groups\.b\.ecn"):
        refuse(tmp_path, "tcp.ecn=passive", *groups)
    refuse(tmp_path, "tcp.ecn=passive", *groups, "cases.RED.queue.ecn=true")
