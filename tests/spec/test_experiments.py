"""The shipped experiments say what the papers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpf_lab.report.claims.published import published
from tcpf_lab.report.style import CASES
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.graph import ETHERNET_HEADER
from tcpf_lab.spec.load import load, load_any, members
from tcpf_lab.spec.marker import Meter, NoMarker, Tcpf, Token
from tcpf_lab.spec.queue import Bfifo, Frio, Red, Rio
from tcpf_lab.spec.sweep import expand
from tcpf_lab.spec.tcp import Tcp

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"


@pytest.mark.parametrize(
    ("config", "sack", "top"),
    [("A", True, 200_000), ("B", False, 200_000), ("C", True, 30_000), ("D", False, 30_000)],
)
def test_a_configuration_is_the_papers(config: str, sack: bool, top: int) -> None:
    experiment = load(EXPERIMENTS / f"config{config}.yaml")
    assert experiment.reference is not None
    assert experiment.reference.config == config
    assert (experiment.tcp.profile, experiment.tcp.sack) == ("sysctl-2.2", sack)
    assert tuple(experiment.cases) == tuple(CASES)
    tail_drop, red = (experiment.cases[f"NoMark+{name}"].queue for name in ("TailDrop", "RED"))
    assert isinstance(tail_drop, Bfifo)
    assert isinstance(red, Red)
    assert (red.limit, red.min, red.max, red.probability) == (500_000, 10_000, top, 0.25)


@pytest.mark.parametrize(
    ("config", "top"), [("A", 200_000), ("B", 200_000), ("C", 30_000), ("D", 30_000)]
)
def test_queues_with_precedences_have_the_papers_thresholds(config: str, top: int) -> None:
    cases = load(EXPERIMENTS / f"config{config}.yaml").cases
    queues = [case.queue for case in cases.values() if isinstance(case.queue, Rio | Frio)]
    assert [queue.kind for queue in queues] == ["frio", "rio", "rio", "rio", "frio"]
    for queue in queues:
        assert queue.limit == 500_000
        assert (queue.in_min, queue.in_max, queue.in_probability) == (50_000, 490_000, 0.005)
        assert (queue.out_min, queue.out_max, queue.out_probability) == (10_000, top, 0.25)


@pytest.mark.parametrize("config", "ABCD")
def test_markers_deal_out_the_papers_tokens_and_differ_as_the_cases_say(config: str) -> None:
    cases = load(EXPERIMENTS / f"config{config}.yaml").cases
    friendly, older, bucket = (cases[name].marker for name in ("TCPF+RIO", "TCPF(O)+RIO", "TB+RIO"))
    assert isinstance(friendly, Tcpf)
    assert isinstance(older, Tcpf)
    assert isinstance(bucket, Token)
    assert {marker.interval for marker in (friendly, older, bucket)} == {0.4}
    assert bucket.tokens == 296_000
    assert cases["TCPF+FRIO"].marker == friendly
    assert friendly.retransmits == "protect"
    assert older == friendly.model_copy(update={"retransmits": "plain"})
    assert bucket.mode == "reset"
    unmarked = [name for name, case in cases.items() if isinstance(case.marker, NoMarker)]
    assert unmarked == ["NoMark+FRED", "NoMark+TailDrop", "NoMark+RED"]


@pytest.mark.parametrize("config", "ABCD")
def test_a_configuration_runs_as_long_as_planned_from_host_to_host(config: str) -> None:
    experiment = load(EXPERIMENTS / f"config{config}.yaml")
    traffic, graph = experiment.traffic, experiment.topology.graph()
    assert (traffic.start_spread, traffic.warmup, traffic.duration) == (10, 10, 60)
    assert traffic.socket_buffer == 1_000_000
    assert min(link.queue for link in graph.links) >= 1_000_000
    assert [link.rate // 10**6 for link in graph.links] == [100, 100, 10, 100]
    assert graph.links[-1].delay_ba == 0.2
    assert len(expand(experiment)) == 7 * 2 * 10


@pytest.mark.parametrize("config", "ABCD")
def test_every_cell_of_a_configuration_has_published_numbers(config: str) -> None:
    for run in expand(load(EXPERIMENTS / f"config{config}.yaml"), seeds=1):
        assert published(config, run.case_name, run.flows) is not None


def collection(name: str) -> Collection:
    read = load_any(EXPERIMENTS / f"{name}.yaml")
    assert isinstance(read, Collection)
    return read


def test_what_the_papers_leave_open_is_one_setting_for_all_configurations() -> None:
    good, reno, mistuned, both = (load(EXPERIMENTS / f"config{config}.yaml") for config in "ABCD")
    for other in (reno, mistuned, both):
        assert (other.topology, other.traffic) == (good.topology, good.traffic)
        assert other.tcp.model_copy(update={"sack": True}) == good.tcp
    assert (reno.cases, both.cases) == (good.cases, mistuned.cases)
    for name, case in good.cases.items():
        here, there = (one.model_dump() for one in (case, mistuned.cases[name]))
        different = {key for key in here["queue"] if here["queue"][key] != there["queue"][key]}
        assert here["marker"] == there["marker"]
        assert different == {"limit" if name == "NoMark+TailDrop" else _TOP[case.queue.kind]}
    limits = [one.cases["NoMark+TailDrop"].queue.limit for one in (good, mistuned)]
    assert limits[0] * 30_000 == limits[1] * 200_000


#: The threshold that is mistuned, by the kind of queue.
_TOP = {"red": "max", "rio": "out_max", "frio": "out_max"}


def test_chapter_4_is_the_four_configurations_as_they_stand() -> None:
    levels = list(members(collection("chapter4"), EXPERIMENTS / "chapter4.yaml"))
    assert [(level.config, level.factor) for level in levels] == [(c, "") for c in "ABCD"]
    for level in levels:
        alone = load(EXPERIMENTS / f"config{level.config}.yaml")
        assert level.experiment.name == alone.name
        assert expand(level.experiment) == expand(alone)


def test_the_sensitivity_sweep_varies_every_unpublished_choice_one_at_a_time() -> None:
    levels = list(members(collection("sensitivity"), EXPERIMENTS / "sensitivity.yaml"))
    assert {level.factor for level in levels} >= {
        "minimum RTO",
        "initial window",
        "packet size",
        "duration",
        "start spread",
        "weight of the averages",
        "profile of the marker",
        "FRED's minq",
        "FRED's fair share",
        "FRED with many flows",
        "tail drop's limit",
    }
    alone = load(EXPERIMENTS / "configA.yaml")
    assert (levels[0].factor, levels[0].experiment.name) == ("", "configA")
    for level in levels[1:]:
        changed = level.experiment
        assert changed.name.startswith("sensitivity-")
        assert (changed.matrix.flows, changed.matrix.seed) == ((100,), (1, 2, 3))
        parts = ("topology", "tcp", "traffic", "cases")
        different = [part for part in parts if getattr(changed, part) != getattr(alone, part)]
        assert len(different) == 1, level


def test_full_duplex_has_every_configuration_on_a_switched_network_and_with_todays_tcp() -> None:
    levels = members(collection("full_duplex"), EXPERIMENTS / "full_duplex.yaml")
    assert [level.level for level in levels] == [
        name for c in "ABCD" for name in ("", f"full duplex in {c}", f"today's TCP in {c}")
    ]
    for plain, switched, today in zip(levels[::3], levels[1::3], levels[2::3], strict=True):
        wire = switched.experiment.topology.chain
        assert wire is not None
        assert (wire.duplex, wire.access_duplex, wire.ring) == ("full", None, None)
        assert switched.experiment.tcp == plain.experiment.tcp
        assert today.experiment.topology == plain.experiment.topology
        assert today.experiment.tcp == Tcp(profile="modern", sack=plain.experiment.tcp.sack)


#: Paper 004, sections 4.1 to 4.3: in_min, in_max, out_min, out_max in packets.
OVERLAPS = {
    "fully overlapped": (20, 100, 20, 100),
    "non-overlapped": (60, 100, 20, 60),
    "partially overlapped": (60, 100, 20, 100),
}


def test_the_scenarios_of_the_rio_model_are_the_papers() -> None:
    experiment = load(EXPERIMENTS / "rio_overlap.yaml")
    graph = experiment.topology.graph()
    packet = experiment.topology.builder.mtu + ETHERNET_HEADER
    assert packet == 1000
    assert graph.bottleneck.rate / 8 / packet == 6000
    assert {link.rate for link in graph.links if {link.a[0], link.b[0]} & {"S", "D"}} == {10**6}
    # Sections 4 and 10.3 of the audit: 100 + 2i ms, and a packet of 8 ms on either access link.
    round_trips = [link.delay_ba for link in graph.links if link.b[0] == "D"]
    assert round_trips == [round(0.1 + 0.002 * i + 2 * 0.008, 6) for i in range(100)]
    for name, thresholds in OVERLAPS.items():
        case = experiment.cases[name]
        assert isinstance(case.marker, Token)
        assert case.marker.mode == "flow"
        marked = experiment.topology.builder.mtu  # markers count IP lengths
        assert case.marker.tokens / marked == 20
        assert case.marker.tokens / marked / case.marker.interval == 40
        assert isinstance(case.queue, Rio)
        said = case.queue.in_min, case.queue.in_max, case.queue.out_min, case.queue.out_max
        assert said == tuple(packet * threshold for threshold in thresholds)
        assert (case.queue.in_probability, case.queue.out_probability) == (0.01, 0.06)
        assert (case.queue.mode, case.queue.uniformize, case.queue.ewma) == ("wred", "none", 0)


def test_the_other_readings_of_rio_differ_in_nothing_else() -> None:
    model, others = load(EXPERIMENTS / "rio_overlap.yaml"), load(EXPERIMENTS / "rio_readings.yaml")
    assert (others.topology, others.tcp, others.traffic) == (
        *(model.topology, model.tcp, model.traffic),
    )
    own = {case.queue for case in model.cases.values()}
    free = {"mode": "wred", "uniformize": "none", "ewma": 0}
    as_model = {case.queue.model_copy(update=free) for case in others.cases.values()}
    assert as_model == own


def test_the_parking_lot_shares_out_what_configuration_a_gives_a_flow() -> None:
    lot, one = load(EXPERIMENTS / "parking_lot.yaml"), load(EXPERIMENTS / "configA.yaml")
    graph = lot.topology.graph()
    flows = lot.matrix.flows[0] + graph.cross[0].flows
    assert graph.bottleneck.rate / flows == one.topology.graph().bottleneck.rate / 100
    for name, case in lot.cases.items():
        marker, other = case.marker, one.cases[name].marker
        assert isinstance(marker, Meter)
        assert isinstance(other, Meter)
        assert 2 * marker.tokens == 296_000 * flows / 100  # two markers feed each bottleneck
        assert marker.interval == other.interval
