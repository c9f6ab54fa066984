"""Runs on another version of Linux."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import without_syscalls
from run_maker import make_run

from tcpf_lab.results.layout import read_json
from tcpf_lab.spec.load import apply_overrides, load
from tcpf_lab.spec.sweep import expand
from tcpf_lab.testbed.uml import registered, source
from tcpf_lab.testbed.uml.kernel import Kernel, cache_directory

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


OWN = ("-c", "user.name=a", "-c", "user.email=a@b.example")


def unpacked(tree: Path) -> Path:
    """Make a git tree of Linux 7.3 with one commit."""
    tree.mkdir()
    ball = source.obtain("7.3", lambda _phase, _share: None)
    subprocess.run(["tar", "-xf", ball, "--strip-components=1", "-C", tree], check=True)
    (tree / "once").write_text(uuid4().hex)  # no cache has this tree
    for words in (["init", "-q"], ["add", "-A", "-f"], [*OWN, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=tree, check=True)
    return tree


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
    tree = unpacked(tmp_path / "tree")
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


INDEX, OUTPUT = "Documentation/networking/index.rst", "net/ipv4/tcp_output.c"
FITS = "!after(end_seq, tcp_wnd_end(tp))"
EIGHT = "!after(end_seq, tp->snd_una + min(tp->snd_wnd, 8 * tp->mss_cache))"
#: Subject, file, what is replaced (once; nothing is its end), by what.
HISTORY = (
    ("docs: a line", INDEX, "", "A line.\n"),
    ("tcp: a comment", OUTPUT, "/* For better scheduling, ensure", "/* For scheduling, ensure"),
    ("cubic: a smaller beta", "net/ipv4/tcp_cubic.c", " = 717;", " = 700;"),
    ("sctp: a comment", "net/sctp/associola.c", "", "/* The end. */\n"),
    ("tcp: does not compile", "net/ipv4/tcp_minisocks.c", "", "int broken(\n"),
    ("tcp: compiles again", "net/ipv4/tcp_minisocks.c", "int broken(\n", ""),
    ("tcp: at most eight segments", OUTPUT, FITS, EIGHT),
    ("docs: another line", INDEX, "", "Another line.\n"),
    ("cubic: a larger beta", "net/ipv4/tcp_cubic.c", " = 700;", " = 717;"),
    ("vegas: a comment", "net/ipv4/tcp_vegas.c", "", "/* The end. */\n"),
    ("inet: does not boot", "net/ipv4/af_inet.c", "int rc;\n", 'int rc;\n\n\tpanic("no inet");\n'),
    ("tcp: boots, four segments", OUTPUT, EIGHT, EIGHT.replace("8 *", "4 *")),
)


def commit(tree: Path, subject: str, name: str, before: str, after: str) -> None:
    text = (tree / name).read_text()
    assert not before or text.count(before) == 1, (name, before)
    (tree / name).write_text(text.replace(before, after) if before else text + after)
    subprocess.run(["git", *OWN, "commit", "-qam", subject], cwd=tree, check=True)


@pytest.mark.nightly
@pytest.mark.uml
def test_bisect_ends_at_the_commit_that_changes_goodput(uml, tmp_path):
    tree = unpacked(tmp_path / "tree")
    for each in HISTORY:
        commit(tree, *each)
    text = (tree / "net/ipv4/af_inet.c").read_text().replace('\n\tpanic("no inet");\n', "")
    (tree / "net/ipv4/af_inet.c").write_text(text)
    subprocess.run(
        ["git", *OWN, "commit", "-q", "--amend", "-a", "--no-edit"], cwd=tree, check=True
    )

    def found(good: str, bad: str) -> tuple[int, dict[str, Any]]:
        words = ("bisect", "smoke.yaml", "--only", "case=NoMark+TailDrop", "--json")
        words += ("--metric", "goodput_bytes_per_s", "--worse-by", "10%", "--tree", str(tree))
        ends = ("--good", good, "--bad", bad, "--results", str(tmp_path / "results"))
        line = [sys.executable, "-m", "tcpf_lab", *words, *ends]
        done = subprocess.run(line, stdout=subprocess.PIPE, check=False)
        return done.returncode, json.loads(done.stdout)

    try:
        status, eight = found("HEAD~12", "HEAD~2")
        assert (status, [one["subject"] for one in eight["first_bad"]]) == (0, [HISTORY[6][0]])
        assert any(" error: " in one["remark"] for one in eight["revisions"])
        status, four = found("HEAD~2", "HEAD")
        assert (status, len(four["first_bad"])) == (3, 2)
        assert "does not boot" in four["revisions"][1]["remark"]
    finally:
        for each in cache_directory().with_name("trees").glob("bisect-*"):
            if str(tree) in (each / "git/objects/info/alternates").read_text():
                shutil.rmtree(each)


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
