"""What RR-4469 says of its model, held against the model as it is solved here."""

from __future__ import annotations

from collections.abc import Iterator

from tcpf_lab.reference.published import rio_tables
from tcpf_lab.report.model import scans
from tcpf_lab.report.model.claim import ModelCheck, ModelClaim
from tcpf_lab.report.model.setting_claims import of_settings

#: Columns of Tables 1 to 3.
QUANTITIES = ("T", "T_in", "p_in", "p_out", "q")


def claims() -> tuple[ModelClaim, ...]:
    """Give every sentence with its numbers; some seconds of solving."""
    return (*_of_tables(), *_of_throughput(), *of_settings())


def _of_tables() -> Iterator[ModelClaim]:
    errors = {
        number: {
            name: abs(getattr(scans.solved(table.case), name) / table.simulated[name] - 1)
            for name in QUANTITIES
        }
        for number, table in rio_tables().items()
    }
    yield ModelClaim(
        "rio-1",
        "4.1, Tables 1 to 3",
        "the relative error of the throughput is less than 5 %",
        tuple(
            ModelCheck(f"T, Table {n}", 100 * one["T"], high=5, strict=True, unit="%")
            for n, one in errors.items()
        ),
    )
    near = sum(error < 0.05 for one in errors.values() for error in one.values())
    yield ModelClaim(
        "rio-2",
        "abstract",
        "the error is less than 5 % in most cases",
        (ModelCheck("numbers of 15 within 5 %", near, low=8, decimals=0),),
    )
    low = [float(scans.solved(name).occupancy[:20].sum()) for name in (scans.FULL, scans.PART)]
    yield ModelClaim(
        "rio-3",
        "4.1, Figure 5",
        "the mean queue is between the thresholds, yet the queue swings below the minimum",
        (
            ModelCheck("mean queue", scans.solved(scans.FULL).q, 20, 100, unit="packets"),
            ModelCheck("time below out_min, Table 1", 100 * low[0], low=5, unit="%"),
            ModelCheck("time below out_min, Table 3", 100 * low[1], low=5, unit="%"),
        ),
    )


def _of_throughput() -> Iterator[ModelClaim]:
    few, many = (
        scans.with_long_flows(p).per_flow.throughput[-len(scans.LONG_DELAYS) :] for p in (0.06, 1.0)
    )
    yield ModelClaim(
        "rio-4",
        "5.1, Figure 6",
        "with out_probability 0.06 none of the five long flows gets its reserved rate",
        (
            ModelCheck(
                *("the fastest of the five", float(max(few))),
                high=scans.RESERVED,
                strict=True,
                unit="packets/s",
            ),
        ),
    )
    yield ModelClaim(
        "rio-5",
        "5.1, Figure 6",
        "with out_probability 1 four of them get it",
        (ModelCheck("the fourth", float(sorted(many)[1]), low=scans.RESERVED, unit="packets/s"),),
    )
    yield _gains_and_losses()


def _gains_and_losses() -> ModelClaim:
    every = [scans.with_long_flows(p).per_flow.throughput for p in (0.06, 1.0)]
    change = every[1] - every[0]
    return ModelClaim(
        "rio-6",
        "5.1, Figure 7",
        "as out_probability rises, flows with short round trips lose and long ones gain",
        (
            ModelCheck("change at 100 ms", float(change[0]), high=0, strict=True, unit="packets/s"),
            ModelCheck("change at 800 ms", float(change[-1]), low=0, strict=True, unit="packets/s"),
        ),
    )
