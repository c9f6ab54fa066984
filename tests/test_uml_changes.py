"""Links that change, in real guests: at which instants, and that one rate is tbf's."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tcpf_lab.metrics.captured import read_captured
from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import load

FILE = """
name: changes
topology:
  chain: {{access: 100 Mbit, bottleneck: {bottleneck}, delay: {delay}, mtu: 1500 B{more}}}
tcp: {{profile: modern}}
traffic: {{start_spread: 500 ms, warmup: 1 s, duration: 5 s}}
cases: {{FIFO: {{queue: {{kind: bfifo, limit: 60 kB}}}}}}
matrix: {{flows: 2, seed: 1}}
"""

pytestmark = [pytest.mark.uml, pytest.mark.full]


@pytest.fixture
def run(guest_run, tmp_path):
    """Return a function that runs the file and gives its files and what passed the bottleneck."""

    def run(bottleneck, delay="20 ms", more=""):
        path = tmp_path / "changes.yaml"
        path.write_text(FILE.format(bottleneck=bottleneck, delay=delay, more=more))
        files = guest_run(load(path), seed="1")
        found = read_json(files.metrics)
        assert found["validity"]["valid"], found["validity"]["reasons"]
        record = read_captured(files)
        return files, (record.transit, record.epoch_ns)

    return run


def departures_s(passed):
    transit, epoch_ns = passed
    return (transit.departure_ns[~transit.lost] - epoch_ns) / 1e9


def test_a_schedule_of_one_rate_passes_packets_as_tbf_does(run):
    _, changing = run("{0 s: 10 Mbit, 4 s: 10 Mbit}")
    _, fixed = run("10 Mbit")
    times = departures_s(changing), departures_s(fixed)
    assert times[0].size > 4000
    assert np.array_equal(*times)


def test_rate_outage_delay_and_loss_change_at_their_instants(run):
    files, passed = run(
        "{0 s: 10 Mbit, 3 s: 1 Mbit, 4 s: 0 bit, 5 s: 10 Mbit}",
        delay="{0 s: 20 ms, 2 s: 60 ms}",
        more=", forward: {loss: {0 s: 0, 5.5 s: 0.05}}, reverse: {delay: 3 ms}",
    )
    times = departures_s(passed)
    assert np.sum(times < 4) > 1000
    assert not np.any((times > 4.0001) & (times < 5))
    slow = np.diff(times[(times > 3.1) & (times < 4)])
    assert np.median(slow) == pytest.approx(1514 * 8 / 1e6, rel=1e-3)
    # The link wakes by itself when the outage is over.
    assert np.min(times[times > 4.5]) == pytest.approx(5, abs=2e-3)
    behind = next(one for one in read_json(files.stats / "qdisc-R2.json") if one["dev"] == "R2-D")
    assert behind["drops"] > 5


def test_a_trace_gives_its_opportunities_and_no_more(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    milliseconds = [*range(1, 500), *range(1000, 2001, 2)]
    (tmp_path / "on-off.trace").write_text("".join(f"{one}\n" for one in milliseconds))
    _, passed = run("{trace: on-off.trace}")
    at = departures_s(passed) * 1000
    whole = np.round(at)
    assert np.max(np.abs(at - whole)) < 0.01, "packets leave when a millisecond begins"
    assert set((whole % 2000).astype(int)) <= {one % 2000 for one in milliseconds}
    (transit, _), used = passed, np.zeros(int(whole.max()) + 1)
    np.add.at(used, whole.astype(int), transit.wire_length[~transit.lost])
    # What a packet takes of one opportunity and of the next is less than both.
    assert used.max() <= 2 * 1514


PROBED = """
name: jitter
topology:
  chain:
    access: 100 Mbit
    bottleneck: 10 Mbit
    delay: 20 ms
    forward: {delay: 10 ms, jitter: 10 ms, in_order: IN_ORDER}
tcp: {profile: modern}
traffic:
  warmup: 1 s
  duration: 1 s
  groups: {bulk: {rate: 1 Mbit, start_spread: 0 s}}
  probes: {call: {kind: udp, interval: 2 ms}}
cases: {FIFO: {queue: {kind: bfifo, limit: 60 kB}}}
matrix: {seed: 1}
"""


@pytest.mark.parametrize(("in_order", "reordered"), [("true", False), ("false", True)])
def test_jitter_reorders_unless_it_is_in_order(guest_run, tmp_path, in_order, reordered):
    path = tmp_path / "jitter.yaml"
    path.write_text(PROBED.replace("IN_ORDER", in_order))
    files = guest_run(load(path), seed="1")
    lines = (files.stats / "probe-call-receiver.jsonl").read_text().splitlines()
    end = json.loads(lines[-1])
    assert end["received"] > 900
    assert (end["reordered"] > 0) == reordered
