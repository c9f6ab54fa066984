"""An axis or a setting that changes no plan is refused, and the key that acts is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.base.errors import RequestError
from tcpf_lab.plan import effect
from tcpf_lab.run.selection import choose

TEXT = """
name: idle
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 50 ms}}
tcp: {profile: modern}
traffic: {start_spread: 1 s, warmup: 4 s, duration: 10 s}
cases:
  Mine: {queue: {kind: tc, words: fq_codel limit 500, limit: 500 kB}}
  Other: {queue: {kind: tc, words: codel limit 500, limit: 500 kB}}
"""
TAIL_DROP = "cases.Drop={queue: {kind: bfifo, limit: 125 kB}}"


def chosen(
    tmp_path: Path, *settings: str, matrix: str = "flows: 3, seed: 1", only: tuple[str, ...] = ()
) -> int:
    """Give how many runs a file makes."""
    path = tmp_path / "idle.yaml"
    path.write_text(f"{TEXT}matrix: {{{matrix}}}\n")
    return len(choose(str(path), "uml", tmp_path, only, overrides=settings).runs)


@pytest.mark.parametrize(
    ("matrix", "settings", "where"),
    [
        ("queue.limit: [100 kB, 1 MB]", (), "idle.yaml:9: queue.limit"),
        ("queue.limit: [100 MB, 1 GB]", (), "idle.yaml:9: queue.limit"),
        ("cases.Mine.queue.limit: [1 MB, 2 MB]", (), "idle.yaml:9: cases.Mine.queue.limit"),
        ("", ("queue.limit=[100 kB, 1 MB]",), "--set queue.limit=[100 kB, 1 MB]"),
        ("", ("queue.limit=1 MB..3 MB:1 MB",), "--set queue.limit=1 MB..3 MB:1 MB"),
        ("", ("matrix.queue.limit=[1 MB, 2 MB]",), "--set matrix.queue.limit=[1 MB, 2 MB]"),
        ("tcp.sack: [true, false]", ("queue.limit=1 MB",), "--set queue.limit=1 MB"),
        ("", ("name=x", "cases.Mine.queue.limit=1 MB"), "--set cases.Mine.queue.limit=1 MB"),
        ("", (TAIL_DROP, "cases.Mine.queue.limit=1 MB"), "--set cases.Mine.queue.limit=1 MB"),
    ],
)
def test_what_changes_no_plan_is_refused_with_the_key_that_acts(
    tmp_path: Path, matrix: str, settings: tuple[str, ...], where: str
) -> None:
    with pytest.raises(RequestError) as caught:
        chosen(tmp_path, *settings, matrix=f"flows: 3, seed: 1, {matrix}")
    assert caught.value.where.removeprefix(f"{tmp_path}/") == where
    assert "queue.words" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "only", "runs"),
    [
        (("queue.words=[pie limit 500, pie limit 900]",), (), 4),
        (("queue.limit=1 MB", "queue.words=codel limit 1000"), (), 2),  # one describes the other
        (("queue.limit=500 kB",), (), 2),  # as the file has it
        (("tcp.ecn=passive", "traffic.generator=native"), (), 2),  # says what is so anyway
        (("queue.limit=[1 MB, 2 MB]", TAIL_DROP), (), 6),  # acts in one case
        (("queue.limit=[1 MB, 2 MB]", TAIL_DROP), ("case=Mine",), 2),
        (("queue.limit=1 MB", TAIL_DROP), (), 3),
        (("matrix.queue.limit=1 MB",), (), 2),  # one value compares nothing
        (("matrix.seed=1..3", "tcp.sack=[true, false]"), (), 12),
    ],
)
def test_what_acts_somewhere_or_says_what_is_so_is_accepted(
    tmp_path: Path, settings: tuple[str, ...], only: tuple[str, ...], runs: int
) -> None:
    assert chosen(tmp_path, *settings, only=only) == runs


def test_few_plans_of_a_matrix_of_thousands_are_composed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    compose = effect.compose
    monkeypatch.setattr(effect, "compose", lambda run: made.append(run.id) or compose(run))
    axes = "traffic.duration: 1 s..30 s:1 s, tcp.initcwnd: 1..20, seed: 1..5, flows: [3, 4]"
    assert chosen(tmp_path, matrix=axes) == 2 * 30 * 20 * 5 * 2
    assert len(made) == 4
