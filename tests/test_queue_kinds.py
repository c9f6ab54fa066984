"""Every queue kind in a guest: its options read back, its own counts against the captures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from queue_kinds import FULL, NEWER, OF_DEFAULTS

from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.results.layout import RunFiles, read_json
from tcpf_lab.spec.load import parse
from tcpf_lab.spec.queue import KINDS
from tcpf_lab.testbed.uml import source

EXPERIMENT = parse(
    """
name: kinds
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms}}
tcp: {profile: modern, ecn: classic}
traffic: {start_spread: 0 s, warmup: 0 s, duration: 2 s}
cases: {q: {queue: {kind: bfifo, limit: 507 kB}}}
matrix: {flows: 8, seed: 1}
""",
    "kinds.yaml",
)
#: Kinds that mark when they are configured so: fq as many as wait, which none does while paced.
MARKING = {"red", "codel", "pie", "fq_pie", "dualpi2", "cake", "choke", "sfb"}
MARKING_MORE = {"fq_codel": {"ce_threshold_selector": "all"}, "fq": {"pacing": False}}
#: A marked packet of which it is not known whether it left marked.
INEXACT = {"codel", "fq_codel", "fq", "choke", "dualpi2"}


def built(kinds: Iterable[str]) -> list[Any]:
    """Kinds to test, those for which another kernel is built only at night."""
    nightly = pytest.mark.nightly
    return [pytest.param(kind, marks=nightly) if kind in NEWER else kind for kind in kinds]


@pytest.fixture
def made(guest_run: Callable[..., RunFiles]) -> Callable[..., dict[str, Any]]:
    def run(kind: str, settings: dict[str, Any], *more: str) -> tuple[RunFiles, dict[str, Any]]:
        queue = f"cases.q.queue={json.dumps({'kind': kind, **settings})}"
        if kind in NEWER:
            source.build(NEWER[kind])
            more += (f'kernel="{NEWER[kind]}"',)
        files = guest_run(EXPERIMENT, queue, *more)
        return files, read_json(files.metrics)

    return run


def check(metrics: dict[str, Any], name: str) -> tuple[bool, str]:
    (found,) = (one for one in metrics["validity"]["checks"] if one["name"] == name)
    return found["ok"], found["detail"]


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("kind", built(KINDS))
def test_a_kind_with_every_key_set_is_read_back_and_counts_what_the_captures_show(made, kind):
    files, metrics = made(kind, FULL[kind] | MARKING_MORE.get(kind, {}))
    assert metrics["validity"]["valid"] is True
    options = read_json(files.manifest)["expect"]["qdisc"]["options"]
    assert check(metrics, "qdisc_in_force") == (
        True,
        f"{'fq_codel' if kind == 'tc' else kind} on R1-R2 with {len(options)} options",
    )
    model = KINDS[kind].model_validate({"kind": kind, **FULL[kind]})
    assert ("queue" in metrics) is bool(model.counters)
    if "queue" not in metrics:
        return
    found = metrics["queue"]
    capture = read_captured(files)
    assert found["drops"] == int(np.sum(capture.transit.lost))
    seen = int(np.sum(capture.captures["egress"].packets["tos"] & 3 == 3))
    assert seen == found["marks"] if kind not in INEXACT else seen <= found["marks"]
    assert (seen > 0) is (kind in MARKING | MARKING_MORE.keys())
    assert metrics["metrics"]["queue_marks"] == found["marks"]


@pytest.mark.uml
@pytest.mark.full
@pytest.mark.parametrize("kind", built(OF_DEFAULTS))
def test_a_kind_with_the_kernels_defaults_makes_a_valid_run(made, kind):
    _, metrics = made(kind, {})
    assert metrics["validity"]["valid"] is True
    assert metrics["metrics"]["packet_loss_percent"] is not None


@pytest.mark.uml
@pytest.mark.full
def test_counters_of_the_queue_need_no_captures(made):
    settings = {"ecn": True, "limit": "507 kB"}
    with_captures, without = (
        made("codel", settings, f"traffic.captures={captures}")[1]["queue"]
        for captures in ("true", "false")
    )
    assert without == with_captures
    assert without["marks"] > 0
