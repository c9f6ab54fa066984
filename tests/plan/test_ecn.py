"""ECN that no queue uses is refused before a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.plan.effect import refuse_ecn_without_marks, refuse_marks_without_ecn
from tcpf_lab.spec.load import apply_overrides, parse
from tcpf_lab.spec.sweep import expand

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
    [
        *("tcp.sack=true", "matrix.tcp.ecn=[off, classic]", "cases.RED.queue={kind: sfq}"),
        *("matrix.queue.limit=[400 kB, 500 kB]", "matrix.cases.RED.queue.ecn=[false]"),
    ],
)
def test_ecn_over_queues_that_cannot_mark_is_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(RequestError, match="no cell with it has a queue that marks") as caught:
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


def test_each_experiment_of_several_is_judged_alone(tmp_path: Path) -> None:
    source = tmp_path / "ecn.yaml"
    source.write_text(TEXT)
    without = parse(TEXT, "ecn.yaml")
    marking = apply_overrides(without, ["cases.RED.queue.ecn=true"])
    with pytest.raises(RequestError, match="no cell"):
        refuse_ecn_without_marks([marking, without], source)


MARKING = "cases.RED.queue.ecn=true"
GROUPS = ("matrix={seed: 1}", "traffic.groups={a: {flows: 2}, b: {flows: 2}}", "tcp.ecn=passive")


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ((MARKING,), False),
        ((MARKING, "matrix.tcp.ecn=[classic, passive]"), True),
        ((MARKING, "tcp.ecn=passive"), True),
        ((MARKING, "tcp.ecn=passive", "tcp.congestion=dctcp"), False),
        ((MARKING, "tcp.ecn=off", "matrix.case=TailDrop"), False),
        ((MARKING, *GROUPS), True),
        ((MARKING, *GROUPS, "traffic.groups.b.ecn=classic"), False),
        ((MARKING, *GROUPS, "traffic.groups.b={flows: 0, ecn: classic}"), True),
        ((MARKING, *GROUPS, "traffic.groups.b.sysctls={net.ipv4.tcp_ecn: 1}"), False),
    ],
)
def test_a_queue_that_marks_nothing_is_refused_before_the_run(
    tmp_path: Path, settings: tuple[str, ...], refused: bool
) -> None:
    runs = expand(apply_overrides(parse(TEXT, "ecn.yaml"), settings))
    if not refused:
        refuse_marks_without_ecn(runs, tmp_path / "ecn.yaml")
        return
    with pytest.raises(RequestError, match="no sender of red") as caught:
        refuse_marks_without_ecn(runs, tmp_path / "ecn.yaml")
    assert "cases.RED.queue" in str(caught.value)
