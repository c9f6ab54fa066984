"""Runs on another version of Linux."""

from __future__ import annotations

from dataclasses import replace

import pytest
from run_maker import make_run

from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.uml import source

VERSIONS = """
name: versions
kernel: "VERSION"
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 40 ms, mtu: 1500 B}}
tcp: {profile: modern}
traffic:
  warmup: 1 s
  duration: 5 s
  start_spread: 200 ms
  tcp_info: 100 ms
  groups:
    cubic: {flows: 2, congestion: cubic}
    bbr: {flows: 1, congestion: bbr}
    back: {direction: down, ip: 6}
cases:
  TailDrop: {queue: {kind: bfifo, limit: 30 kB}}
  FRIO:
    marker: {kind: tcpf, interval: 400 ms, tokens: 296 kB}
    queue: {kind: frio, limit: 100 kB, in_min: 20 kB, in_max: 80 kB, in_probability: 0.02,
      out_min: 10 kB, out_max: 40 kB, out_probability: 0.1}
matrix: {seed: 1}
"""


@pytest.mark.nightly
@pytest.mark.uml
@pytest.mark.parametrize("version", ["6.1", "7.3"])
def test_runs_on_another_version_are_valid(version, guest_run, uml, tmp_path):
    kernel = source.build(version)
    path = tmp_path / "versions.yaml"
    path.write_text(VERSIONS.replace("VERSION", version))
    experiment = load(path)
    for run in expand(experiment):
        files = guest_run(experiment, case=run.case_name)
        found = read_json(files.metrics)
        assert found["validity"]["valid"], found["validity"]["reasons"]
        assert read_json(files.manifest)["facts"]["kernel"] == kernel.version
    with_ptrace = make_run(tmp_path, replace(uml, seccomp="off"), run)
    assert read_json(with_ptrace.metrics) == found, "neither seccomp nor a repetition changes it"
