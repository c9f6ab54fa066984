"""An outcome of a calibration as large as a study's, with numbers of formulas."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tcpf_lab.calibration.outcome import part_of
from tcpf_lab.papers.thesis.claims import CLAIMS
from tcpf_lab.report.claims.published import published
from tcpf_lab.report.style import CASES, DRAWN

NAMES = (
    *("minimum RTO", "delay of the access links", "packet size", "length of the measurement"),
    *("limit of tail drop as a multiple of RED's max", "EWMA weight of RED and its burst"),
    *("share of a flow that FRED calls robust", "least number of packets a flow may buffer"),
    *("many-flows mode of FRED", "TCP's initial window", "resolution of the timer (ticks)"),
    *("retransmission timer of Linux 2.2", "age of the oldest packet", "go-back-N after a timeout"),
    *("fast retransmit of Linux 2.2", "delayed acknowledgements", "growth of the window"),
    *("socket buffer", "length of the warm-up before the measured window", "tokens of the marker"),
)
LEVELS = (
    *("within 2 s, measured 8 s later", "within 10 s, measured at once"),
    *("within 2 s, measured at once", "all at once, measured at once"),
)
#: Threshold of the profiles.
LIMIT = 322.944
#: The case whose numbers were known before.
SEEN = "NoMark+TailDrop"
VERDICTS = ("pinned down", "bounded from above", "bounded from below", "not identified")


def outcome(unknowns: int = 20, points: int = 120, settings: int = 8) -> dict[str, Any]:
    """Fit configurations A and B, hold out C and D."""
    cells = [
        {"experiment": f"config{c}", "config": c, "flows": flows, "case": case}
        for c in "ABCD"
        for flows in (100, 50)
        for case in CASES
    ]
    known = [
        [(published(one["config"], one["case"], one["flows"]) or {}).get(m) for m in DRAWN]
        for one in cells
    ]
    asked = [_unknown(number) for number in range(unknowns)]
    ids = [f"{number:08x}" for number in range(points)]
    looked_at = [ids[0], *ids[len(ids) - settings + 1 :]]
    chosen = [_setting(name, number, asked, known) for number, name in enumerate(looked_at)]
    return {
        "format": 1,
        "name": "lost_testbed",
        "title": "The testbed of 2000: what its published numbers say of it",
        "testbed": "uml",
        "fit": ["configA", "configB"],
        "test": ["configC", "configD"],
        "metrics": list(DRAWN),
        "cells": cells[:28],
        "published": known[:28],
        "table": {"cells": cells, "published": known},
        "tolerance": dict.fromkeys(DRAWN, 0.1),
        "seen": {SEEN: "its limit was read off its rows"},
        "unfinished": None,
        "seeds": {"points": 1, "check": 5},
        "experiments": [
            {
                "name": f"config{c}",
                "config": c,
                "title": f"Configuration {c}",
                "part": "fit" if c in "AB" else "test",
            }
            for c in "ABCD"
        ],
        "unknowns": asked,
        "profiles": [_profile(one, number) for number, one in enumerate(asked)],
        "pairs": [
            {
                "names": [one["name"] for one in asked[:2]],
                "values": [one["default"] for one in asked[:2]],
                "alone": [LIMIT + 20.0, LIMIT + 90.0],
                "both": LIMIT - 4.0,
            }
        ],
        "points": [_point(name, number, chosen[0]) for number, name in enumerate(ids)],
        "best": {"id": looked_at[1], "values": chosen[1]["values"]},
        "settings": chosen,
        # the scale is 310 / (112 - 20), and the limit 310 + 3.84 of these
        "threshold": {
            "least": 310.0,
            "limit": LIMIT,
            "residuals": 112,
            "effective": 112.0,
            "parameters": 20,
            "scale": 3.369565,
        },
        "judged_limit": 505.0,
        "influence": {
            m: {one["name"]: 0.9 / (1 + n + k) for n, one in enumerate(asked)}
            for k, m in enumerate(DRAWN)
        },
        "emulator": {m: {"r_squared": 0.9, "standardised_error": 1.1} for m in DRAWN},
        "held_out": {
            part: _errors(worse) for part, worse in (("fit", 1.0), ("test", 1.5), ("blind", 1.6))
        },
        "kendall": _orders(),
        "claims": _claims(chosen),
        "runs": 4321,
        "validity": {
            "runs": {"requested": 2240, "complete": 2240, "valid": 2239, "used": 2239},
            "checks": [{"name": "all_connected", "passed": 2239, "failed": 1, "not_applicable": 0}],
            "left_out": [
                {
                    "named": "lost_testbed-configA-00000001/nomark+red-flows100, seed 3",
                    "runs": 1,
                    "state": "invalid",
                    "reasons": "all_connected: 1 flow of 100 never came up",
                    "used": False,
                }
            ],
            "made_with": {"clock": ["virtual"], "kernel": ["6.12"]},
        },
        "notes": [
            "A fit is not a reproduction: the settings were chosen because they give the published "
            "numbers, so that they give them shows nothing; only what is held out can.",
            "points have one seed each",
        ],
    }


def write_outcome(directory: Path, told: dict[str, Any], cost: bool = True) -> Path:
    """Write it as `tcpf-lab calibrate` does; give the file."""
    directory.mkdir(parents=True, exist_ok=True)
    session = {"wall_s": 7325.0, "running_s": 7000.0, "run_s": 9000.0, "made": 4321}
    if cost:
        kept = [{**session, "skipped": 2, "failed": 1, "at_a_time": 2}]
        (directory / "cost.json").write_text(json.dumps(kept))
    path = directory / "calibration.json"
    path.write_text(json.dumps(told))
    return path


def _unknown(number: int) -> dict[str, Any]:
    name, verdict = NAMES[number], VERDICTS[number % 4]
    about = {"name": name, "set": [f"tcp.key_{number}"], "verdict": verdict}
    if number % 3 == 2:
        levels = ["off", "on"] if number % 2 else list(LEVELS)
        about |= {"levels": levels, "default": levels[0], "default_at": 0.25}
        return {**about, "not_excluded": levels[:1]}
    about |= {"from": "200 ms", "to": "1 s", "scale": "log", "default": "200 ms", "default_at": 0.0}
    return {**about, "not_excluded": ["320 ms to 450 ms"]}


def _profile(one: dict[str, Any], number: int) -> dict[str, Any]:
    levels = one.get("levels")
    count = len(levels) if levels else 13
    units = [(k + 0.5) / count if levels else k / 12 for k in range(count)]
    expected = [310 + 400 * (unit - 0.1 * (number % 10)) ** 2 for unit in units]
    values = levels or [0.2 * 5**unit for unit in units]
    return {
        "name": one["name"],
        "values": values,
        "texts": levels or [f"{1000 * v:.0f} ms" for v in values],
        "units": units,
        "expected": expected,
        "above": [v + 20 for v in expected],
        "possible": [v - 20 for v in expected],
        "pieces": [[levels[0]]] if levels else [[0.32, 0.45]],
        "verdict": one["verdict"],
        "share": 0.4,
    }


def _point(name: str, number: int, first: dict[str, Any]) -> dict[str, Any]:
    total = 300 + 2000 / (1 + number)
    return {
        "id": name,
        "round": 0 if number < 64 else 1 + (number - 64) // 12,
        "values": first["values"],
        "misfit": None if number == 5 else total,
        "complete": number not in (5, 6),
        "measured": [[1.0] * 4] * 28,
        "excluded": None if number == 5 else total > LIMIT,
    }


def _setting(
    name: str, number: int, asked: list[dict[str, Any]], known: list[list[float | None]]
) -> dict[str, Any]:
    factor = 1 + 0.1 * number
    return {
        "id": name,
        "values": {one["name"]: one["default"] for one in asked},
        "misfit": 500.0 - number if number else 900.0,
        "unseen": 510.0 - number if number else 920.0,
        "allowed": number > 0,
        "mean": [[None if v is None else factor * v for v in row] for row in known],
        "half": [[None if v is None else 0.02 * v for v in row] for row in known],
        "runs": [5] * len(known),
        "tcp": {"profile": "linux-2.2", "linux22": ["rto", "go_back_n"][:number], "sack": True},
        "conditions": {f"config{c}": "60 s, 10 Mbit/s, 200 ms, linux-2.2 SACK" for c in "ABCD"},
    }


def _errors(worse: float) -> dict[str, Any]:
    def told(value: float) -> dict[str, Any]:
        return {"error": value, "interval": [0.9 * value, 1.1 * value]}

    return {
        m: {"default": told(worse), "calibrated": told(0.5), "ratio": told(0.5 / worse)}
        for m in DRAWN
    }


def _orders() -> list[dict[str, Any]]:
    return [
        {
            "part": part,
            "config": c,
            "flows": flows,
            "metric": metric,
            "default": {"tau": 0.52, "interval": [0.43, 0.62]},
            "calibrated": {"tau": 0.9 if flows == 100 else math.sin(1), "interval": [0.81, 1.0]},
        }
        for part, configs in (("fit", "AB"), ("test", "CD"), ("blind", "CD"))
        for c in configs
        for flows in (100, 50)
        for metric in DRAWN
    ]


def _claims(chosen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    words = ("holds", "refuted", "within noise")
    found = []
    for number, claim in enumerate(CLAIMS):
        verdicts = {
            one["id"]: "holds" if number % 4 == 0 else words[(number * k) % 3]
            for k, one in enumerate(chosen)
        }
        about = {
            "id": claim.id,
            "statement": claim.statement,
            "part": part_of(claim, "AB"),
            "published": "refuted" if number % 5 == 1 else "holds",
        }
        found.append({**about, "verdicts": verdicts})
    return found
