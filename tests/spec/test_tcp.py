from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from tcpf_lab.spec.graph import Impairment
from tcpf_lab.spec.tcp import LINUX22, LINUX22_BEHAVIOURS, NEWRENO, RENO, Tcp


def tcp(**keys: Any) -> Tcp:
    return Tcp.model_validate(keys)


def test_the_old_profile_switches_off_what_came_later() -> None:
    assert tcp(profile="sysctl-2.2").sysctls() == {
        "net.ipv4.tcp_recovery": "0",
        "net.ipv4.tcp_early_retrans": "0",
        "net.ipv4.tcp_frto": "0",
        "net.ipv4.tcp_dsack": "0",
        "net.ipv4.tcp_timestamps": "0",
        "net.ipv4.tcp_ecn": "0",
        "net.ipv4.tcp_no_metrics_save": "1",
        "net.ipv4.tcp_congestion_control": "reno",
        "net.ipv4.tcp_window_scaling": "1",
        "net.ipv4.tcp_sack": "1",
    }
    assert tcp(profile="sysctl-2.2").route_options() == ("initcwnd", "2")


def test_the_profile_of_linux_2_2_adds_the_patch_and_timestamps() -> None:
    asked = tcp(profile="linux-2.2").sysctls()
    switches = {f"net.ipv4.tcp_linux22_{name}": "1" for name in LINUX22_BEHAVIOURS}
    more = {
        "net.ipv4.tcp_timestamps": "1",
        "net.ipv4.tcp_syn_linear_timeouts": "0",
        "net.ipv4.tcp_slow_start_after_idle": "0",
    }
    assert asked == tcp(profile="sysctl-2.2").sysctls() | more | switches
    assert len(switches) == 6


@pytest.mark.parametrize("name", LINUX22_BEHAVIOURS)
def test_each_behaviour_of_linux_2_2_can_be_had_alone(name: str) -> None:
    plain = tcp(profile="sysctl-2.2")
    alone = tcp(profile="sysctl-2.2", linux22={name: True})
    assert alone.sysctls().items() - plain.sysctls().items() == {
        (f"net.ipv4.tcp_linux22_{name}", "1")
    }
    assert alone.route_options() == plain.route_options()


def test_none_of_them_is_a_parameter_that_other_kernels_have() -> None:
    none = tcp(profile="linux-2.2", linux22=dict.fromkeys(LINUX22_BEHAVIOURS, False)).sysctls()
    alike = tcp(profile="sysctl-2.2", timestamps=True).sysctls()
    more = {"net.ipv4.tcp_syn_linear_timeouts": "0", "net.ipv4.tcp_slow_start_after_idle": "0"}
    assert none == alike | more


def problems(**keys: Any) -> list[tuple[str, ...]]:
    try:
        tcp(**keys)
    except ValidationError as error:
        return [path for path, _ in error.errors()[0]["ctx"]["error"].found]
    return []


def test_what_linux_2_2_excludes_is_said() -> None:
    assert problems(profile="modern", linux22={"rto": True}) == [("linux22",)]
    assert problems(profile="modern", linux22={"rto": False}) == []
    assert problems(profile="linux-2.2", congestion="cubic") == [("congestion",)]
    assert problems(profile="linux-2.2", congestion="cubic", linux22={"growth": False}) == []
    assert problems(profile="linux-2.2", sack=False, recovery="reno") == [("recovery",)]


def test_the_modern_profile_leaves_the_kernel_as_it_is() -> None:
    modern = tcp(profile="modern", sack=False)
    assert modern.sysctls() == {"net.ipv4.tcp_no_metrics_save": "1", "net.ipv4.tcp_sack": "0"}
    assert modern.route_options() == ()


def test_a_congestion_control_asked_for_replaces_the_profiles() -> None:
    values = tcp(profile="sysctl-2.2", congestion="cubic").sysctls()
    assert values["net.ipv4.tcp_congestion_control"] == "cubic"


def test_routes_get_the_initial_window_and_the_least_timeout_asked_for() -> None:
    asked = tcp(profile="sysctl-2.2", initcwnd=10, rto_min="1 s")
    assert asked.route_options() == ("initcwnd", "10", "rto_min", "1000ms")
    assert asked.route_metrics() == {"initcwnd": 10, "rto_min": 1000}
    assert tcp(profile="modern", rto_min="400 ms").route_options() == ("rto_min", "400ms")


def test_a_socket_keeps_the_route_that_has_its_least_timeout() -> None:
    plain, asked = tcp(profile="modern"), tcp(profile="modern", rto_min="400 ms")
    assert asked.sysctls() == {**plain.sysctls(), "net.ipv4.tcp_retries1": "255"}


def test_what_is_asked_for_replaces_the_profiles_and_nothing_else_does() -> None:
    asked = tcp(profile="sysctl-2.2", timestamps=True, window_scaling=False).sysctls()
    plain = tcp(profile="sysctl-2.2").sysctls()
    assert {key: value for key, value in asked.items() if plain[key] != value} == {
        "net.ipv4.tcp_timestamps": "1",
        "net.ipv4.tcp_window_scaling": "0",
    }
    assert tcp(profile="modern", timestamps=False).sysctls()["net.ipv4.tcp_timestamps"] == "0"
    assert "net.ipv4.tcp_timestamps" not in tcp(profile="modern").sysctls()


