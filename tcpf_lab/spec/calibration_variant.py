"""A search that differs from its file's: what is held, left out or shuffled to judge it by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tcpf_lab.errors import RequestError
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.suggest import unknown
from tcpf_lab.spec.unknown import Unknown, scalar
from tcpf_lab.spec.values import measured


@dataclass(frozen=True)
class Variant:
    """In what a search differs from that of its file.

    Parameters
    ----------
    without : str, optional
        An experiment of `fit` that is held out instead.
    hold : tuple of str
        Unknowns that are held at a value, ``NAME=VALUE`` each.
    permuted : int, optional
        Seed by which the published rows are shuffled among the cells: what a search finds in
        numbers that mean nothing.
    """

    without: str | None = None
    hold: tuple[str, ...] = ()
    permuted: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What its results are told by from those of the file's search and of other variants."""
        parts = [f"without-{self.without}"] if self.without else []
        parts += sorted(self.hold)
        parts += [f"permuted-{self.permuted}"] if self.permuted is not None else []
        return tuple(re.sub(r"[^A-Za-z0-9_.=]+", "-", part) for part in parts)

    def __str__(self) -> str:
        """Say it in words, empty of the file's own search."""
        parts = [f"without {self.without}"] if self.without else []
        parts += sorted(self.hold)
        parts += [f"published rows permuted, seed {self.permuted}"] * (self.permuted is not None)
        return ", ".join(parts)

    @property
    def options(self) -> tuple[str, ...]:
        """Give the options of ``tcpf-lab calibrate`` that mean it."""
        words = ["--without", self.without] if self.without else []
        for one in self.hold:
            words += ["--hold", one]
        words += ["--permuted", str(self.permuted)] if self.permuted is not None else []
        return tuple(words)

    def of(self, calibration: Calibration) -> tuple[Calibration, Mapping[str, tuple[Unknown, str]]]:
        """Give the calibration of the variant, and what is held in it.

        Raises
        ------
        RequestError
            If it names an experiment, an unknown or a value that the file has not got, or leaves
            nothing to fit or to search for.
        """
        changed = self._left_out(calibration)
        held: dict[str, tuple[Unknown, str]] = {}
        for text in self.hold:
            name, value = _held(calibration.unknowns, text)
            if name in held:
                raise RequestError(f"{name} is held already", where=f"--hold {text}")
            held[name] = value
        unknowns = {n: one for n, one in calibration.unknowns.items() if n not in held}
        if not unknowns:
            raise RequestError("holds every unknown: nothing is left to search", where="--hold")
        return changed.model_copy(update={"unknowns": unknowns}), held

    def _left_out(self, calibration: Calibration) -> Calibration:
        if self.without is None:
            return calibration
        if self.without not in calibration.fit:
            message = unknown("is not in `fit`", self.without, calibration.fit)
            raise RequestError(message, where=f"--without {self.without}")
        left = tuple(name for name in calibration.fit if name != self.without)
        if not left:
            raise RequestError("leaves nothing to fit", where=f"--without {self.without}")
        test = (*calibration.test, self.without)
        return calibration.model_copy(update={"fit": left, "test": test})


def _held(unknowns: Mapping[str, Unknown], text: str) -> tuple[str, tuple[Unknown, str]]:
    name, equals, value = text.partition("=")
    if not equals:
        raise RequestError("is not NAME=VALUE", where=f"--hold {text}")
    if name not in unknowns:
        raise RequestError(unknown("unknown unknown", name, unknowns), where=f"--hold {text}")
    one = unknowns[name]
    if one.levels:
        if value not in one.levels:
            raise RequestError(unknown("unknown level", value, one.levels), where=f"--hold {text}")
        return name, (one, value)
    try:
        number = one.number(value)
        problem = one.why_not(measured(scalar(value))[0])
    except ValueError as error:
        raise RequestError(str(error), where=f"--hold {text}") from None
    if problem:
        raise RequestError(problem, where=f"--hold {text}", hint=f"{one.low} to {one.high}")
    return name, (one, one.text(number))
