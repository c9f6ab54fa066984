"""The targets of fuzzing that are text, by name; each loads no more than it needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

#: The module that has the function of that name.
TARGETS: Mapping[str, str] = {
    "spec": "tools.fuzz.text_subject",
    "inventory": "tools.fuzz.text_subject",
    "records": "tools.fuzz.run_subject",
    "metrics": "tools.fuzz.run_subject",
}
#: Those of whole runs, which have to be made first.
OF_RUNS = ("records", "metrics")


def subject(name: str) -> Callable[[bytes], str]:
    """Give what a target does with an input: it returns an answer, or raises what is a fault."""
    found: Callable[[bytes], str] = getattr(importlib.import_module(TARGETS[name]), name)
    return found
