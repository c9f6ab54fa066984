"""Every case of ``kernel/tests/tc``, in one guest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tc_cases
from harness import KERNEL_TESTS
from run_maker import locked
from tc_cases import Case, Outcome, judge, missing

from tcpf_lab.base.errors import TestbedError
from tcpf_lab.testbed.uml import source
from tcpf_lab.testbed.uml.guest import UmlTestbed

CASES = tc_cases.load()


@pytest.fixture(scope="session")
def outcomes(uml: UmlTestbed, products: Path) -> dict[str, list[Outcome]]:
    """Return the outcomes of all cases; the workers of a session boot one guest together."""
    root = products / "tc-cases"
    with locked(products):
        if not root.exists():
            try:
                tc_cases.carry_out(uml, CASES, root)
            except TestbedError as error:
                (root / "error").write_text(str(error))
    return tc_cases.read_outcomes(root)


@pytest.fixture(scope="session")
def said_at_the_end(outcomes: dict[str, list[Outcome]], products: Path) -> str:
    error = products / "tc-cases/error"
    return error.read_text() if error.exists() else ""


@pytest.mark.uml
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, outcomes: dict[str, list[Outcome]], said_at_the_end: str) -> None:
    assert case.id in outcomes, f"the guest did not come to this case: {said_at_the_end}"
    judge(case, outcomes[case.id])


@pytest.mark.uml
def test_guest_with_all_cases_came_to_its_end(said_at_the_end: str) -> None:
    assert said_at_the_end == ""


@pytest.mark.nightly
@pytest.mark.uml
@pytest.mark.parametrize("version", ["6.1", "7.3"])
def test_cases_on_another_version(version: str, tmp_path: Path) -> None:
    """The kernel is built if need be: minutes, the first time."""
    outcomes = tc_cases.carry_out(UmlTestbed(source.build(version)), CASES, tmp_path / "run")
    failed = {}
    for case in CASES:
        try:
            judge(case, outcomes.get(case.id, []))
        except AssertionError as error:
            failed[case.id] = str(error)
    assert failed == {}


#: Kind -> what its own attributes begin with, and those that it shares with another kind.
KINDS = {
    "rio": ("TCA_RIO_", "TCA_PRECEDENCE_"),
    "frio": ("TCA_FRIO_", "TCA_PRECEDENCE_"),
    "tcpf": ("TCA_TCPF_", "TCA_MARKER_"),
    "token": ("TCA_TOKEN_", "TCA_MARKER_"),
    "delivery": ("TCA_DELIVERY_",) * 2,
}
#: Attributes that no request sets.
SHOWN_ONLY = {"UNSPEC", "PAD", "MAX", "TM", "XSTATS"}


def cases_of(kind: str, *categories: str) -> list[Case]:
    return [case for case in CASES if {kind, *categories} <= set(case.content["category"])]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_cases_of_every_category(kind: str) -> None:
    there = {word for case in cases_of(kind) for word in case.content["category"]}
    wanted = {"create", "show", "refuse", "netlink", "change", "traffic", "delete", "unload"}
    assert there - {kind} == wanted


@pytest.mark.parametrize(("kind", "prefixes"), KINDS.items())
def test_every_attribute_is_refused_something_by_the_kernel(
    kind: str, prefixes: tuple[str, str]
) -> None:
    numbers = tc_cases.attribute_numbers(KERNEL_TESTS.parent / "include/uapi")
    attributes = {
        name: number
        for name, number in numbers.items()
        if name.startswith(prefixes)
        and name.removeprefix("TCA_").partition("_")[2] not in SHOWN_ONLY
    }
    refused = " ".join(case.content["cmdUnderTest"] for case in cases_of(kind, "netlink", "refuse"))
    tried = {int(number) for number in re.findall(r"\b(\d+)=", refused)}
    assert [name for name, number in attributes.items() if number not in tried] == []


@pytest.mark.parametrize("kind", [*KINDS, "csma"])
def test_every_word_that_can_be_given_is_shown(kind: str) -> None:
    """The words of ``help`` and the keys that a case looks for are the same."""
    (everything,) = (case for case in CASES if case.id == f"{kind}-create-all")
    given = set(everything.content["cmdUnderTest"].split())
    if kind in ("rio", "frio", "delivery"):
        shown = everything.content["matchJSON"][0]["options"]
    elif kind == "csma":
        shown = everything.content["matchJSON"][0]["linkinfo"]["info_data"]
    else:
        shown = everything.content["matchJSON"][1]["actions"][0]
    (usage,) = (case for case in CASES if case.id == f"{kind}-help")
    words = set(usage.content["expMessage"].split(".*")[1:])
    assert words <= given
    assert words <= set(shown)


def outcome(code: int = 0, out: str = "", err: str = "") -> Outcome:
    return Outcome(code, out, err)


CASE = Case(
    "a-file",
    {
        "id": "x",
        "name": "a case",
        "category": [],
        "setup": ["prepare"],
        "cmdUnderTest": "do",
        "expExitCode": 0,
        "verifyCmd": "show",
        "matchJSON": [{"a": {"b": 1}}],
        "teardown": ["clean"],
    },
)
FINE = [outcome(), outcome(), outcome(out='[{"a": {"b": 1, "c": 2}}]'), outcome()]


def test_case_that_went_as_it_says_is_accepted() -> None:
    judge(CASE, FINE)


@pytest.mark.parametrize(
    "changed",
    [
        {0: outcome(1)},
        {1: outcome(2, err="no")},
        {2: outcome(out='[{"a": {"b": 2}}]')},
        {2: outcome(out="[]")},
        {3: outcome(1)},
    ],
)
def test_case_that_went_otherwise_is_refused(changed: dict[int, Outcome]) -> None:
    with pytest.raises(AssertionError):
        judge(CASE, [changed.get(number, outcome) for number, outcome in enumerate(FINE)])


def test_case_in_which_the_guest_ended_is_refused() -> None:
    with pytest.raises(AssertionError, match="the guest ended in this case"):
        judge(CASE, FINE[:2])


def test_json_is_compared_by_type_and_bound() -> None:
    assert missing({"a": 1}, {"a": 1, "b": 2}) == ""
    assert missing({"a": True}, {"a": 1}) != ""
    assert missing({"a": "> 5"}, {"a": 6}) == ""
    assert missing({"a": "> 5"}, {"a": 5}) != ""
    assert missing([1, 2], [1]) != ""
