from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_builder import build_run

from tcpf_lab.metrics import validity
from tcpf_lab.metrics.in_force import ecn_in_use
from tcpf_lab.metrics.record import read_record
from tcpf_lab.metrics.summary import analyse
from tcpf_lab.results.layout import RunFiles

Change = Callable[[RunFiles], None]


def edit(name: str, change: Callable[[Any], None]) -> Change:
    """Change a JSON file of the run."""

    def apply(run: RunFiles) -> None:
        path = run.root / name
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(value))

    return apply


def replace(name: str, old: str, new: str) -> Change:
    def apply(run: RunFiles) -> None:
        path = run.root / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return apply


def remove(name: str) -> Change:
    return lambda run: (run.root / name).unlink()


def set_expected(key: str, value: object) -> Change:
    return edit("manifest.json", lambda manifest: manifest["expect"][key].update(value))


def cut_tail(run: RunFiles) -> None:
    path = run.capture("S")
    path.write_bytes(path.read_bytes()[:-7])


def damage(point: str) -> Change:
    """Make the length of a capture's second packet incredible, and leave all that follows."""

    def apply(run: RunFiles) -> None:
        whole = bytearray(run.capture(point).read_bytes())
        second = 24 + 16 + int.from_bytes(whole[32:36], "little")
        whole[second + 8 : second + 12] = b"\xff" * 4
        run.capture(point).write_bytes(whole)

    return apply


def lose_departure(run: RunFiles) -> None:
    path = run.capture("R1-out")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 16 - 54])


#: The queue claims that the packet it dropped was IN, at random.
IN_DROPPED = {"in": {"early": 1, "forced": 0, "pdrop": 0}, "out": {"early": 0, "forced": 0}}

#: R0-R1 loses a tenth of what passes it, alone or in pairs, on purpose.
NETEM = {"kind": "netem", "root": True, "dev": "R0-R1", "handle": "1:", "drops": 100}
NETEM |= {"packets": 910, "options": {"loss-random": {"loss": 0.1, "correlation": 0}}}
BEHIND = {"kind": "tbf", "dev": "R0-R1", "parent": "1:", "drops": 0, "packets": 900}
ASKED = {"options": {"loss-random": {"loss": 0.1}}, "loss": 0.1, "loss_burst": 1, "duplicate": 0.0}


def impair(netem: dict[str, Any], behind: dict[str, Any], **asked: Any) -> Change:
    """Impair R0-R1; what the kernel shows differs from what is right by the arguments."""

    def apply(run: RunFiles) -> None:
        shown = [NETEM | netem, BEHIND | behind]
        (run.stats / "qdisc-R0.json").write_text(json.dumps(shown))
        manifest = json.loads(run.manifest.read_text())
        manifest["expect"]["lossless_devices"].remove("R0-R1")
        manifest["expect"]["impaired_devices"] = {"R0-R1": ASKED | asked}
        run.manifest.write_text(json.dumps(manifest))

    return apply


def with_children(*shown: dict[str, Any], drops: int = 0) -> Change:
    """Expect a FIFO inside the queue under test, and let the kernel show something."""

    def apply(run: RunFiles) -> None:
        place = {"dev": "R1-R2", "parent": "2:2", "drops": drops}
        edit("stats/qdisc-R1.json", lambda rows: rows.extend(place | q for q in shown))(run)
        wanted = {"4:": {"kind": "bfifo", "options": {"limit": 1000}}}
        set_expected("qdisc", {"children": wanted})(run)

    return apply


