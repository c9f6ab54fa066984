"""Why a request failed, in the parts that a reply has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TAIL_LINES = 20


class AgentError(Exception):
    """A request that could not be carried out.

    Parameters
    ----------
    message : str
        What went wrong.
    command : sequence of str, optional
        The command that failed.
    status : int, optional
        Its exit status, negative for a signal.
    output : str, optional
        What it said; the last lines are kept.
    """

    def __init__(
        self,
        message: str,
        command: Sequence[str] | None = None,
        status: int | None = None,
        output: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.command = None if command is None else list(command)
        self.status = status
        self.output = tail(output)

    def reply(self) -> dict[str, Any]:
        """Give it as the ``error`` of a reply."""
        return {
            "message": self.message,
            "command": self.command,
            "status": self.status,
            "output": self.output,
        }


class Cancelled(AgentError):  # noqa: N818 - it is not the request that is wrong
    """A request that was given up because the run is being ended."""

    def __init__(self) -> None:
        super().__init__("given up: the run is being ended")


class Left(Exception):  # noqa: N818 - says what is left, which is not always an error
    """Something that could not be undone, and is left as it is."""


class Lost(Left):
    """Something that is no longer there to be undone, which only a person can mend."""


def tail(text: str) -> str:
    """Give the last lines of a text."""
    return "\n".join(text.rstrip().splitlines()[-TAIL_LINES:])
