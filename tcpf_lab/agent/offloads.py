"""What a device's driver does by itself, as ``ethtool -k`` has it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcpf_lab.agent import commands

_LINE = re.compile(r"(\t?)([\w-]+): (on|off)(.*)")


def show(device: str) -> str:
    """Give what is in force, in the words of ``ethtool -k``.

    Raises
    ------
    AgentError
        If there is no ``ethtool``, or the device is not there.
    """
    return commands.checked(["ethtool", "-k", device]).output


def wanted(device: str) -> dict[str, bool]:
    """Give the features that can be set, as somebody wants them, even if they are not in force."""
    return parse(show(device))


def parse(text: str) -> dict[str, bool]:
    """Read the features that can be set from what ``ethtool -k`` said.

    A heading such as ``tx-checksumming`` stands for those that are indented below it, and is left
    out if there are any.
    """
    found: dict[str, bool] = {}
    heading = ""
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            continue
        indent, name, state, more = match.groups()
        if indent:
            found.pop(heading, None)
        else:
            heading = name
        if "[fixed]" not in more:
            asked = re.search(r"\[requested (on|off)\]", more)
            found[name] = (asked[1] if asked else state) == "on"
    return found


def restore(device: str, before: dict[str, bool]) -> None:
    """Set all features that differ from ``before``.

    Raises
    ------
    AgentError
        If the driver refuses.
    """
    now = wanted(device)
    words = _words({name: on for name, on in before.items() if now.get(name, on) != on})
    if words:
        commands.checked(["ethtool", "-K", device, *words])


def switch_off(device: str, features: Sequence[str]) -> str:
    """Switch features off, and give what is in force then.

    Raises
    ------
    AgentError
        If the driver refuses.
    """
    now = show(device)
    on = [name for name in features if not re.search(rf"^{re.escape(name)}: off", now, re.M)]
    if not on:
        return now
    commands.checked(["ethtool", "-K", device, *_words(dict.fromkeys(on, False))])
    return show(device)


def _words(states: dict[str, bool]) -> list[str]:
    return [word for name, on in states.items() for word in (name, "on" if on else "off")]
