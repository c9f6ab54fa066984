from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from queue_kinds import FULL, OF_DEFAULTS

from tcpf_lab.spec.load import apply_overrides, parse
from tcpf_lab.spec.marker import KINDS as MARKERS
from tcpf_lab.spec.marker import Marker, NoMarker
from tcpf_lab.spec.queue import KINDS, UNLIMITED, Bfifo, Bottleneck, Frio, Prio, Queue, Red, Rio, Tc
from tcpf_lab.spec.sweep import expand
from tcpf_lab.spec.words import format_dscp, parse_dscp

GOOD = {
    "kind": "red",
    "limit": "500 kB",
    "min": "10 kB",
    "max": "200 kB",
    "probability": 0.25,
}


def red(**changes: Any) -> Red:
    return Red.model_validate({**GOOD, **changes})


@pytest.mark.parametrize(
    ("words", "marks"),
    [
        ("red limit 500000 ecn", True),
        ("red limit 500000 ecn nodrop", True),
        ("codel ce_threshold 1ms", True),
        ("codel noecn", False),
        ("fq_codel limit 500", False),
    ],
)
def test_a_queue_marks_if_its_words_say_so(words: str, marks: bool) -> None:
    assert Tc(kind="tc", limit="500 kB", words=words).marks is marks


def test_red_is_handed_to_tc_in_bytes_with_burst_and_bandwidth() -> None:
    assert " ".join(red().tc(Bottleneck(10_000_000, 1))) == (
        "red limit 500000 min 10000 max 200000 avpkt 1000 "
        "burst 73 probability 0.25 bandwidth 10000000bit"
    )


def test_red_shows_limit_and_thresholds() -> None:
    sizes = {"limit": 500_000, "min": 10_000, "max": 200_000}
    assert red().shown(Bottleneck(10_000_000, 1)) == {**sizes, "ewma": 9, "probability": 0.25}


def test_bfifo_is_handed_to_tc_in_bytes() -> None:
    queue = Bfifo.model_validate({"kind": "bfifo", "limit": "200 kB"})
    assert queue.tc(Bottleneck(10_000_000, 1)) == ("bfifo", "limit", "200000")
    assert queue.shown(Bottleneck(10_000_000, 1)) == {"limit": 200_000}


@pytest.mark.parametrize("top", ["200 kB", "30 kB"])
def test_the_default_burst_weighs_the_average_alike_in_every_configuration(top: str) -> None:
    assert red(max=top).wlog == 9


@pytest.mark.parametrize(
    ("changes", "wlog"),
    [
        ({"min": "50 kB", "max": "490 kB", "burst": 196}, 9),  # RIO's in-profile thresholds
        (
            {"max": "30 kB", "burst": 16},
            3,
        ),  # what tc would choose by itself: (2 min + max) / 3 avpkt
    ],
)
def test_the_weight_is_worked_out_as_tc_does(changes: dict[str, Any], wlog: int) -> None:
    assert red(**changes).wlog == wlog


def test_a_probability_of_one_is_not_handed_over_as_one_which_wraps_to_zero() -> None:
    words = red(probability=1).tc(Bottleneck(10_000_000, 1))
    handed = float(words[words.index("probability") + 1])
    assert 2**32 - 1 <= handed * 2**32 < 2**32


