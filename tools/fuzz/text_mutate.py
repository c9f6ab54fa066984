"""Mutations of text files: of words, values and lines, besides those of bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

#: A word or a number with its unit, as YAML and JSON have them.
_WORD = re.compile(rb'[^\s\[\]{},:#&*"]+(?: [kMG]?(?:B|bit)| [mu]?s)?')
#: What takes the place of a word: other kinds, other sizes, other languages, other intentions.
WORDS = tuple(
    word.encode("utf-8", "surrogatepass")
    for word in (
        *("", "~", "null", "true", "-1", "0", "1", "1.5", '"1.5"', "[]", "{}", "[[]]", "{a: b}"),
        *("1e999", "-.inf", ".nan", "NaN", "Infinity", "-0", "1e-400", "0x" + "f" * 5000),
        *("9" * 25, "9" * 5000, "18446744073709551616", "-9223372036854775809", "1_000", "0o17"),
        *('"\\0"', '"\\ud800"', '"\\u202e"', '"\\n"', '"\\e[2J"', '"\\x85"', '"\\UFFFFFFFF"'),
        *("!!python/object:os.system x", "!!binary aGk=", "!!set {a}", '!!float "x"', '!!int ""'),
        *(
            '!!bool "x"',
            "!!null x",
            "!!timestamp x",
            "!!str 5",
            "!foo bar",
            "&a [*a]",
            "*no",
            "&x 1",
        ),
        *(
            "2001-01-01",
            "10 Mbit",
            "10 furlong",
            "1 kB..3 kB:1 kB",
            "1..5",
            "1..1e9",
            "0.1..0.3:0.1",
        ),
        *("../../x", "/etc/passwd", "$(id)", "`id`", "';'", "-x", '"' + "x" * 300 + '"', "CON"),
        *(".partial", "all", '"*"', "<<", "=", "|\n  x", "? x", "- a", "%", "@", "---", "...", "#"),
        *(
            "{kind: red}",
            "{kind: [a]}",
            "{kind: null}",
            "[10 kB, 10 kB]",
            "[1, 1.0]",
            "[.nan, .nan]",
        ),
        *(
            "٢",
            "１２ kB",
            "1\u00a0kB",
            "\ud800",
            "\x00",
            "\x7f",
            "\u2028",
            "\ufeff",
            "a\tb",
            "1:30",
        ),
    )
)
_BYTES = b"[]{}:,\n \t-#&*!|>'\"%@`\0\x7f\x85\xff\xc3\\0129eE."


def mutate(data: bytes, seed: int, most: int = 1 << 20) -> bytes:
    """Change one to four things.

    Parameters
    ----------
    data : bytes
        Any.
    seed : int
        What is done is a function of it.
    most : int
        The result is cut to so many bytes.
    """
    rng = random.Random(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_WAYS)(data, rng)
    return data[:most]


def _another_word(data: bytes, rng: random.Random) -> bytes:
    return _replace(data, rng, rng.choice(WORDS))


def _a_word_of_its_own(data: bytes, rng: random.Random) -> bytes:
    found = _WORD.findall(data)
    return _replace(data, rng, rng.choice(found)) if found else data


def _replace(data: bytes, rng: random.Random, word: bytes) -> bytes:
    found = list(_WORD.finditer(data))
    if not found:
        return data + word
    place = rng.choice(found)
    return data[: place.start()] + word + data[place.end() :]


def _a_byte(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.choice(_BYTES)]) + data[at + rng.randrange(2) :]


def _less(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.randrange(80) :]


def _a_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"\n".join(lines)


def _much_of_it(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    piece = data[at : at + rng.choice((1, 2, 5, 30))] or b"["
    return data[:at] + piece * rng.choice((3, 30, 1000)) + data[at:]


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_another_word, _another_word, _another_word, _a_word_of_its_own, _a_word_of_its_own),
    *(_a_byte, _less, _a_line, _much_of_it),
)
