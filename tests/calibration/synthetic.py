"""A laboratory of formulas: cells and metrics that are known functions of known unknowns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcpf_lab.calibration.space import Dimension, Space
from tcpf_lab.calibration.target import Target

METRICS = ("timeouts", "loss_percent", "goodput_bytes_per_s", "goodput_cov")
TOLERANCE = np.array([0.25, 0.10, 0.05, 0.25])
NOISE = np.array([0.10, 0.03, 0.005, 0.10])  # standard deviation of a run's logarithm
SIZE = np.array([1.0, 0.5, 0.15, 0.7])  # of what the unknowns do to a metric


def space(continuous: int, levels: tuple[int, ...] = ()) -> Space:
    numbers = [
        Dimension(f"x{k}", 1.0, 10.0, log=bool(k % 2), default=2.0) for k in range(continuous)
    ]
    named = [
        Dimension(f"c{k}", levels=tuple(f"l{i}" for i in range(count)))
        for k, count in enumerate(levels)
    ]
    return Space((*numbers, *named))


@dataclass(frozen=True)
class Laboratory:
    """Cells whose logarithms are smooth, bent functions of the unknowns that reach them."""

    space: Space
    reached: np.ndarray
    linear: np.ndarray  # (e, cells, metrics)
    bent: np.ndarray
    mixed: np.ndarray  # (e, e, cells, metrics)

    def exact(self, units: np.ndarray) -> np.ndarray:
        x = self.space.encode(self.space.snap(units))
        masks = self.reached[:, self.space.owners].T  # (e, cells)
        straight = np.einsum("ne,ec,ecm->ncm", x, masks, self.linear)
        waves = np.einsum("ne,ec,ecm->ncm", np.sin(2.5 * x), masks, self.bent)
        pairs = np.einsum("ne,nf,ec,fc,efcm->ncm", x, x, masks, masks, self.mixed, optimize=True)
        return SIZE * (straight + waves + pairs)

    def run(self, units: np.ndarray, random: np.random.Generator, noise: float = 1.0) -> np.ndarray:
        means = self.exact(units)
        return means + noise * NOISE * random.standard_normal(means.shape)

    def published(
        self,
        truth: np.ndarray,
        random: np.random.Generator,
        misfit: float = 1.0,
        alike: float = 0.0,
    ) -> Target:
        """What it would publish at `truth`, off by noise and by `misfit` times the tolerance.

        `alike` is the correlation of what the four cells of a case and metric are off.
        """
        exact = self.exact(truth[None])[0]
        shape = exact.shape
        own = random.standard_normal(shape)
        of_case = random.standard_normal((7, len(METRICS)))[np.arange(shape[0]) % 7]
        off = np.sqrt(1 - alike) * own + np.sqrt(alike) * of_case
        size = np.sqrt(NOISE**2 + (misfit * np.log1p(TOLERANCE)) ** 2)
        names = tuple(("X", 100, f"case{k}") for k in range(shape[0]))
        noise = np.broadcast_to(NOISE**2, shape).copy()
        return Target(names, METRICS, exact + off * size, noise, TOLERANCE)


def laboratory(
    space: Space,
    cells: int,
    seed: int,
    silent: tuple[int, ...] = (),
    own: int = 0,
    weak: float = 1.0,
) -> Laboratory:
    """Draw one; `silent` unknowns reach nothing, the last `own` reach one case in seven each."""
    random = np.random.default_rng(seed)
    size, width = space.size, len(space.owners)
    reached = np.ones((cells, size), dtype=bool)
    reached[:, list(silent)] = False
    for k in range(own):
        reached[:, size - 1 - k] = np.arange(cells) % 7 == k % 7

    # Cells of one experiment answer alike: most of the effect is common to them.
    def effects(*shape: int) -> np.ndarray:
        alike = random.standard_normal((*shape, 1, len(METRICS)))
        return 0.8 * alike + 0.6 * random.standard_normal((*shape, cells, len(METRICS)))

    strength = weak ** np.arange(width)
    return Laboratory(
        space,
        reached,
        effects(width) * strength[:, None, None],
        0.5 * effects(width) * strength[:, None, None],
        0.15 * effects(width, width) * np.sqrt(np.outer(strength, strength))[..., None, None],
    )