@pytest.mark.parametrize("probability", [1e-5, 0.005, 0.5])
def test_a_probability_is_handed_over_exactly_and_without_exponent(probability: float) -> None:
    words = red(probability=probability, max="11 kB").tc(Bottleneck(10_000_000, 1))
    word = words[words.index("probability") + 1]
    assert float(word) == probability
    assert "e" not in word


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min": "200 kB", "burst": 300}, "must be less than max"),
        ({"probability": 1e-7}, "is too small"),
        ({"burst": 9}, "must be at least 10"),
        ({"min": "1 kB"}, "must be more than avpkt"),
        ({"limit": "9 MB", "max": "5 MB"}, "overflows the kernel's fixed-point average"),
    ],
)
def test_what_tc_or_the_kernel_would_refuse_is_refused_first(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        red(**changes)


THRESHOLDS = {
    "limit": "500 kB",
    "in_min": "50 kB",
    "in_max": "490 kB",
    "in_probability": 0.005,
    "out_min": "10 kB",
    "out_max": "200 kB",
    "out_probability": 0.25,
}
HANDED = (
    "limit 500000 in_min 50000 in_max 490000 in_probability 0.005 "
    "out_min 10000 out_max 200000 out_probability 0.25 ewma 9 avpkt 1000 in 10"
)


def test_rio_is_handed_to_tc_with_every_default_and_the_runs_rate_and_seed() -> None:
    rio = Rio.model_validate({"kind": "rio", **THRESHOLDS})
    assert " ".join(rio.tc(Bottleneck(10_000_000, 7))) == (
        f"rio {HANDED} mode coupled uniformize red bandwidth 10000000bit seed 7"
    )
    assert rio.modules == ("sch_rio",)


def test_frio_is_handed_to_tc_with_every_default_and_the_runs_rate_and_seed() -> None:
    frio = Frio.model_validate({"kind": "frio", **THRESHOLDS, "many_flows": True, "in": "EF"})
    assert " ".join(frio.tc(Bottleneck(8_000_000, 7))) == (
        f"frio {HANDED.removesuffix('10')}46 mode coupled share instant many_flows on minq 2 "
        "flows 65536 bandwidth 8000000bit seed 7"
    )
    assert frio.modules == ("sch_frio",)


@pytest.mark.parametrize("kind", ["rio", "frio"])
def test_a_queue_with_precedences_shows_every_word_as_a_plain_number_or_word(kind: str) -> None:
    queue = KINDS[kind].model_validate({"kind": kind, **THRESHOLDS})
    shown = queue.shown(Bottleneck(10_000_000, 7))
    assert shown["bandwidth"] == 1_250_000
    assert (shown["seed"], shown["in"], shown["in_probability"]) == (7, 10, 0.005)
    assert list(shown) == [word for word in queue.tc(Bottleneck(10_000_000, 7)) if word in shown]


def test_thresholds_may_coincide_where_the_kernel_allows_it() -> None:
    step = Rio.model_validate({"kind": "rio", **THRESHOLDS, "in_min": "490 kB", "ewma": 0})
    assert (step.in_min, step.in_max, step.ewma) == (490_000, 490_000, 0)


def test_prio_puts_ef_before_a_fifo_for_everything_else() -> None:
    prio = Prio.model_validate({"kind": "prio", "limit": "130 kB"})
    words = prio.tc(Bottleneck(40_000_000, 1))
    assert words[:4] == ("prio", "bands", "2", "priomap")
    # The kernel gives EF's packets priority 4; there are 16 of them.
    bands = [int(word) for word in words[4:]]
    assert len(bands) == 16
    assert [priority for priority, band in enumerate(bands) if band == 0] == [4]
    assert prio.shown(Bottleneck(40_000_000, 1)) == {"bands": 2, "priomap": bands}
    first, rest = prio.children(Bottleneck(40_000_000, 1))
    assert first[:3] == ("2:1", "3:", ("bfifo", "limit", str(UNLIMITED)))
    assert rest == ("2:2", "4:", ("bfifo", "limit", "130000"), {"limit": 130_000})


def test_where_packets_overtake_each_other_is_known() -> None:
    assert {kind for kind, model in KINDS.items() if not model.in_order} == {
        *("fq_codel", "fq_pie", "dualpi2", "cake", "fq", "sfq", "hhf", "prio", "tc")
    }


def test_a_queue_by_its_own_words_is_handed_over_as_it_is_written() -> None:
    queue = Tc.model_validate(
        {"kind": "tc", "words": "fq_codel limit 1000 target 5ms", "limit": "1 MB"}
    )
    assert queue.tc(Bottleneck(10_000_000, 1)) == ("fq_codel", "limit", "1000", "target", "5ms")
    assert (queue.qdisc, queue.shown(Bottleneck(10_000_000, 1))) == ("fq_codel", {})
    assert queue.children(Bottleneck(10_000_000, 1)) == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "must begin with the name of a qdisc"),
        ("limit=3", "must begin with the name of a qdisc"),
        ("pie target '5 ms'", "write options of tc"),
        ("pie  target 5ms", "write options of tc"),
        ("pie $HOME", "write options of tc"),
        ("ingress", "cannot queue packets"),
        ("pie " + "x" * 300, "at most 300 characters"),
    ],
)
def test_words_of_anything_but_one_queue_are_refused(words: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Tc.model_validate({"kind": "tc", "words": words, "limit": "1 MB"})


# Marker.


def marker(kind: str, **changes: Any) -> Marker:
    given = {"kind": kind, "interval": "400 ms", "tokens": "296 kB", **changes}
    return MARKERS[kind].model_validate(given)


def test_the_tcp_friendly_marker_is_handed_to_tc_with_every_default() -> None:
    assert " ".join(marker("tcpf").tc()) == (
        "tcpf interval 400000us tokens 296000 in 10 out 12 flows 65536 "
        "profile recommended retransmits protect"
    )


def test_the_older_marker_is_the_one_that_does_not_protect_retransmissions() -> None:
    words = marker("tcpf", retransmits="plain", profile="paper").tc()
    assert words[-4:] == ("profile", "paper", "retransmits", "plain")


def test_the_token_bucket_is_handed_to_tc_with_every_default() -> None:
    assert " ".join(marker("token", interval="1.5 ms").tc()) == (
        "token interval 1500us tokens 296000 in 10 out 12 flows 65536 mode reset"
    )


def test_a_marker_shows_its_words_with_the_interval_in_microseconds() -> None:
    shown = marker("token", mode="flow", **{"in": "CS1", "out": 0}).shown()
    assert shown == {
        "interval": 400_000,
        "tokens": 296_000,
        "in": 8,
        "out": 0,
        "flows": 65536,
        "mode": "flow",
    }


def test_no_marker_has_neither_words_nor_modules() -> None:
    none = NoMarker.model_validate({"kind": "none"})
    assert (none.tc(), none.shown(), none.modules) == ((), {}, ())


@pytest.mark.parametrize("interval", ["0 s", "999 us", "4.001 s"])
def test_an_interval_that_the_kernel_cannot_keep_is_refused(interval: str) -> None:
    with pytest.raises(ValidationError, match="must be from 1 ms to 4 s"):
        marker("token", interval=interval)


@pytest.mark.parametrize(
    ("written", "number"), [("AF11", 10), ("af43", 38), ("CS0", 0), ("ef", 46), (63, 63), (0, 0)]
)
def test_a_code_point_is_a_name_in_any_case_or_a_number(written: str | int, number: int) -> None:
    assert parse_dscp(written) == number
    assert parse_dscp(format_dscp(number)) == number


@pytest.mark.parametrize("wrong", [64, -1, True, 10.0, "AF10", "10", "", None])
def test_what_is_no_code_point_is_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="from 0 to 63"):
        parse_dscp(wrong)


