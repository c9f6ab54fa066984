"""Experiment files: find, read, check, write; and the experiments that a collection names.

Everything that is wrong with a file is reported at once, each with ``file:line`` and the key path.
Reading depends on nothing but the file.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from tcpf_lab.base import shipped
from tcpf_lab.base.errors import RequestError, SpecError, legible
from tcpf_lab.spec.axis import (
    ANY,
    KERNEL,
    has,
    is_range,
    key_of,
    may_be_axis,
    meet,
    path_of,
    shared,
    shown,
)
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.collection import Collection
from tcpf_lab.spec.explain import explain, show_path, shown_value
from tcpf_lab.spec.matrix import Matrix
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.queue import KINDS
from tcpf_lab.spec.sweep import NO_KEYS, axis_problems, narrow, narrow_each, put, touching
from tcpf_lab.spec.words import KeyPath, SpecModel, keys, unknown
from tcpf_lab.spec.yaml_text import Document, read_yaml

# os.path says no where Path raises, of what no file can be called.
# ruff: noqa: PTH110, PTH113

#: No experiment comes near this many bytes; a capture named by mistake does.
_LARGEST = 200_000
#: The one pipe that is read as a file; its content is cached, as files are read twice.
STANDARD_INPUT = Path("/dev/stdin")
#: Most problems of one file that are listed one by one.
_MOST_PROBLEMS = 100
#: The keys that make a file something else than an experiment.
_OTHERS: dict[str, type[Collection] | type[Calibration]] = {
    "experiments": Collection,
    "unknowns": Calibration,
}
M = TypeVar("M", bound=SpecModel)


class SpecErrors(SpecError):  # noqa: N818 - the plural says what it is
    """Several things wrong with one experiment file; ``problems`` holds one `SpecError` each."""

    def __init__(self, problems: Iterable[SpecError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip from a worker process."""
        return type(self), (self.problems,)


def find(name: str | Path, beside: Path | None = None) -> Path:
    """Give the path of an experiment file.

    Parameters
    ----------
    name : str or Path
        A path as it is; a bare name is looked up in ``./``, in ``./experiments`` and among the
        experiments that come with tcpf-lab, with or without ``.yaml``.
    beside : Path, optional
        A directory to look in first, for an experiment that a collection names.

    Raises
    ------
    RequestError
        If there is no such file.
    """
    path = Path(name)
    for near in (beside / path, beside / f"{path}.yaml") if beside else ():
        if os.path.isfile(near):
            return near
    if os.path.isfile(path) or (beside is None and os.path.exists(path) and len(path.parts) != 1):
        return path
    if len(path.parts) != 1:
        raise RequestError("no such file", where=str(name))
    folders = (Path(), Path("experiments"), shipped.directory("experiments"))
    for folder in folders:
        for candidate in (folder / path, folder / f"{path}.yaml"):
            if os.path.isfile(candidate):
                return candidate
    if beside is None and os.path.exists(path):
        return path
    files = {file.name: file for folder in folders[:0:-1] for file in folder.glob("*.yaml")}
    known = sorted(
        name
        for name, file in files.items()
        if beside is None or _described(read_yaml(_read(file)).data) is Experiment
    )
    message = "no such experiment in ./, in ./experiments or in tcpf-lab"
    raise RequestError(unknown(message, path.name, known), where=str(name))


def named(source: Path) -> Path:
    """Give what finds a file again: of one that comes with tcpf-lab its name."""
    shipped_one = source.parent == shipped.directory("experiments")
    return Path(source.name) if shipped_one else source


def _described(data: Any) -> type[Experiment] | type[Collection] | type[Calibration]:
    """Tell by its keys what a file is."""
    keys = data if isinstance(data, dict) else {}
    return next((model for key, model in _OTHERS.items() if key in keys), Experiment)


def load(path: str | Path) -> Experiment:
    """Read an experiment file.

    Raises
    ------
    RequestError
        If the file cannot be read.
    SpecError
        If it says something that is not allowed; `SpecErrors` if it does so more than once.
    """
    return load_as(path, Experiment)


def load_as(path: str | Path, model: type[M]) -> M:
    """Read a file that ``model`` describes as a whole.

    Raises
    ------
    RequestError, SpecError, SpecErrors
        As `load`.
    """
    return _build(read_yaml(_read(Path(path), model.noun)), str(path), model)