@pytest.mark.parametrize("profile", ["linux-2.2", "sysctl-2.2", "modern"])
@pytest.mark.parametrize(
    ("ecn", "value"), [("off", "0"), ("passive", "2"), ("classic", "1"), ("accurate", "3")]
)
def test_ecn_is_as_the_file_says_whatever_the_profile(profile: str, ecn: str, value: str) -> None:
    asked, plain = tcp(profile=profile, ecn=ecn).sysctls(), tcp(profile=profile).sysctls()
    assert asked == plain | {"net.ipv4.tcp_ecn": value}
    assert plain.get("net.ipv4.tcp_ecn") == (None if profile == "modern" else "0")


def test_delayed_acknowledgements_are_switched_off_by_the_routes() -> None:
    assert tcp(profile="modern", quickack=True).route_options() == ("quickack", "1")
    assert tcp(profile="modern", quickack=True).route_metrics() == {"quickack": 1}
    assert tcp(profile="modern", quickack=False).route_options() == ()


def test_what_recovery_it_has_is_said_of_tcp_without_sack() -> None:
    assert tcp(profile="sysctl-2.2").without_sack == ""
    assert "NewReno" in NEWRENO
    assert "1990" in RENO
    for recovery, said in (("newreno", NEWRENO), ("reno", RENO)):
        assert tcp(profile="sysctl-2.2", sack=False, recovery=recovery).without_sack == said
    assert tcp(profile="sysctl-2.2", sack=False).without_sack == NEWRENO
    assert tcp(profile="linux-2.2", sack=False).without_sack == LINUX22
    assert (
        tcp(profile="linux-2.2", sack=False, linux22={"fast_retransmit": False}).without_sack
        == NEWRENO
    )


def test_the_recovery_of_1990_is_a_switch_and_a_threshold_that_stays() -> None:
    plain = tcp(profile="sysctl-2.2", sack=False).sysctls()
    assert tcp(profile="sysctl-2.2", sack=False, recovery="newreno").sysctls() == plain
    reno = tcp(profile="sysctl-2.2", sack=False, recovery="reno").sysctls()
    assert reno.items() - plain.items() == {
        ("net.ipv4.tcp_reno_recovery", "1"),
        ("net.ipv4.tcp_max_reordering", "3"),
    }


def test_limited_transmit_is_taken_away_by_a_switch_and_has_no_part_in_older_recoveries() -> None:
    plain = tcp(profile="sysctl-2.2").sysctls()
    assert tcp(profile="sysctl-2.2", limited_transmit=True).sysctls() == plain
    none = tcp(profile="sysctl-2.2", limited_transmit=False).sysctls()
    assert none.items() - plain.items() == {("net.ipv4.tcp_no_limited_transmit", "1")}
    for limited_transmit in (True, False):
        asked = {"profile": "sysctl-2.2", "limited_transmit": limited_transmit}
        reno = problems(**asked, sack=False, recovery="reno")
        assert reno == [("limited_transmit",)] * limited_transmit
        assert problems(**asked, linux22={"fast_retransmit": True}) == [("limited_transmit",)]


def test_a_segment_size_is_announced_by_the_routes() -> None:
    asked = tcp(profile="modern", mss="496 B")
    assert asked.route_options() == ("advmss", "496")
    assert asked.route_metrics() == {"advmss": 496}


# Impairment.


def impairment(**keys: Any) -> Impairment:
    return Impairment.model_validate(keys)


def test_every_key_becomes_words_of_netem() -> None:
    everything = impairment(
        loss=0.01, duplicate=0.005, reorder=0.02, delay="5 ms", jitter="1 ms"
    ).tc()
    assert " ".join(everything) == ("delay 5000us 1000us loss random 1% duplicate 0.5% reorder 2%")
    assert impairment(loss=0.0001).tc() == ("loss", "random", "0.01%")
    assert impairment(delay="5 ms").tc() == ("delay", "5000us")


def test_what_tc_must_show_is_what_was_asked_for() -> None:
    shown = impairment(loss=0.25, reorder=0.02, delay="5 ms").shown()
    assert shown == {
        "delay": {"delay": 0.005, "jitter": 0.0},
        "loss-random": {"loss": 0.25},
        "reorder": {"reorder": 0.02},
    }


@pytest.mark.parametrize(("loss", "burst"), [(0.01, 3.0), (0.25, 2.0), (0.5, 1.5)])
def test_losses_in_bursts_have_the_share_and_the_length_asked_for(
    loss: float, burst: float
) -> None:
    """Of a chain with two states the bad one holds p / (p + r) of the time, 1 / r at a time."""
    shown = impairment(loss=loss, loss_burst=burst).shown()["loss-gemodel"]
    assert shown["p"] / (shown["p"] + shown["r"]) == pytest.approx(loss)
    assert 1 / shown["r"] == pytest.approx(burst)
    words = impairment(loss=loss, loss_burst=burst).tc()
    assert words[:2] == ("loss", "gemodel")
    assert [float(word.rstrip("%")) / 100 for word in words[2:]] == [
        pytest.approx(shown["p"], abs=1e-9),
        pytest.approx(shown["r"], abs=1e-9),
    ]


def test_the_longest_time_that_a_packet_is_held_back_includes_jitter() -> None:
    assert impairment(delay="5 ms", jitter="2 ms").longest == pytest.approx(0.007)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "has no effect"),
        ({"loss_burst": 3}, "has no effect"),
        ({"duplicate": 1.5}, "not a probability"),
        ({"loss": 0.1, "loss_burst": 0.5}, "greater than or equal to 1"),
        ({"delay": "2 min"}, "must be at most 100 s"),
    ],
)
def test_nonsense_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        impairment(**keys)