CASES: dict[str, tuple[str, str, Change]] = {
    "offload on": (
        "offloads_off",
        "S-R0: tcp-segmentation-offload is on",
        replace("stats/offload-S-R0.txt", "offload: off", "offload: on"),
    ),
    "offload not reported": (
        "offloads_off",
        "not reported",
        replace("stats/offload-S-R0.txt", "tcp-segmentation-offload: off", ""),
    ),
    "offload file missing": (
        "offloads_off",
        "offload-S-R0.txt is missing",
        remove("stats/offload-S-R0.txt"),
    ),
    "another qdisc": (
        "qdisc_in_force",
        "R1-R2 has no red",
        replace("stats/qdisc-R1.json", '"red"', '"pfifo"'),
    ),
    "another option": (
        "qdisc_in_force",
        "red min is 10000, requested 10002",
        set_expected("qdisc", {"options": {"min": 10002}}),
    ),
    "another option of a queue inside": (
        "qdisc_in_force",
        "R1-R2: bfifo 4: limit is 999, requested 1000",
        with_children({"kind": "bfifo", "handle": "4:", "options": {"limit": 999}}),
    ),
    "no such queue inside": (
        "qdisc_in_force",
        "R1-R2: red has no bfifo 4:",
        with_children({"kind": "pfifo", "handle": "4:", "options": {"limit": 1000}}),
    ),
    "another marker": (
        "marker_in_force",
        "R0 has no action tcpf 1",
        replace("stats/action-R0.json", '"tcpf"', '"token"'),
    ),
    "another option of the marker": (
        "marker_in_force",
        "R0: tcpf retransmits is plain, requested protect",
        replace("stats/action-R0.json", '"protect"', '"plain"'),
    ),
    "marker in one direction only": (
        "marker_in_force",
        "R0: tcpf bind is 1, requested 2",
        replace("stats/action-R0.json", '"bind": 2', '"bind": 1'),
    ),
    "marker not read": (
        "marks_match_marker",
        "stats/action-R0.json is missing",
        remove("stats/action-R0.json"),
    ),
    "marks that the marker does not know of": (
        "marks_match_marker",
        "out: captures 63, marker 62",
        replace("stats/action-R0.json", '"out_packets": 63', '"out_packets": 62'),
    ),
    "another initial window": (
        "routes_in_force",
        "S: route to 10.0.3.0/24 initcwnd is 10, requested 2",
        replace("stats/route-S.json", '"initcwnd": 2', '"initcwnd": 10'),
    ),
    "route without metrics": (
        "routes_in_force",
        "S: route to 10.0.3.0/24 rto_min is not reported, requested 200",
        edit("stats/route-S.json", lambda routes: routes[1].pop("metrics")),
    ),
    "no route through a gateway": (
        "routes_in_force",
        "S has no route through a gateway",
        edit("stats/route-S.json", lambda routes: routes.pop()),
    ),
    "metrics in two parts": (
        "routes_in_force",
        "S: route to 10.0.3.0/24 initcwnd is 3, requested 2",
        edit("stats/route-S.json", lambda rows: rows[1]["metrics"].append({"initcwnd": 3})),
    ),
    "drops of a class differ": (
        "loss_matches_qdisc",
        "in captures 0, qdisc 1, out captures 1, qdisc 0",
        edit("stats/qdisc-R1.json", lambda rows: rows[2].update(IN_DROPPED)),
    ),
    "a queue that marks, and nobody negotiates": (
        "ecn_in_use",
        "R1-R2 is configured to mark, but no ECN-capable packet entered R1-R2: no connection "
        "negotiated ECN, and the queue dropped instead; set tcp.ecn: classic",
        set_expected("qdisc", {"marks": True}),
    ),
    "another sysctl": (
        "sysctls_in_force",
        "S: net.ipv4.tcp_sack is 0, not 1",
        replace("stats/sysctl-S.txt", "tcp_sack = 1", "tcp_sack = 0"),
    ),
    "sysctl not reported": (
        "sysctls_in_force",
        "net.ipv4.tcp_rmem is not reported",
        replace("stats/sysctl-S.txt", "tcp_rmem", "tcp_wmem"),
    ),
    "sysctl file missing": (
        "sysctls_in_force",
        "stats/sysctl-S.txt is missing",
        remove("stats/sysctl-S.txt"),
    ),
    "capture dropped": (
        "captures_complete",
        "R1-in: the kernel dropped 3 packets",
        replace("log/tcpdump-R1-in.log", "0 packets dropped", "3 packets dropped"),
    ),
    "capture killed": (
        "captures_complete",
        "log/tcpdump-S.log has no summary",
        lambda run: (run.log / "tcpdump-S.log").write_text("tcpdump: listening\n"),
    ),
    "capture log missing": (
        "captures_complete",
        "log/tcpdump-R1-out.log is missing",
        remove("log/tcpdump-R1-out.log"),
    ),
    "capture truncated": ("captures_complete", "S: truncated in packet", cut_tail),
    **{
        f"capture {point} damaged": (
            "captures_complete",
            f"{point}: damaged: packet 2 at byte ",
            damage(point),
        )
        for point in ("S", "R1-in", "R1-out")
    },
    "drop on the way": (
        "no_unplanned_loss",
        "R0-R1: 2 dropped by its queue, 0 by its interface",
        edit("stats/qdisc-R0.json", lambda rows: rows[0].update(drops=2)),
    ),
    "drop by an interface": (
        "no_unplanned_loss",
        "S-R0: 0 dropped by its queue, 4 by its interface",
        replace("stats/dev-S.txt", "800 8 0 0", "800 8 0 4"),
    ),
    "interface missing": (
        "no_unplanned_loss",
        "stats/dev-R0.txt does not describe R0-R1",
        replace("stats/dev-R0.txt", "R0-R1", "R0-R9"),
    ),
    "interface file missing": (
        "no_unplanned_loss",
        "stats/dev-R0.txt is missing",
        remove("stats/dev-R0.txt"),
    ),
    "impairment missing": (
        "impairments_in_force",
        "R0-R1 has no netem",
        impair({"kind": "tbf"}, {}),
    ),
    "another impairment": (
        "impairments_in_force",
        "R0-R1: netem loss-random loss is 0.2, requested 0.1",
        impair({"options": {"loss-random": {"loss": 0.2}}}, {}),
    ),
    "impairment not reported": (
        "impairments_in_force",
        "R0-R1: netem loss-random loss is not reported, requested 0.1",
        impair({"options": {}}, {}),
    ),
    "loss behind the impairment": (
        "impairments_in_force",
        "R0-R1: 3 lost behind netem",
        impair({}, {"drops": 3}),
    ),
    "impairment loses too little": (
        "impairments_in_force",
        "R0-R1: 30 of 930 packets lost, requested share 0.1",
        impair({"drops": 30}, {}),
    ),
    "impairment loses too much": (
        "impairments_in_force",
        "R0-R1: 170 of 1070 packets lost, requested share 0.1",
        impair({"drops": 170}, {}),
    ),
    "receiver that delays its acknowledgements": (
        "routes_in_force",
        "S: route to 10.0.3.0/24 quickack is not reported, requested 1",
        edit("manifest.json", lambda m: m["expect"].update(receiver_routes={"S": {"quickack": 1}})),
    ),
    "qdisc counter differs": (
        "loss_matches_qdisc",
        "captures 1, qdisc 2",
        edit("stats/qdisc-R1.json", lambda rows: rows[1].update(drops=2)),
    ),
    "departure missing": ("loss_matches_qdisc", "captures 2, qdisc 1", lose_departure),
    "another rate": (
        "bottleneck_rate",
        "configured 10200000 (-1.961%)",
        set_expected("bottleneck", {"rate_bits_per_s": 10_200_000}),
    ),
    "connection that never came up": (
        "all_connected",
        "1 of 2 flows never connected: 1",
        replace(
            "stats/senders-S.jsonl",
            '"sample": "end", "time_ns": 3000000512, "flow": 1, "connected": true',
            '"sample": "end", "time_ns": 3000000512, "flow": 1, "connected": false',
        ),
    ),
    "TCP_INFO tells another goodput": (
        "goodput_matches_tcp_info",
        "1 flows differ; flow 1: capture 38400, TCP_INFO 38399",
        replace("stats/senders-S.jsonl", '"bytes_acked": 38401', '"bytes_acked": 38400'),
    ),
    "qdisc file is not JSON": (
        "qdisc_in_force",
        "qdisc-R1.json is not JSON",
        lambda run: (run.stats / "qdisc-R1.json").write_text("[{"),
    ),
    "qdisc file has another form": (
        "qdisc_in_force",
        "unexpected content",
        lambda run: (run.stats / "qdisc-R1.json").write_text("[1]"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_makes_the_run_invalid_and_is_named(tmp_path: Path, case: str) -> None:
    name, detail, change = CASES[case]
    run = build_run(tmp_path / "run")
    change(run)
    validity = analyse(run)["validity"]
    failed = {
        check["name"]: check["detail"] for check in validity["checks"] if check["ok"] is False
    }
    assert name in failed
    assert detail in failed[name]
    assert validity["valid"] is False
    assert any(reason.startswith(f"{name}: ") for reason in validity["reasons"])


def test_a_delay_may_be_cut_to_a_whole_microsecond_as_tc_does(tmp_path: Path) -> None:
    asked = {"delay": {"delay": 0.006778, "jitter": 0.000405}}
    for name, shown in (("cut", 0.006777), ("other", 0.006775)):
        run = build_run(tmp_path / name)
        netem = {"options": {"delay": {"delay": shown, "jitter": 0.000404, "correlation": 0}}}
        impair({**netem, "drops": 0}, {}, options=asked, loss=0.0)(run)
        checks = {check["name"]: check for check in analyse(run)["validity"]["checks"]}
        assert checks["impairments_in_force"]["ok"] is (name == "cut")


@pytest.mark.parametrize(
    ("netem", "asked"),
    [({}, {}), ({"drops": 30}, {"loss_burst": 3}), ({"drops": 30}, {"duplicate": 0.3})],
)
def test_what_is_lost_on_purpose_leaves_a_run_valid(
    tmp_path: Path, netem: dict[str, Any], asked: dict[str, Any]
) -> None:
    """Bursts vary more; what netem loses and duplicates at once it does not count as lost."""
    run = build_run(tmp_path / "run")
    impair(netem, {}, **asked)(run)
    validity = analyse(run)["validity"]
    checks = {check["name"]: check for check in validity["checks"]}
    assert validity["valid"] is True
    assert checks["impairments_in_force"]["ok"] is True
    assert checks["no_unplanned_loss"]["detail"] == "2 devices, no drops"


def test_path_that_nothing_is_done_to_has_nothing_to_check(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    checks = {check["name"]: check for check in analyse(run)["validity"]["checks"]}
    assert checks["impairments_in_force"]["ok"] is None


def test_rate_within_one_per_cent_is_accepted(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    set_expected("bottleneck", {"rate_bits_per_s": 10_090_000})(run)
    assert analyse(run)["validity"]["valid"] is True


def test_bottleneck_that_never_had_a_queue_has_no_rate_to_check(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    for point in ("R1-in", "R1-out"):
        path = run.capture(point)
        path.write_bytes(path.read_bytes()[:24])
    checks = {check["name"]: check for check in analyse(run)["validity"]["checks"]}
    assert checks["bottleneck_rate"]["ok"] is None


def test_drops_of_either_class_are_counted_whatever_their_cause(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    causes = {"in": {"early": 0, "strike": 0}, "out": {"early": 0, "strike": 1, "pdrop": 0}}
    edit("stats/qdisc-R1.json", lambda rows: rows[2].update(causes))(run)
    checks = {check["name"]: check for check in analyse(run)["validity"]["checks"]}
    assert checks["loss_matches_qdisc"] == {
        "name": "loss_matches_qdisc",
        "ok": True,
        "detail": "captures 1, qdisc 1, in captures 0, qdisc 0, out captures 1, qdisc 1, "
        "left without entering 0",
    }


@pytest.mark.parametrize(("out", "ok"), [(1, True), (3, True), (0, False)])
def test_drops_of_background_are_of_either_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: int, ok: bool
) -> None:
    """The queue counts them among its IN and OUT; the captures hold no background."""
    run = build_run(tmp_path / "run")
    edit("stats/qdisc-R1.json", lambda rows: rows[1].update(drops=3))(run)
    edit("stats/qdisc-R1.json", lambda rows: rows[2].update(out={"early": out}))(run)
    monkeypatch.setattr(validity, "background_drops", lambda *_: 2)
    checks = {check["name"]: check for check in analyse(run)["validity"]["checks"]}
    assert checks["loss_matches_qdisc"]["ok"] is ok


@pytest.mark.parametrize(("bits", "ok"), [(0, False), (1, True), (2, True), (3, True)])
def test_queue_that_marks_needs_an_ecn_capable_packet(tmp_path: Path, bits: int, ok: bool) -> None:
    """By the packets that entered, and without captures by what the ends' kernels received."""
    run = build_run(tmp_path / "run")
    set_expected("qdisc", {"marks": True})(run)
    names = ("InNoECTPkts", "InECT1Pkts", "InECT0Pkts", "InCEPkts")
    counts = " ".join("01"[at == bits] for at in range(4))
    (run.stats / "netstat-S.txt").write_text(f"IpExt: {' '.join(names)}\nIpExt: {counts}\n")
    tos = np.array([10 << 2, bits], np.uint8)
    for seen in (tos, None):
        assert ecn_in_use(run, read_record(run), seen)[0] is ok


def test_run_without_a_marker_has_nothing_to_check_of_one(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    edit("manifest.json", lambda manifest: manifest["expect"].update(marker=None))(run)
    (run.stats / "action-R0.json").unlink()
    validity = analyse(run)["validity"]
    checks = {check["name"]: check["ok"] for check in validity["checks"]}
    assert (checks["marker_in_force"], checks["marks_match_marker"]) == (None, None)
    assert validity["valid"] is True


@pytest.mark.parametrize(("told", "ok"), [(0, True), (-960, True), (960, False)])
def test_acknowledgement_at_the_instant_of_the_sample_may_count_or_not(
    tmp_path: Path, told: int, ok: bool
) -> None:
    """Flow 0's first sample is read at the very instant at which an acknowledgement arrives."""
    run = build_run(tmp_path / "run")
    first = 1_500_000_000 + 200_000_000
    acked = 960 + told + 1
    old = '"sample": "start", "time_ns": 1000000000, "flow": 0'
    replace("stats/senders-S.jsonl", old, old.replace("1000000000", str(first)))(run)
    lines = (run.stats / "senders-S.jsonl").read_text().splitlines()
    lines[0] = lines[0].replace('"bytes_acked": 1,', f'"bytes_acked": {acked},')
    (run.stats / "senders-S.jsonl").write_text("\n".join(lines) + "\n")
    checks = {check["name"]: check for check in analyse(run)["validity"]["checks"]}
    assert checks["goodput_matches_tcp_info"]["ok"] is ok


@pytest.mark.parametrize(("asked", "shown"), [(0.25, 0.25000001), (1e-6, 9.99775e-07)])
def test_probability_may_be_rounded_as_tc_does(tmp_path: Path, asked: float, shown: float) -> None:
    run = build_run(tmp_path / "run")
    set_expected("qdisc", {"options": {"probability": asked}})(run)
    edit("stats/qdisc-R1.json", lambda rows: rows[2]["options"].update(probability=shown))(run)
    assert analyse(run)["validity"]["valid"] is True


def test_queues_inside_are_read_back_and_their_drops_are_counted_once(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    with_children({"kind": "bfifo", "handle": "4:", "options": {"limit": 1000}}, drops=1)(run)
    assert analyse(run)["validity"]["valid"] is True


def test_the_shaper_is_not_taken_for_a_queue_under_test_of_its_kind(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")

    def shaped(rows: list[dict[str, Any]]) -> None:
        (own,) = (row for row in rows if row["kind"] == "red")
        rows[:0] = [{**own, "root": True, "options": {}}]

    edit("stats/qdisc-R1.json", shaped)(run)
    checks = {check["name"]: check["ok"] for check in analyse(run)["validity"]["checks"]}
    assert checks["qdisc_in_force"] is True
