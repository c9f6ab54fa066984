"""A part of the matrix: ``--only`` and ``--seeds``, on the command line and in a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tcpf_lab.base.errors import RequestError
from tcpf_lab.spec.axis import Axis, key_of, meet, path_of
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Experiment, case_slug
from tcpf_lab.spec.values import Value, shown, word
from tcpf_lab.spec.variant import touching
from tcpf_lab.spec.words import unknown

#: What of every matrix can be restricted, besides its axes.
KEYS = ("case", "flows", "seed")


def narrow(
    experiment: Experiment, only: Mapping[str, str] | None = None, seeds: int | None = None
) -> Experiment:
    """Give the experiment with fewer values in its matrix, `expand` describes which.

    Raises
    ------
    RequestError
        As `expand`.
    """
    (narrowed,) = narrow_each([experiment], only, seeds)
    if narrowed is None:
        words = " ".join(f"--only {key}={value}" for key, value in (only or {}).items())
        raise RequestError("no run is all of this", where=words)
    return narrowed


def narrow_each(
    experiments: Sequence[Experiment],
    only: Mapping[str, str] | None = None,
    seeds: int | None = None,
    where: Callable[[str], str] | None = None,
) -> list[Experiment | None]:
    """Give of each experiment what it has of the wanted values, None for one without any.

    Parameters
    ----------
    experiments : sequence of Experiment
        What to narrow, at least one.
    only, seeds
        As for `expand`; each value must be in some matrix, not in every one. A case that lacks
        an axis has none of its values.
    where : callable, optional
        Gives the place of a key of ``only``, or of ``seeds``, for messages; the option by default.

    Raises
    ------
    RequestError
        If ``only`` names an unknown key, a value is in no matrix, or none has so many seeds.
    """
    wanted = dict(only or {})
    place = where or (lambda key: _option(key, wanted, seeds))
    most = max(len(experiment.matrix.seed) for experiment in experiments)
    if seeds is not None and not 1 <= seeds <= most:
        message = f"must be from 1 to {most}, the number of seeds in the matrix"
        raise RequestError(message, where=place("seeds"))
    values = [_values(experiment, seeds) for experiment in experiments]
    words = {key: _words(key, text, experiments, values, place) for key, text in wanted.items()}
    return [
        _narrowed(experiment, own, words)
        for experiment, own in zip(experiments, values, strict=True)
    ]


def _option(key: str, wanted: Mapping[str, str], seeds: int | None) -> str:
    return f"--seeds {seeds}" if key == "seeds" else f"--only {key}={wanted[key]}"


def _values(experiment: Experiment, seeds: int | None) -> dict[str, dict[str, Any]]:
    """What ``only`` may say: for each key the values of the matrix by the word that means them."""
    return {
        "case": {case_slug(name): name for name in experiment.selected_cases},
        "flows": {str(number): number for number in experiment.matrix.flows},
        "seed": {str(number): number for number in experiment.matrix.seed[:seeds]},
    }


def _meant(key: str, experiment: Experiment) -> list[Axis]:
    """Give the axes that a key of ``only`` names: one, or one of each of several cases."""
    path = path_of(key)
    return [a for a in experiment.matrix.axes if a.key == key_of(path) and meet(a.path, path)]


def _words(
    key: str,
    text: str,
    experiments: Sequence[Experiment],
    values: Sequence[Mapping[str, Mapping[str, Any]]],
    place: Callable[[str], str],
) -> set[str]:
    """The words of a list, each of which is in some matrix."""
    if key in KEYS:
        known = {name: value for own in values for name, value in own[key].items()}
    else:
        axes = [axis for experiment in experiments for axis in _meant(key, experiment)]
        known = {word(shown(value)): shown(value) for axis in axes for value in axis.values}
    if not known:
        every = dict.fromkeys(axis.key for one in experiments for axis in one.matrix.axes)
        raise RequestError(unknown(f"unknown key '{key}'", key, (*KEYS, *every)), where=place(key))
    words = set()
    for part in text.split(","):
        name = _word(key, part)
        if name not in known:
            message = unknown(f"unknown {key} '{part}'", part, map(str, known.values()))
            raise RequestError(message, where=place(key))
        words.add(name)
    return words


def _word(key: str, text: str) -> str:
    if key in KEYS:
        return case_slug(text) if key == "case" else text.strip()
    return word(text)


def _narrowed(
    experiment: Experiment, values: Mapping[str, Mapping[str, Any]], words: Mapping[str, set[str]]
) -> Experiment | None:
    chosen = {
        key: tuple(value for name, value in own.items() if name in words.get(key, own))
        for key, own in values.items()
    }
    wanted = {key: _meant(key, experiment) for key in words if key not in KEYS}
    axes = {
        axis: tuple(value for value in axis.values if _all_want(axis, value, wanted, words))
        for axis in experiment.matrix.axes
    }
    has = touching(experiment)
    chosen["case"] = tuple(
        case
        for case in chosen["case"]
        if all(any(a in has[case] and axes[a] for a in own) for own in wanted.values())
    )
    if not all(chosen.values()):
        return None
    left = {
        axis.written: kept
        for axis, kept in axes.items()
        if kept and any(axis in has[case] for case in chosen["case"])
    }
    return experiment.model_copy(update={"matrix": Matrix.model_validate({**chosen, **left})})


def _all_want(
    axis: Axis, value: Value, wanted: Mapping[str, list[Axis]], words: Mapping[str, set[str]]
) -> bool:
    """Tell whether a value of an axis is among those of every key that names the axis."""
    name = word(shown(value))
    return all(name in words[key] for key, named in wanted.items() if axis in named)


def parse_only(settings: Iterable[str]) -> dict[str, str]:
    """Turn ``KEY=VALUE`` words into the mapping that `expand` takes.

    Raises
    ------
    RequestError
        If a word is not of that form, or a key is given twice.
    """
    result: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key or not value:
            message = "write KEY=VALUE, as case=NoMark+RED or seed=1,2"
            raise RequestError(message, where=f"--only {setting}")
        if key in result:
            raise RequestError(
                f"{key} is given twice; separate its values by commas", where=f"--only {setting}"
            )
        result[key] = value
    return result
