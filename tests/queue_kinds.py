"""Each queue kind with every key set, and how ``tc`` gets and shows it."""

from __future__ import annotations

from typing import Any

_LIMIT = {"limit": "507 kB"}  # 500 frames of mtu 1000 B
_TWO = {
    **{f"{side}_min": "10 kB" for side in ("in", "out")},
    **{f"{side}_max": "200 kB" for side in ("in", "out")},
    **{f"{side}_probability": 0.25 for side in ("in", "out")},
}
_CODEL = {"target": "6 ms", "interval": "90 ms", "ecn": True, "ce_threshold": "20 ms"}
_PIE = {
    "target": "20 ms",
    "tupdate": "30 ms",
    "alpha": 3,
    "beta": 21,
    "ecn": True,
    "bytemode": True,
    "dq_rate_estimator": True,
}
_FLOWS = {"flows": 512, "quantum": "2 kB", "memory_limit": "4 MB"}

#: Kinds that need no key: what is not set is the kernel's default.
OF_DEFAULTS = (
    *("codel", "fq_codel", "pie", "fq_pie", "cake", "fq", "sfq", "hhf", "sfb"),
    "dualpi2",
)
#: Kinds that a Linux later than the tests' own has.
NEWER = {"dualpi2": "7.3"}
FULL: dict[str, dict[str, Any]] = {
    "red": {
        **_LIMIT,
        "min": "10 kB",
        "max": "100 kB",
        "probability": 0.25,
        "burst": 70,
        "avpkt": "1 kB",
        "ecn": True,
        "harddrop": True,
        "nodrop": True,
        "adaptive": True,
    },
    "bfifo": _LIMIT,
    "codel": {**_LIMIT, **_CODEL},
    "fq_codel": {**_LIMIT, **_CODEL, **_FLOWS, "ce_threshold_selector": "ect1", "drop_batch": 32},
    "pie": {**_LIMIT, **_PIE},
    "fq_pie": {**_LIMIT, **_PIE, **_FLOWS, "ecn_prob": 20},
    "dualpi2": {
        **_LIMIT,
        "memlimit": "4 MB",
        "target": "10 ms",
        "tupdate": "20 ms",
        "alpha": 0.2,
        "beta": 4,
        "step_thresh": "2 ms",
        "min_qlen_step": 2,
        "coupling_factor": 3,
        "drop_on_overload": False,
        "drop_early": True,
        "ecn_mask": "any_ect",
        "classic_protection": 15,
    },
    "cake": {
        **_LIMIT,
        "rtt": "50 ms",
        "diffserv": "diffserv4",
        "flowmode": "dual-srchost",
        "ack_filter": "on",
        "split_gso": False,
    },
    "fq": {
        **_LIMIT,
        "flow_limit": 50,
        "quantum": "2 kB",
        "initial_quantum": "10 kB",
        "pacing": True,
        "maxrate": "5 Mbit",
        "low_rate_threshold": "1 Mbit",
        "buckets": 512,
        "orphan_mask": 511,
        "refill_delay": "20 ms",
        "timer_slack": "20 us",
        "horizon": "5 s",
        "horizon_drop": True,
        "ce_threshold": "4 ms",
    },
    "sfq": {
        **_LIMIT,
        "perturb": 10,
        "quantum": "1514 B",
        "divisor": 512,
        "flows": 64,
        "depth": 100,
        "headdrop": True,
    },
    "hhf": {
        **_LIMIT,
        "quantum": "2 kB",
        "hh_limit": 1024,
        "reset_timeout": "50 ms",
        "admit_bytes": "100 kB",
        "evict_timeout": "2 s",
        "non_hh_weight": 3,
    },
    "choke": {
        **_LIMIT,
        "min": "10140 B",
        "max": "101400 B",
        "probability": 0.25,
        "burst": 70,
        "ecn": True,
    },
    "sfb": {
        **_LIMIT,
        "rehash": "500 s",
        "db": "50 s",
        "max": 30,
        "target": 20,
        "increment": 0.001,
        "decrement": 0.0001,
        "penalty_rate": 11,
        "penalty_burst": 21,
    },
    "rio": {**_LIMIT, **_TWO},
    "frio": {**_LIMIT, **_TWO},
    "prio": _LIMIT,
    "tc": {**_LIMIT, "words": "fq_codel limit 500"},
}
