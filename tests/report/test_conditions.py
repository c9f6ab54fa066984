from __future__ import annotations

from tcpf_lab import shipped
from tcpf_lab.report.conditions import conditions
from tcpf_lab.spec.load import load
from tcpf_lab.spec.override import apply_overrides


def test_a_path_that_loses_packets_besides_is_told_apart_from_one_that_does_not() -> None:
    plain = load(shipped.directory("experiments") / "smoke.yaml")
    impaired = apply_overrides(plain, ["topology.chain.reverse={loss: 0.02}"])
    said = conditions([plain]).replace("\u00a0", " ")
    assert said == "5 s after 2 s of warm-up, 10 Mbit/s, 200 ms, linux-2.2 SACK"
    assert conditions([impaired]).replace("\u00a0", " ") == said + " over an impaired path"
    both = conditions([plain, impaired]).replace("\u00a0", " ")
    assert both == f"{said} or linux-2.2 SACK over an impaired path"