def load_any(path: str | Path) -> Experiment | Collection | Calibration:
    """Read an experiment file, a collection, which has ``experiments``, or a calibration.

    The last has the key ``unknowns``.

    Raises
    ------
    RequestError, SpecError, SpecErrors
        As `load`.
    """
    document = read_yaml(_read(Path(path)))
    return _build(document, str(path), _described(document.data))


def load_named(spec: str, source: Path, where: str) -> Experiment | Collection | Calibration:
    """Read a file that another one names: beside that first, else as `find` does.

    Raises
    ------
    SpecError
        If there is no such file; ``where`` is the place that names it.
    RequestError, SpecError, SpecErrors
        As `load`.
    """
    try:
        path = find(spec, beside=source.parent)
    except RequestError as error:
        raise SpecError(f"{error.where}: {error.message}", where=where) from None
    return load_any(path)


def parse(text: str, source: str) -> Experiment:
    """Read the text of an experiment file.

    Parameters
    ----------
    text : str
        YAML.
    source : str
        What messages call the text, in front of the line number.

    Raises
    ------
    SpecError, SpecErrors
        As `load`.
    """
    return _build(read_yaml(text), source, Experiment)


def _build(document: Document, source: str, model: type[M]) -> M:
    def where(path: KeyPath) -> str:
        return f"{source}:{document.line(path)}"

    if document.data is None and not document.problems:
        sentence = f"the file is empty; {_start(model)}"
        raise SpecError(sentence, where=f"{source}:1")
    if document.problems:
        raise_all(
            SpecError(_with_path(path, sentence), where=f"{source}:{line}")
            for line, path, sentence in sorted(document.problems, key=lambda problem: problem[0])
        )
    return check(document.data, where, document.line, model)


def _start(model: type[SpecModel]) -> str:
    return f"{model.noun} file starts with a key, such as `name: my-test`"


def check(
    data: Any, where: Callable[[KeyPath], str], order: Callable[[KeyPath], int], model: type[M]
) -> M:
    """Check plain data and build the experiment, or the collection.

    Parameters
    ----------
    data : Any
        What the file says, without units applied.
    where : callable
        Gives the place of a key path, for messages.
    order : callable
        Gives the sorting key of a key path, for several messages.
    model : SpecModel class
        What the data describes as a whole.

    Raises
    ------
    SpecError, SpecErrors
        As `load`.
    """
    if not isinstance(data, dict):
        message = f"{_start(model)}; this is {shown_value(data)}"
        raise SpecError(message, where=where(()))
    checked, found = None, []
    try:
        checked = model.model_validate(data)
    except ValidationError as error:
        found = explain(error, data, model)
    if isinstance(checked, Experiment):
        found = list(axis_problems(checked, data["matrix"]))
    found.sort(key=lambda item: order(item[0]))
    raise_all(SpecError(_with_path(path, text), where=where(path)) for path, text in found)
    assert checked is not None  # it was refused for a reason
    return checked


def places(path: Path) -> Callable[[KeyPath], str]:
    """Give a function from a key path to where it stands in the file, ``file:line``."""
    document = read_yaml(_read(path))
    return lambda keys: f"{path}:{document.line(keys)}"


def dump(experiment: Experiment) -> str:
    """Write the experiment as canonical YAML; loading it gives an equal experiment.

    Every default is resolved, so the text means the same whatever later versions assume; what is
    left to the testbed (`Experiment.on`) has been settled in every run's spec.
    """
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 4096
    yaml.allow_unicode = True
    text = StringIO()
    yaml.dump(_styled(to_data(experiment)), text)
    return text.getvalue()


def each(error: SpecError) -> tuple[SpecError, ...]:
    """Give the errors of which one consists, or itself."""
    return error.problems if isinstance(error, SpecErrors) else (error,)


def raise_all(problems: Iterable[SpecError]) -> None:
    """Raise one problem as itself and several together; nothing if there is none."""
    listed = list(problems)
    if (left := len(listed) - _MOST_PROBLEMS) > 0:
        more = SpecError(f"and {left} more problems", where=listed[_MOST_PROBLEMS].where)
        listed = [*listed[:_MOST_PROBLEMS], more]
    if len(listed) > 1:
        raise SpecErrors(listed)
    if listed:
        raise listed[0]


