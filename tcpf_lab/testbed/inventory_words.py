"""What a word of an inventory may be: checks that raise a sentence for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from tcpf_lab.spec.suggest import closest

#: Roles of the chain, along the path; a dumbbell has S0, S1, ... for S and D0, D1, ... for D.
CHAIN = ("S", "R0", "R1", "R2", "D")
_ROLE = r"[SD](?:0|[1-9][0-9]?)?|R[012]"
ROLE_SCHEMA = {"type": "string", "pattern": f"^(?:{_ROLE})$"}


def role(text: str) -> str:
    """Accept a role of a topology."""
    if re.fullmatch(_ROLE, text):
        return text
    meant = closest(text, CHAIN)
    hint = f" Did you mean '{meant}'?" if meant else ""
    raise ValueError(
        f"unknown role '{text}'; allowed: {', '.join(CHAIN)}; "
        f"of a dumbbell S0, S1, ... and D0, D1, ... instead of S and D.{hint}"
    )


def host(text: str) -> str:
    """Accept a host's name in the inventory."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", text):
        return text
    raise ValueError(f"'{text}' is not allowed; a host's name is letters, digits, '.', '_' and '-'")


def address(text: str) -> str:
    """Accept what ``ssh`` takes for a host, without user and port."""
    if "@" in text:
        raise ValueError(f"'{text}' names a user; write it with the key 'user'")
    if re.fullmatch(r"[^:]+:[0-9]+", text):
        raise ValueError(f"'{text}' names a port; write it with the key 'port'")
    if re.fullmatch(r"[A-Za-z0-9:][A-Za-z0-9._:%-]{0,252}", text):
        return text
    raise ValueError(f"'{text}' is no name or address of a host")


def user(text: str) -> str:
    """Accept the name of an account."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", text):
        return text
    raise ValueError(f"'{text}' is no name of an account")


def interface(text: str) -> str:
    """Accept a name that the kernel may give an interface."""
    if text in (".", "..") or not re.fullmatch(
        r"[^\s/:'\"\x00-\x1f-][^\s/:'\"\x00-\x1f]{0,14}", text
    ):
        raise ValueError(f"'{text}' is no interface; `ip -br link` on the host lists them")
    return text


def path(text: str) -> str:
    """Accept the path of a file here."""
    if not text.strip() or "\0" in text or "PRIVATE KEY" in text:
        raise ValueError("must be the path of a file")
    return text


def state_directory(text: str) -> str:
    """Accept a directory of the hosts that is the program's own."""
    place = PurePosixPath(text)
    if not re.fullmatch(r"/[A-Za-z0-9._/-]+", text) or ".." in place.parts or len(place.parts) < 3:
        raise ValueError(
            f"'{text}' is not allowed; it must be an absolute path of letters, digits and any of "
            "'._-', not directly below /, such as /var/lib/tcpf-lab"
        )
    return str(place)


def along_the_path(name: str) -> tuple[int, int]:
    """Order roles from the senders to the receivers."""
    kind = ("S", "R", "D").index(name[0])
    return kind, int(name[1:] or 0)


def missing_roles(roles: Iterable[str]) -> Iterator[str]:
    """Say which roles no host plays, of those that belong to what the others make."""
    played = set(roles)
    for name in CHAIN[1:4]:
        if name not in played:
            yield f"no host plays {name}"
    senders, receivers = _ends(played, "S"), _ends(played, "D")
    if "" in senders | receivers and len(senders | receivers) > 1:
        yield "S and D belong to a chain, S0, S1, ... and D0, D1, ... to a dumbbell: not both"
        return
    numbers = {int(number) for number in senders | receivers if number}
    wanted = [""] if not numbers else [str(number) for number in range(max(numbers) + 1)]
    for letter, there in (("S", senders), ("D", receivers)):
        for number in wanted:
            if number not in there:
                yield f"no host plays {letter}{number}"


def _ends(played: set[str], letter: str) -> set[str]:
    return {name[1:] for name in played if name[0] == letter}
