"""RIO with nothing marked against the kernel's own RED: the published metrics must agree."""

from __future__ import annotations

from statistics import mean, stdev

import pytest
from scipy.stats import t as student

from tcpf_lab.base import shipped
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import expand

pytestmark = [pytest.mark.uml, pytest.mark.full]

METRICS = ("timeouts", "loss_percent", "goodput_bytes_per_s", "goodput_cov")
SEEDS = 4
#: For four metrics together: each is judged at 1 - 5 % / 4.
CONFIDENCE = 1 - 0.05 / len(METRICS)


@pytest.fixture(scope="module")
def differences(guest_run) -> dict[str, list[float]]:
    """RIO less RED with 100 flows, for each metric and each seed."""
    experiment = load(shipped.directory("experiments") / "rio_as_red.yaml")
    found: dict[tuple[str, int], dict[str, float]] = {}
    for run in expand(experiment, {"flows": "100"}, SEEDS):
        done = guest_run(experiment, case=run.case_name, flows="100", seed=str(run.seed))
        metrics = read_json(done.metrics)
        assert metrics["validity"]["valid"] is True
        found[run.case_name, run.seed] = metrics["metrics"]
    seeds = sorted({seed for _, seed in found})
    return {
        metric: [
            found["NoMark+RIO", seed][metric] - found["NoMark+RED", seed][metric] for seed in seeds
        ]
        for metric in METRICS
    }


@pytest.mark.parametrize("metric", METRICS)
def test_unmarked_rio_and_mainline_red_agree_within_the_confidence_of_the_seeds(
    differences, metric
):
    values = differences[metric]
    assert len(values) == SEEDS
    assert any(values), "two different queues cannot give the same numbers to the last digit"
    half_width = student.ppf((1 + CONFIDENCE) / 2, SEEDS - 1) * stdev(values) / SEEDS**0.5
    assert abs(mean(values)) <= half_width