# Kinds of the kernel.

FRAME = 1014
AT = Bottleneck(10_000_000, 1, FRAME)


def kind(name: str, **settings: Any) -> Queue:
    return KINDS[name].model_validate({"kind": name, **settings})


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "red",
            "red limit 507000 min 10000 max 100000 avpkt 1000 burst 70 probability 0.25 "
            "bandwidth 10000000bit ecn harddrop nodrop adaptive",
        ),
        (
            "codel",
            "codel limit 500 target 6000us interval 90000us ce_threshold 20000us ecn",
        ),
        (
            "fq_codel",
            "fq_codel limit 500 target 6000us interval 90000us ce_threshold 20000us ecn "
            "flows 512 quantum 2000 memory_limit 4000000 drop_batch 32 "
            "ce_threshold_selector 0x1/0x3",
        ),
        (
            "pie",
            "pie limit 500 target 20000us tupdate 30000us alpha 3 beta 21 ecn bytemode "
            "dq_rate_estimator",
        ),
        (
            "fq_pie",
            "fq_pie limit 500 target 20000us tupdate 30000us alpha 3 beta 21 ecn bytemode "
            "dq_rate_estimator flows 512 quantum 2000 memory_limit 4000000 ecn_prob 20",
        ),
        (
            "dualpi2",
            "dualpi2 limit 500 memlimit 4000000 target 10000us tupdate 20000us alpha 0.19921875 "
            "beta 4 step_thresh 2000us min_qlen_step 2 coupling_factor 3 overflow drop_enqueue "
            "classic_protection 15% any_ect",
        ),
        ("cake", "cake memlimit 507000 rtt 50000us diffserv4 dual-srchost ack-filter no-split-gso"),
        (
            "fq",
            "fq limit 500 flow_limit 50 quantum 2000 initial_quantum 10000 buckets 512 "
            "orphan_mask 511 pacing maxrate 5000000bit low_rate_threshold 1000000bit "
            "refill_delay 20000us horizon 5000000us ce_threshold 4000us timer_slack 20us "
            "horizon_drop",
        ),
        (
            "hhf",
            "hhf limit 500 quantum 2000 hh_limit 1024 admit_bytes 100000 non_hh_weight 3 "
            "reset_timeout 50000us evict_timeout 2000000us",
        ),
        ("sfq", "sfq limit 500 perturb 10 quantum 1514 divisor 512 flows 64 depth 100 headdrop"),
        (
            "choke",
            "choke limit 500 min 10 max 100 burst 70 probability 0.25 bandwidth 10000000bit ecn",
        ),
        (
            "sfb",
            "sfb limit 500 rehash 500000 db 50000 increment 0.001 decrement 0.0001 max 30 "
            "target 20 penalty_rate 11 penalty_burst 21",
        ),
    ],
)
def test_a_kernel_queue_is_handed_to_tc_with_limits_in_packets(name: str, words: str) -> None:
    assert " ".join(kind(name, **FULL[name]).tc(AT)) == words