def _with_path(path: KeyPath, sentence: str) -> str:
    return legible(f"{show_path(path)}: {sentence}" if path else sentence, keep="")


def require_file(path: Path, noun: str) -> None:
    """Refuse a pipe, a terminal or a device: one waits, another never ends, none is read twice.

    Raises
    ------
    RequestError
        Saying what to do instead.
    """
    if os.path.exists(path) and not (
        path == STANDARD_INPUT or path.is_dir() or os.path.isfile(path)
    ):
        raise RequestError(
            f"is a pipe or a device, not {noun} file",
            where=str(path),
            hint="save its output to a file first: `COMMAND > FILE`",
        )


@functools.cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read(_LARGEST + 1)


def _content(path: Path) -> bytes:
    if path == STANDARD_INPUT:
        return _standard_input()
    with path.open("rb") as file:
        return file.read(_LARGEST + 1)


def _read(path: Path, noun: str = SpecModel.noun) -> str:
    require_file(path, noun)
    try:
        raw = _content(path)
    except OSError as error:
        reasons = {errno.ENOENT: "no such file", errno.EISDIR: f"is a directory, not {noun} file"}
        reason = reasons.get(error.errno or 0, f"cannot be read: {error.strerror}")
        raise RequestError(reason, where=str(path)) from None
    if len(raw) > _LARGEST:
        message = f"is not {noun} file: larger than {_LARGEST} bytes"
        raise SpecError(message, where=str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = "not UTF-8 text; save the file in UTF-8"
        raise SpecError(message, where=f"{path}:{line}") from None


def _styled(value: Any) -> Any:
    """Mappings as blocks, lists on one line."""
    if isinstance(value, dict):
        return CommentedMap((key, _styled(item)) for key, item in value.items())
    if isinstance(value, list):
        flow = CommentedSeq(value)
        flow.fa.set_flow_style()
        return flow
    return value


def apply_overrides(
    experiment: Experiment, settings: Sequence[str], label: Callable[[int], str] = lambda _: "--set"
) -> Experiment:
    """Give the experiment with some values changed.

    Parameters
    ----------
    experiment : Experiment
        Where to start from; it is not changed.
    settings : sequence of str
        ``PATH=VALUE`` each: keys joined by dots, as in ``cases.NoMark+RED.queue.max``, and YAML, as
        in ``100 kB`` or ``{kind: bfifo, limit: 30 kB}``.  Later ones win.  ``cases.*`` stands for
        every case that has the rest of the path, and there must be one; ``queue.X`` and
        ``marker.X`` are short for ``cases.*.queue.X`` and ``cases.*.marker.X``.  A list or a range
        makes the key an axis of the matrix.
    label : callable
        Gives what messages put in front of a setting, by its index.

    Raises
    ------
    SpecError, SpecErrors
        As for a file; ``where`` is the option instead of ``file:line``.
    """
    if not settings:
        return experiment
    data = to_data(experiment)
    options: list[tuple[KeyPath, str]] = []
    problems: list[SpecError] = []
    for index, setting in enumerate(settings):
        where = f"{label(index)} {setting}"
        try:
            options += [(path, where) for path in _applied(data, setting, where)]
        except SpecError as error:
            problems += each(error)
    raise_all(problems)

    def position(path: KeyPath) -> int:
        """Index of the option nearest to a key path, the latest of several."""
        depths = [shared(key, path) for key, _ in options]
        nearest = [i for i, depth in enumerate(depths) if depth == max(depths) > 0]
        return nearest[-1] if nearest else len(options)

    def place(path: KeyPath) -> str:
        at = position(path)
        return options[at][1] if at < len(options) else " ".join(text for _, text in options)

    try:
        return check(data, place, position, Experiment)
    except SpecError as error:
        raise_all(list(_of_other_kinds(each(error), options)))
        raise


def _of_other_kinds(
    problems: Sequence[SpecError], options: Sequence[tuple[KeyPath, str]]
) -> Iterator[SpecError]:
    """Say once that keys are of another kind than a setting's, not of each of them."""
    kinds = {where: path for path, where in options if path[-1] == "kind"}
    several = Counter(problem.where for problem in problems)
    for where, count in several.items():
        if where in kinds and count > 1:
            section = show_path(kinds[where][:-1])
            message = f"{show_path(kinds[where])}: the other keys of {section} are of another kind"
            hint = f"set all keys of the new kind at once: {section}='{{kind: ..., ...}}'"
            yield SpecError(message, where=where, hint=hint)
        else:
            yield from (problem for problem in problems if problem.where == where)


def _applied(data: dict[str, Any], setting: str, where: str) -> list[KeyPath]:
    """Change the data as a setting says; give the key paths that it meant."""
    pattern, value = _split(setting, where)
    matrix = data["matrix"] if isinstance(data["matrix"], dict) else {}
    if pattern[0] == "matrix" and len(pattern) > 2:
        return [_vary(matrix, pattern[1:], value)]
    if may_be_axis(pattern) and (isinstance(value, list) or is_range(value)):
        return [_vary(matrix, pattern, value)]
    _settle(matrix, pattern, where)
    paths = _meant(data, pattern, where)
    for path in paths:
        _put(data, path, value, where)
    return paths


def _vary(matrix: dict[str, Any], path: KeyPath, value: Any) -> KeyPath:
    """Make a key an axis of the matrix, in place of one that it has for the same key."""
    new = key_of(path) if path[:2] == ("cases", ANY) else ".".join(map(str, path))
    for key in [key for key in matrix if path_of(key) == path_of(new)]:
        del matrix[key]
    matrix[new] = value
    return "matrix", new


def _settle(matrix: dict[str, Any], path: KeyPath, where: str) -> None:
    """Take an axis out of the matrix whose key gets a single value."""
    for key in [key for key in matrix if len(path_of(key)) == len(path) > 1]:
        axis = path_of(key)
        if axis == path or (meet(axis, path) and path[1] == ANY):
            del matrix[key]
        elif meet(axis, path):
            raise SpecError(
                f"the matrix has the axis {key}, which takes precedence",
                where=where,
                hint=f"replace the axis by one value: --set {key}=VALUE",
            )


def overlap(one: str, other: str) -> bool:
    """Tell whether two settings, ``PATH=VALUE`` each, change the same value or one within it.

    Examples
    --------
    >>> overlap("queue.ewma=5", "cases.NoMark+FRED.queue={kind: bfifo}")
    True
    >>> overlap("tcp.sack=true", "tcp.rto_min=1 s")
    False
    """
    return meet(*(path_of(setting.partition("=")[0]) for setting in (one, other)))


def _split(setting: str, where: str) -> tuple[KeyPath, Any]:
    key, equals, text = setting.partition("=")
    path = path_of(key)
    if not equals or not all(path):
        message = "write PATH=VALUE, such as traffic.duration=20s; PATH is keys joined by dots"
        raise SpecError(message, where=where)
    if path[-1] == KERNEL:  # 7.10 is no number
        text = re.sub(r"(?<![\w.'\"])[0-9]+\.[0-9]+(?![\w.'\"])", r"'\g<0>'", text)
    document = read_yaml(text)
    raise_all(SpecError(sentence, where=where) for _, _, sentence in document.problems)
    return path, document.data


def _meant(data: dict[str, Any], path: KeyPath, where: str) -> list[KeyPath]:
    """Give the path, or one for each case that has it where ``*`` stands for the case."""
    if path[:2] != ("cases", ANY) or len(path) < 3:
        return [path]
    found: list[KeyPath] = [
        ("cases", name, *path[2:])
        for name, case in data["cases"].items()
        if has(case, path[2:]) or _may_have(case, path[2:])
    ]
    if not found:
        raise SpecError(f"no case has the key {'.'.join(map(str, path[2:]))}", where=where)
    return found


def _may_have(case: Any, path: KeyPath) -> bool:
    """Tell whether a queue's kind has a key that the file left out."""
    if len(path) != 2 or path[0] != "queue" or not has(case, ("queue", "kind")):
        return False
    kind = case["queue"]["kind"]
    return isinstance(kind, str) and kind in KINDS and path[1] in keys(KINDS[kind])


def _put(data: dict[str, Any], path: KeyPath, value: Any, where: str) -> None:
    """Set a value; sections that were left out come into being, cases do not."""
    if path[0] == "cases" and len(path) > 2 and path[1] not in data["cases"]:
        raise SpecError(
            unknown(f"unknown case '{path[1]}'", str(path[1]), data["cases"]), where=where
        )
    obstacle = put(data, path, value)
    if obstacle:
        raise SpecError(f"{show_path(obstacle)} {NO_KEYS}", where=where)


Places = Callable[[KeyPath], str]


@dataclass(frozen=True)
class Level:
    """An experiment, and which level of which factor it is; both empty for an unchanged one.

    ``settings`` are the changes that make the level, ``PATH=VALUE`` each.
    """

    experiment: Experiment
    factor: str = ""
    level: str = ""
    settings: tuple[str, ...] = ()

    @property
    def published(self) -> bool:
        """Whether it is a configuration of the published tables."""
        return self.experiment.config is not None

    @property
    def config(self) -> str:
        """The configuration of the published tables, or the experiment's own name."""
        return self.experiment.config or self.experiment.name


def members(collection: Collection, source: Path) -> tuple[Level, ...]:
    """Give the collection's experiments, changed and narrowed as it says.

    One of which only cases are changed, or varied, is narrowed to these.

    Parameters
    ----------
    collection : Collection
        What the file says.
    source : Path
        The file: experiments are looked for beside it first.

    Raises
    ------
    RequestError, SpecError, SpecErrors
        If experiments cannot be found or read, or changes of them are not allowed; of those that
        the collection itself has wrong, all.
    """
    place = places(source)
    levels: list[Level] = []
    problems: list[SpecError] = []
    for index in range(len(collection.experiments)):
        try:
            levels.append(_level(collection, index, source, place))
        except SpecError as error:
            problems += each(error)
    raise_all(problems)
    return _narrowed(collection, levels, place)


def _level(collection: Collection, index: int, source: Path, place: Places) -> Level:
    member = collection.experiments[index]
    above: KeyPath = ("experiments", index)
    where = place((*above, "spec"))
    experiment = load_named(member.spec, source, where)
    if not isinstance(experiment, Experiment):
        message = f"{member.spec}: a collection cannot contain {experiment.noun}"
        raise SpecError(message, where=where, hint="list its experiments one by one")
    changed = apply_overrides(
        experiment, member.settings, lambda at: f"{place((*above, 'set', at))}: set"
    )
    touched = _touched(experiment, changed, place((*above, "set")))
    name = collection.named(member, changed.name)
    named = touched.model_copy(update={"name": name})
    return Level(named, member.factor, member.level, member.settings)


def _touched(before: Experiment, after: Experiment, where: str) -> Experiment:
    """Keep of the matrix the cases that changed or vary, where nothing but cases did."""
    varied = [axis for axis in after.matrix.axes if axis not in before.matrix.axes]
    cases_alone = before.model_copy(
        update={"cases": after.cases, "matrix": _with_axes(before, after)}
    )
    if before == after or cases_alone != after or any(a.path[0] != "cases" for a in varied):
        return after
    has = touching(after)
    different = [
        name
        for name, case in after.cases.items()
        if case != before.cases.get(name) or any(axis in varied for axis in has.get(name, ()))
    ]
    cases = tuple(name for name in after.selected_cases if name in different)
    if not cases:
        message = f"changes only {', '.join(different)}, which matrix.case leaves out"
        raise SpecError(message, where=where)
    return narrow(after, {"case": ",".join(cases)})


def _with_axes(before: Experiment, after: Experiment) -> Matrix:
    """Give the matrix before with the axes after."""
    axes = {axis.written: axis.values for axis in after.matrix.axes}
    known = {name: getattr(before.matrix, name) for name in Matrix.model_fields}
    return Matrix.model_validate({**known, **axes})


def _narrowed(collection: Collection, levels: list[Level], place: Places) -> tuple[Level, ...]:
    only = {key: shown(value) for key, value in collection.only.items()}
    experiments = [level.experiment for level in levels]
    found, problems = [], []
    narrowed = narrow_each(
        experiments,
        only,
        collection.seeds,
        lambda key: place((key,) if key == "seeds" else ("only", key)),
    )
    for index, (level, experiment) in enumerate(zip(levels, narrowed, strict=True)):
        if experiment is None:
            message = f"experiments[{index}]: `only` selects none of its runs"
            problems.append(SpecError(message, where=place(("experiments", index))))
        else:
            found.append(replace(level, experiment=experiment))
    raise_all(problems)
    return tuple(found)
