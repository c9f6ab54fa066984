"""Every kind of marker that a file may name has a plan."""

from tcpf_lab.plan.marker import MARKERS
from tcpf_lab.plan.traffic import GENERATORS
from tcpf_lab.spec.marker import KINDS
from tcpf_lab.spec.traffic import Traffic


def test_every_marker_of_the_specification_can_be_planned():
    assert set(MARKERS) == set(KINDS)


def test_every_generator_of_the_specification_can_be_planned():
    allowed = Traffic.model_json_schema()["properties"]["generator"]["enum"]
    assert set(GENERATORS) == set(allowed)
