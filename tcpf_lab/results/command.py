"""Command lines as messages and reports print them: each runs when pasted where the user was."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from tcpf_lab.results.layout import RunFiles

#: What the user called the program, if that is not its name: ``./lab`` sets it.
CALLED = "TCPF_LAB_CALLED"
#: The testbed and the results directory that need not be named.
TESTBED, RESULTS = "uml", Path("results")
#: Characters of a line that has room on a page.
WIDTH = 88


def command(*words: str | Path) -> str:
    """Give a command line of this program, quoted for a shell.

    Parameters
    ----------
    words : str or Path
        The verb and what follows. A path below the working directory is written from there.

    Examples
    --------
    >>> command("run", "my file.yaml", "--seeds", "2")
    "tcpf-lab run 'my file.yaml' --seeds 2"
    """
    return shlex.join((os.environ.get(CALLED) or "tcpf-lab", *map(_word, words)))


def options(testbed: str = TESTBED, results: Path = RESULTS) -> Iterator[str | Path]:
    """Yield ``--testbed`` and ``--results``, each only where it is not the usual one."""
    if testbed != TESTBED:
        # An inventory may be a path; a name is one, too.
        yield from ("--testbed", Path(testbed))
    if results != RESULTS:
        yield from ("--results", results)


def again(run: RunFiles, *more: str) -> str:
    """Give what repeats one run where it is: its own ``run.yaml`` has all of it."""
    root = run.root.absolute()
    results = root.parents[min(2, len(root.parents) - 1)]
    usual = results == RESULTS.absolute()
    where = options(root.parent.name, RESULTS if usual else results)
    return command("run", root / run.spec.name, *where, *more)


def lines(text: str, width: int = WIDTH) -> tuple[str, ...]:
    r"""Break a command line for a page: all lines together are the same command for a shell.

    Examples
    --------
    >>> print(*lines("tcpf-lab run x.yaml --set 'title=two words'", 32), sep="\n")
    tcpf-lab run x.yaml \
      --set 'title=two words'
    """
    done, line = [], ""
    for unit in _units(text):
        if line and len(line) + len(unit) + 3 > width:
            done.append(f"{line} \\")
            line = " "
        line = f"{line} {unit}" if line else unit
        while len(line) > width - 2:
            part, line = _torn(line, width - 2)
            done.append(part)
    return (*done, line)


def _units(text: str) -> Iterator[str]:
    """Yield the words of a command line as they are typed, an option with its value."""
    words = [*map(shlex.quote, shlex.split(text))][::-1]
    while words:
        word = words.pop()
        valued = word.startswith("--") and words and not words[-1].startswith("--")
        yield f"{word} {words.pop()}" if valued else word


def _torn(line: str, width: int) -> tuple[str, str]:
    """Tear a word that is longer than a page is wide; a shell joins the parts again."""
    first, rest = line[:width], line[width:]
    single = double = False
    for character in first:
        single ^= character == "'" and not double
        double ^= character == '"' and not single
    if double:  # the quotes around a single one: three characters that stay together
        return _torn(line, first.rindex('"'))
    return (f"{first}'\\", f"'{rest}") if single else (f"{first}\\", rest)


def _word(word: str | Path) -> str:
    if isinstance(word, str):
        return word
    here = Path.cwd()
    path = word.relative_to(here) if word.is_relative_to(here) else word
    return f"./{path}" if str(path).startswith("-") else str(path)