@pytest.mark.parametrize("name", OF_DEFAULTS)
def test_what_is_not_set_is_the_kernels_and_not_read_back(name: str) -> None:
    queue = kind(name)
    assert (queue.tc(AT), queue.shown(AT), queue.limit) == ((name,), {}, None)
    assert queue.capacity(FRAME) >= 127 * FRAME


def test_the_kernel_rounds_times_and_probabilities() -> None:
    assert kind("codel", target="5 ms", interval="100 ms").shown(AT) == {
        "target": 4999,
        "interval": 99999,
    }
    assert kind("pie", target="15 ms", ecn=False).shown(AT) == {"target": 15000, "ecn": None}
    found = kind("sfb", increment=0.0005, rehash="600 s").shown(AT)
    assert found == {"rehash": 600_000_000, "increment": pytest.approx(0.000503548, rel=1e-5)}
    # Loads of 41 and 819 units of 1/256 Hz, the kernel's defaults, are dumped as 40 and 818.
    assert kind("dualpi2", alpha=0.16, beta=3.2).shown(AT) == {
        "alpha": 40 / 256,
        "beta": 818 / 256,
    }


@pytest.mark.parametrize(
    ("name", "settings", "marks", "may"),
    [
        ("red", {**GOOD, "ecn": True}, True, True),
        ("red", GOOD, False, False),
        ("codel", {}, False, False),
        ("codel", {"ce_threshold": "1 ms"}, True, True),
        ("fq_codel", {}, False, True),
        ("fq_codel", {"ecn": False}, False, False),
        ("fq_codel", {"ecn": True}, True, True),
        ("pie", {"ecn": True}, True, True),
        ("cake", {}, False, True),
        ("dualpi2", {}, False, True),
        ("sfb", {}, False, True),
        ("sfq", {}, False, False),
        ("fq", {}, False, False),
        ("fq", {"ce_threshold": "1 ms"}, True, True),
        ("bfifo", {"limit": "5 kB"}, False, False),
        ("tc", {"limit": "5 kB", "words": "fq_codel"}, False, True),
    ],
)
def test_which_queues_mark(name: str, settings: dict[str, Any], marks: bool, may: bool) -> None:
    queue = kind(name, **settings)
    assert (queue.marks, queue.may_mark) == (marks, may)


