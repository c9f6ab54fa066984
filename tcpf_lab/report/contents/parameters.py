"""The parameters of the experiments as tables: the path, TCP, the traffic, and every case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from tcpf_lab.report.compare.sensitivity import Factor
from tcpf_lab.report.contents.model import listed
from tcpf_lab.report.contents.subject import Member, Subject
from tcpf_lab.report.table import NOTHING, Column, Group, Table, rows_of, table_of
from tcpf_lab.spec.explain import models_of
from tcpf_lab.spec.model import Experiment, to_data
from tcpf_lab.spec.reference_docs import descriptions
from tcpf_lab.spec.tcp import LINUX22_BEHAVIOURS, PROFILES, Tcp
from tcpf_lab.spec.words import SpecModel, keys

#: Keys of an experiment in the table of parameters; the cases have a table of their own.
_PARTS = ("topology", "tcp", "traffic")
#: Longest value that a table shows whole.
_LONGEST = 200


def parameter_tables(subject: Subject) -> tuple[Table, ...]:
    """Give the parameters of a report's experiments; of levels those that they are changes of."""
    members = (subject.unchanged,) if subject.factors else subject.members
    levels = (_levels(subject),) if subject.factors else ()
    axes = [factor for factor in _varied(subject) if factor.kind == "axis"]
    return (
        *(_common(members), *_profiles(members), _cases(members)),
        *levels,
        *((_axes(axes),) if axes else ()),
    )


def _varied(subject: Subject) -> tuple[Factor, ...]:
    return subject.sensitivity.factors if subject.sensitivity else ()


def _common(members: Sequence[Member]) -> Table:
    """Give topology, TCP and traffic; where experiments differ in a value, each with its own."""
    values = {m.name: dict(_flat(to_data(m.experiment), _PARTS)) for m in members}
    names = dict.fromkeys(name for value in values.values() for name in value)
    meanings = dict(item for member in members for item in _meanings(member.experiment))
    rows = [
        (
            name,
            _shared({who: own.get(name, NOTHING) for who, own in values.items()}),
            meanings[name],
        )
        for name in names
    ]
    caption = "The path, TCP and the traffic, by the keys of the experiment file."
    return table_of("parameters", caption, ("parameter", "value", "meaning"), rows)


def _shared(values: Mapping[str, str]) -> str:
    """Give the one value, or each with those that have it: ``yes (A, C), no (B, D)``."""
    owners: dict[str, list[str]] = {}
    for who, value in values.items():
        owners.setdefault(value, []).append(who)
    if len(owners) == 1:
        return next(iter(owners))
    return ", ".join(f"{value} ({', '.join(names)})" for value, names in owners.items())


def _flat(data: Mapping[str, Any], wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys of nested mappings as ``tcp.sack`` with their values as text."""
    for key in wanted:
        if isinstance(value := data.get(key), Mapping):
            yield from ((f"{key}.{inner}", text) for inner, text in _flat(value, list(value)))
        elif value is not None:
            yield key, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(_text, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."  # a trace has its digits


def _meanings(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Yield what the model says of every key, without the marks of code."""
    for part in _PARTS:
        yield from _described(part, getattr(experiment, part))


def _described(above: str, model: BaseModel) -> Iterator[tuple[str, str]]:
    assert isinstance(model, SpecModel)
    texts = descriptions(type(model))
    for name, field in keys(type(model)).items():
        inner, text = getattr(model, name, None), texts.get(name, "").replace("`", "")
        entries = inner if isinstance(inner, Mapping) else {}
        for key, value in entries.items():
            here = f"{above}.{name}.{key}"
            yield from _described(here, value) if isinstance(value, BaseModel) else [(here, text)]
        if not models_of(field):
            yield f"{above}.{name}", text
        elif isinstance(inner, BaseModel):
            yield from _described(f"{above}.{name}", inner)


def _profiles(members: Sequence[Member]) -> Iterator[Table]:
    """Yield what each TCP profile sets, with the reasons."""
    for name in dict.fromkeys(member.experiment.tcp.profile for member in members):
        own = [m for m in members if m.experiment.tcp.profile == name]
        profile = PROFILES[name]
        rows = [(item.name, item.value, item.reason) for item in profile.settings]
        if profile.initcwnd is not None:
            window = str(profile.initcwnd)
            rows.append(("initcwnd (route)", window, profile.window_reason))
        rows += _behaviours([tcp for m in own for tcp in m.experiment.tcps])
        words = dict.fromkeys(tcp.without_sack for m in own for tcp in m.experiment.tcps)
        yield table_of(
            f"tcp-{name.replace('.', '-')}",
            f"TCP profile {name}, at both ends. {profile.summary}",
            ("setting", "value", "reason"),
            rows,
            " ".join(filter(None, words)).replace("`", ""),
        )


def _behaviours(tcps: Sequence[Tcp]) -> Iterator[tuple[str, str, str]]:
    """Yield what of Linux 2.2 the kernel has, and whether in all of these or in some."""
    for what, reason in LINUX22_BEHAVIOURS.items():
        having = sum(what in tcp.behaviours for tcp in tcps)
        if having:
            yield f"linux22: {what}", "1" if having == len(tcps) else "1 in some", reason


def _cases(members: Sequence[Member]) -> Table:
    """Give marker and queue of every case; experiments with the same cases share them."""
    shared: dict[tuple[tuple[str, ...], ...], list[Member]] = {}
    for member in members:
        shared.setdefault(tuple(_case_rows(member)), []).append(member)
    groups = [
        Group(_said(own) if len(shared) > 1 else "", rows_of(rows)) for rows, own in shared.items()
    ]
    return Table(
        name="cases",
        caption="The cases: what marks the packets, and the queue under test.",
        columns=(Column("case"), Column("marker"), Column("queue")),
        groups=tuple(groups),
        note="Every default is written out, by the words of tc.",
    )


def _said(members: Sequence[Member]) -> str:
    names = [member.name for member in members]
    if not all(member.section.published for member in members):
        return listed(names)
    return f"{'Configuration' if len(names) == 1 else 'Configurations'} {listed(names)}"


def _case_rows(member: Member) -> Iterator[tuple[str, ...]]:
    cases = to_data(member.experiment)["cases"]
    for name in dict.fromkeys(cell.case for cell in member.section.source.cells):
        yield name, _words(cases[name].get("marker", "none")), _words(cases[name]["queue"])


def _words(value: Any) -> str:
    """Give ``rio: limit 500 kB, in_min 50 kB``; numbers stay with their units."""
    if not isinstance(value, Mapping):
        return str(value)
    rest = (f"{key} {_text(item)}".replace(" ", "\u00a0") for key, item in value.items())
    _, *words = rest
    return f"{value['kind']}: {', '.join(words)}" if words else str(value["kind"])


def _levels(subject: Subject) -> Table:
    """Give what each level of each factor sets."""
    rows = [
        (source.factor, source.level, ", ".join(source.settings))
        for source in (section.source for section in subject.sections)
        if source.factor
    ]
    caption = "What was varied, one factor at a time, everything else as it stands."
    return table_of("levels", caption, ("factor", "level", "sets"), rows)


def _axes(axes: Sequence[Factor]) -> Table:
    """Give the values of each axis of the matrix."""
    rows = [(one.name, listed((one.against, *one.levels))) for one in axes]
    caption = "What the matrix varies; the tables above have the values of the file."
    return table_of("axes", caption, ("what varies", "values"), rows)
