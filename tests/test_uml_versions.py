"""Runs on another version of Linux."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import without_syscalls
from run_maker import make_run

from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.uml import registered, source
from tcpf_lab.testbed.uml.kernel import Kernel

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


@pytest.mark.nightly
@pytest.mark.uml
def test_runs_need_no_ptrace_where_seccomp_holds_the_guest(uml, tmp_path):
    source.build("7.3")
    path = tmp_path / "versions.yaml"
    path.write_text(VERSIONS.replace("VERSION", "7.3"))
    run = [sys.executable, "-m", "tcpf_lab", "run", path, "--results", tmp_path]
    without = [sys.executable, without_syscalls.__file__, str(without_syscalls.PTRACE)]
    subprocess.run([*without, *run], check=True)


@pytest.mark.nightly
@pytest.mark.uml
def test_git_tree_is_built_again_for_what_has_changed(uml, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    tree = tmp_path / "tree"
    tree.mkdir()
    ball = source.obtain("7.3", lambda _phase, _share: None)
    subprocess.run(["tar", "-xf", ball, "--strip-components=1", "-C", tree], check=True)
    own = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    for words in (["init", "-q"], ["add", "-A", "-f"], [*own, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=tree, check=True)
    registered.add("of-a-test", tree)

    def made(name: str) -> tuple[Kernel, object]:
        kernel = source.build("of-a-test")
        experiment = apply_overrides(load(path), ["kernel=of-a-test"])
        (run,) = (each for each in expand(experiment) if each.case_name == "TailDrop")
        files = make_run(tmp_path / name, replace(uml, named={}), run)
        facts = read_json(files.manifest)["facts"]
        assert (facts["kernel_origin"], facts["kernel_key"]) == (kernel.origin, kernel.key)
        found = read_json(files.metrics)
        assert found["validity"]["valid"], found["validity"]["reasons"]
        return kernel, found["groups"]

    path = tmp_path / "versions.yaml"
    path.write_text(VERSIONS)
    first, before = made("first")
    cubic = tree / "net/ipv4/tcp_cubic.c"
    text = cubic.read_text()
    assert text.count(" = 717;") == 1, "what CUBIC keeps of its window, in 1024th"
    cubic.write_text(text.replace(" = 717;", " = 300;"))
    try:
        second, after = made("second")
    finally:
        registered.remove("of-a-test")
    assert second.kernel_key != first.kernel_key
    assert second.origin["dirty"] is True
    assert (second.directory / "tcpf-guest").samefile(first.directory / "tcpf-guest")
    log = (second.directory / "build.log").read_text()
    assert "net/ipv4/tcp_cubic.o" in log
    assert "net/ipv4/tcp_input.o" not in log
    assert before != after


L4S = """
name: l4s
kernel: "7.3"
topology: {chain: {access: 100 Mbit, bottleneck: 40 Mbit, delay: 20 ms, mtu: 1500 B}}
tcp: {profile: modern}
traffic:
  warmup: 5 s
  duration: 10 s
  start_spread: 200 ms
  groups:
    scalable: {congestion: dctcp, ecn: accurate}
    classic: {congestion: cubic, ecn: "off"}
cases:
  DualPI2: {queue: {kind: dualpi2, ecn_mask: any_ect}}
matrix: {seed: 1}
"""


@pytest.mark.nightly
@pytest.mark.uml
@pytest.mark.parametrize("offloads", ["off", "all"])
def test_dualpi2_keeps_a_scalable_senders_delay_short_beside_a_classic_one(
    guest_run, tmp_path, offloads
):
    source.build("7.3")
    path = tmp_path / "l4s.yaml"
    path.write_text(L4S.replace("mtu: 1500 B", f'mtu: 1500 B, offloads: "{offloads}"'))
    found = read_json(guest_run(load(path)).metrics)
    scalable, classic = found["groups"]
    assert scalable["ce_packets"] > 0 == scalable["loss_percent"]
    assert (scalable["ece_acks"], classic["ece_acks"]) == (None, 0)
    assert scalable["queueing_delay_s"]["p50"] < 1e-3 < classic["queueing_delay_s"]["p50"]
    counted = found["queue"]["kernel"]
    assert counted["pkts-in-l"] > 0 < counted["pkts-in-c"]
    checks = {one["name"]: one["ok"] for one in found["validity"]["checks"]}
    assert checks["feedback_matches"] is checks["marks_match_qdisc"] is True
    assert found["validity"]["valid"]