def test_only_a_queue_of_a_new_kind_or_with_a_switch_has_its_counters_read() -> None:
    with_counters = {name for name in KINDS if kind(name, **FULL[name]).counters}
    assert {*KINDS} - with_counters == {"bfifo", "rio", "frio", "prio", "tc"}
    assert red().counters == {}


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("red", {**GOOD, "nodrop": True}, "has no effect without ecn"),
        ("codel", {"target": "1 us"}, "must be from 2 us to 100 s, not 1 us"),
        ("codel", {"interval": "2000.5 us"}, "whole number of microseconds"),
        ("fq_codel", {"quantum": "255 B"}, "must be from 256 B"),
        ("fq_codel", {"memory_limit": "3 GB"}, "must be at most 2147483648 B"),
        ("fq_codel", {"ce_threshold_selector": "ect1"}, "needs ce_threshold"),
        ("pie", {"tupdate": "15 ms"}, "whole multiple of 10 ms"),
        ("dualpi2", {"tupdate": "99 us"}, "must be from 100 us to 4 s"),
        ("dualpi2", {"alpha": 0.001}, "greater than or equal to 0.0039"),
        ("fq", {"buckets": 1000}, "power of two"),
        ("fq", {"maxrate": "7 bit"}, "must be from 8 bit"),
        ("fq", {"initial_quantum": "1048577 B"}, "at most 1048576 B"),
        ("sfq", {"divisor": 1000}, "power of two"),
        ("sfq", {"flows": 1025}, "at most divisor"),
        ("choke", {**FULL["choke"], "max": "508 kB"}, "at most limit"),
        ("choke", {**FULL["choke"], "probability": 0}, "more than 0"),
        ("sfb", {"increment": 0.000001}, "must be at least"),
    ],
)
def test_what_the_kernel_would_refuse_or_replace_is_refused(
    name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        kind(name, **settings)


@pytest.mark.parametrize(
    ("name", "settings", "key"),
    [
        ("bfifo", {"limit": "1013 B"}, "limit"),
        ("codel", {"limit": "1013 B"}, "limit"),
        ("sfq", {"limit": "2027 B"}, "limit"),
        ("sfq", {"limit": "507 kB", "flows": 4, "depth": 100}, "limit"),
        ("sfq", {"limit": "10140 B", "flows": 11}, "flows"),
        ("choke", {**FULL["choke"], "limit": "132907008 B"}, "limit"),
        ("choke", {**FULL["choke"], "min": "2027 B"}, "min"),
        ("choke", {**FULL["choke"], "max": "10141 B"}, "min"),
        ("choke", {**FULL["choke"], "burst": 9}, "burst"),
    ],
)
def test_what_does_not_fit_the_frames_of_the_path_is_refused(
    name: str, settings: dict[str, Any], key: str
) -> None:
    assert [path for path, _ in kind(name, **settings).misfit(FRAME)] == [(key,)]


def test_a_key_that_the_file_left_out_is_set_and_varied_in_every_case_of_its_kind() -> None:
    text = """\
name: left-out
topology: {chain: {access: 100 Mbit, bottleneck: 10 Mbit, delay: 20 ms}}
tcp: {profile: modern}
cases: {A: {queue: {kind: codel}}, B: {queue: {kind: pie}}, C: {queue: {kind: sfq}}}
matrix: {flows: 8, seed: 1}
"""
    found = apply_overrides(parse(text, "x"), ["queue.target=3 ms"]).cases.values()
    assert [getattr(case.queue, "target", None) for case in found] == [0.003, 0.003, None]
    runs = expand(apply_overrides(parse(text, "x"), ["queue.ecn=[true, false]"]))
    assert [(run.case_name, getattr(run.case.queue, "ecn", None)) for run in runs] == [
        *(("A", True), ("A", False), ("B", True), ("B", False), ("C", None))
    ]
