"""The pages on coexistence, DualPI2 and latency under load, from runs with known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_tree import Found, member

from tcpf_lab.papers.coexistence import Pair, coexistence, pairs_of
from tcpf_lab.papers.l4s import l4s
from tcpf_lab.papers.latency import latency
from tcpf_lab.report.claims.page import Page, drawn
from tcpf_lab.spec.sweep import Run

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
HOLDS, REFUTED = "holds", "refuted"


def text(name: str) -> str:
    """Give a study with three seeds."""
    return (EXPERIMENTS / f"{name}.yaml").read_text().replace("seed: 1..5", "seed: 1..3")


def verdicts(page: Page | None) -> dict[str, str]:
    assert page is not None
    return {claim.id: str(claim.judgement.verdict) for claim in page.claims}


def model(results: Path) -> dict[tuple[float, str, str, int], Pair]:
    empty = member(results, text("coexistence"), lambda _: None)
    return {(pair.buffer, *pair.who): pair for pair in pairs_of(empty)}


def shares(results: Path, beside_ten: float) -> Found:
    """Give BBR the share of the model; beside ten flows so many times that."""
    of = {(p.limit, *p.who): p.model[0] for p in model(results / "empty").values()}

    def found(run: Run) -> dict[str, Any]:
        one, rest = (run.experiment.traffic.groups or {}).values()
        limit = run.experiment.cases[run.case_name].queue.limit or 0
        share = of[limit, str(one.congestion), str(rest.congestion), rest.flows]
        share *= beside_ten if rest.flows == 10 else 1
        lost = 2.5 if one.congestion == "bbr" else 1.0
        return {"groups": [{"share": share + 1e-4 * run.seed, "loss_percent": lost}, {}]}

    return found


def test_a_model_that_is_right_holds(tmp_path: Path) -> None:
    page = coexistence([member(tmp_path, text("coexistence"), shares(tmp_path, 1))], "")
    found = verdicts(page)
    assert {found[name] for name in ("ware-cubic", "ware-reno", "ware-number")} == {HOLDS}
    assert (found["cao-loss"], found["cao-deep"]) == (HOLDS, REFUTED)  # 54.5 % at 8 BDP
    assert found["ware-window"] == "not decidable"  # no samples of TCP_INFO
    assert page is not None
    assert drawn(page.drawings[0], ["png"])["png"].startswith(b"\x89PNG")


def test_a_share_that_falls_with_the_number_of_flows_refutes(tmp_path: Path) -> None:
    found = verdicts(
        coexistence([member(tmp_path, text("coexistence"), shares(tmp_path, 0.5))], "")
    )
    assert (found["ware-number"], found["ware-cubic"]) == (REFUTED, REFUTED)
    assert found["ware-unfair"] == HOLDS


def test_the_buffer_is_in_bandwidth_delay_products(tmp_path: Path) -> None:
    pair = model(tmp_path)[8, "bbr", "cubic", 10]
    assert (pair.label, pair.limit) == ("BBR beside 10 CUBIC", 400_000)
    assert pair.fair == pytest.approx(1 / 11)


def dualpi2(scalable: float, delay_s: float) -> Found:
    """Give the scalable flow so many times the classic one's rate, and its packets this delay."""

    def found(run: Run) -> dict[str, Any]:
        near = {"mean": delay_s + 1e-6 * run.seed, "p50": delay_s, "p99": 1.5 * delay_s}
        far = {"mean": 0.015, "p50": 0.015, "p99": 0.03}
        rate = 1e5 * (1 + 1e-4 * run.seed)
        groups = [
            {"name": name, "flows": 1, "throughput_bytes_per_s": own, "queueing_delay_s": delay}
            for name, own, delay in (
                ("scalable", scalable * rate, near),
                ("classic", rate, far),
            )
        ]
        of_kernel = {"pkts-in-l": 5, "pkts-in-c": 5, "step-mark": 1, "ecn-mark": 4}
        return {"groups": groups, "queue": {"kernel": of_kernel}}

    return found


def test_rates_in_balance_and_a_short_delay_hold(tmp_path: Path) -> None:
    found = verdicts(l4s([member(tmp_path, text("l4s"), dualpi2(1.1, 0.0005))], ""))
    held = ("dualq-rates", "dualq-delay", "dualq-tail", "dualq-classic", "l4s-id")
    assert {found[name] for name in held} == {HOLDS}
    # At 4 Mbit/s a packet takes 3 ms.
    assert found["dualq-slow"] == HOLDS
    # Equal rates with 5.5 ms and 20 ms are unequal windows.
    assert (found["dualq-windows"], found["l4s-single"]) == (REFUTED, REFUTED)


def test_a_delay_of_a_packet_refutes(tmp_path: Path) -> None:
    found = verdicts(l4s([member(tmp_path, text("l4s"), dualpi2(5, 0.003))], ""))
    assert (found["dualq-delay"], found["dualq-rates"]) == (REFUTED, REFUTED)
    assert found["l4s-single"] == HOLDS


def rrul(added_s: float, far: float) -> Found:
    """Give FQ-CoDel's ping so much under load, and a far flow so many times a near one's rate."""

    def found(run: Run) -> dict[str, Any]:
        fair = run.case_name in ("FQ-CoDel", "CAKE")
        flows = {name: g.flows for name, g in (run.experiment.traffic.groups or {}).items()}
        rates = {"near": 1e5, "far": 1e5 * (far if fair else far / 2), "down": 1e5}
        groups = [
            {"name": n, "flows": f, "throughput_bytes_per_s": f * rates[n], "direction": "up"}
            for n, f in flows.items()
        ]
        p95 = 0.02 + (added_s if fair else 0.05) + 1e-4 * run.seed
        ping = {"name": "ping", "idle": {"p50_s": 0.02}, "load": {"p95_s": p95}}
        return {"groups": groups, "probes": [ping, {"name": "call", "load": {"p99_s": 0.002}}]}

    return found


@pytest.mark.parametrize(
    ("added", "far", "balance", "fair"),
    [(0.005, 1.0, HOLDS, HOLDS), (0.1, 0.5, REFUTED, REFUTED)],
)
def test_fairness_queueing_is_judged_by_ping_and_round_trip_times(
    tmp_path: Path, added: float, far: float, balance: str, fair: str
) -> None:
    page = latency([member(tmp_path, text("latency_under_load"), rrul(added, far))], "")
    found = verdicts(page)
    assert (found["good-balance"], found["good-fair"]) == (balance, fair)
    assert found["fq-sparse"] == HOLDS
    assert page is not None
    assert drawn(page.drawings[0], ["png"])["png"].startswith(b"\x89PNG")
