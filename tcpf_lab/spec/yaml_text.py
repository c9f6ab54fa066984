"""YAML text to plain data and line numbers, whatever the text is.

Nothing in a text makes reading it take long: how deep it nests, how much it holds and how much its
aliases repeat are bounded while it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tcpf_lab.spec.words import KeyPath

_PREFIX = "tag:yaml.org,2002:"
_TAGS = frozenset(("map", "seq", "str", "timestamp", "int", "float", "bool", "null"))
_DEEPEST = 20
#: Keys, values and lists of a text, and so many again that its aliases stand for: a list of the
#: thousand values that an axis may have is a tenth of it.
_MOST = 10_000
_TOO_DEEP = f"nested more than {_DEEPEST} levels deep"
_TOO_MUCH = f"holds more than {_MOST} keys and values"
#: An escape beyond the last character of Unicode.
_NO_CHARACTER = re.compile(r"\\U(?!000|0010)[0-9A-Fa-f]{8}")
#: YAML 1.1 has an octal number there, YAML 1.2 a decimal one.
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]")
#: Half of a character, which an escape can stand for and no file can hold.
_HALF = re.compile(r"[\ud800-\udfff]")
_HALVED = "an escape stands for half of a character; write the character itself"
#: A tag is not shown longer, and no number is written longer.
_LONGEST_TAG, _LONGEST_NUMBER = 80, 100


@dataclass
class Document:
    """A YAML text as data.

    ``data`` is made of dict, list, str, int, float, bool and None; ``lines`` gives the line,
    from 1, of every key and list item; ``problems`` are (line, key path, sentence).
    """

    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[tuple[int, KeyPath, str]] = field(default_factory=list)

    def line(self, path: KeyPath) -> int:
        """Line of a key, or of the nearest key above it that stands in the text."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str) -> Document:
    """Read one YAML 1.2 document; what is wrong with it is listed, not raised."""
    document = Document()
    tab = re.search(r"^ *\t", text, flags=re.MULTILINE)
    try:
        root = _parser().compose(text)
        if root is not None:
            document.data = _Reader(document).value(root, ())
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        if tab and line == text.count("\n", 0, tab.start()) + 1:
            document.problems.append((line, (), "a tab indents this line; use spaces"))
        else:
            document.problems.append((line, (), _sentence(error)))
    except YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        document.problems.append((line, (), f"not valid YAML: {str(error).splitlines()[0]}"))
    except (ValueError, OverflowError):  # the library does not check what an escape stands for
        found = _NO_CHARACTER.search(text)
        line = text.count("\n", 0, found.start() if found else 0) + 1
        what = f"{found[0]} is not a character" if found else "a number that cannot be read"
        document.problems.append((line, (), f"not valid YAML: {what}"))
    return document


def _parser() -> YAML:
    parser = YAML(typ="safe", pure=True)
    parser.Composer = _BoundedComposer
    return parser


class _BoundedComposer(Composer):
    """Stops at text that nests too deep or repeats too much; the library would take minutes."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False  # the later one counts, as YAML has it
        self._deep = self._count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._deep += 1
        self._count += 1
        if self._deep > _DEEPEST or self._count > _MOST:
            sentence = _TOO_DEEP if self._deep > _DEEPEST else _TOO_MUCH
            raise _RefusedError(problem=sentence, problem_mark=self.parser.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._deep -= 1
        return node


class _RefusedError(MarkedYAMLError):
    """Valid YAML beyond the limits of this module, which worded the problem."""


def _sentence(error: MarkedYAMLError) -> str:
    if isinstance(error, _RefusedError):
        return str(error.problem)
    if error.context == "expected a single document in the stream":
        return "not valid YAML: a second document starts here; a file holds one"
    problem, context = str(error.problem), str(error.context or "")
    if problem == "mapping values are not allowed here":
        problem = "a second ': ' in this line; put the value in quotes, or start a new line"
    problem = problem.replace("'<stream end>'", "the end of the file")
    for words, brackets in (("flow mapping", "{ }"), ("flow sequence", "[ ]")):
        if context.endswith(words) and error.context_mark:
            context = f"in the {brackets} that opens in line {error.context_mark.line + 1}"
    return f"not valid YAML: {context}{', ' if context else ''}{problem}"


class _Reader:
    """Turns nodes into plain data; records lines and problems."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._scalar: Callable[[Node], Any] = YAML(
            typ="safe", pure=True
        ).constructor.construct_object
        self._seen: dict[int, Any] = {}
        #: How much each node that was read stands for, aliases written out.
        self._held: dict[int, int] = {}
        self._open: set[int] = set()
        self._total = 0

    def value(self, node: Node, path: KeyPath) -> Any:
        """Plain data of a node; an alias gives the data of its anchor."""
        if id(node) in self._open:
            self._problem(node, path, "the alias refers to itself")
        elif id(node) not in self._seen:
            self._open.add(id(node))
            before, self._total = self._total, 1
            self._seen[id(node)] = self._read(node, path)
            self._held[id(node)], self._total = self._total, before + self._total
            self._open.remove(id(node))
        elif self._total + self._held[id(node)] > 2 * _MOST:
            self._problem(node, path, f"with its aliases written out, it {_TOO_MUCH}")
            return None
        else:
            self._total += self._held[id(node)]
        return self._seen.get(id(node))

    def _problem(self, node: Node, path: KeyPath, sentence: str) -> None:
        self._document.problems.append((node.start_mark.line + 1, path, sentence))

    def _read(self, node: Node, path: KeyPath) -> Any:
        if len(path) > _DEEPEST:
            self._problem(node, path[:4], _TOO_DEEP)
            return None
        if str(node.tag).removeprefix(_PREFIX) not in _TAGS:
            self._problem(node, path, f"the tag {str(node.tag)[:_LONGEST_TAG]} is not supported")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self._item(child, (*path, i)) for i, child in enumerate(node.value)]
        return self._plain(node, path)

    def _item(self, node: Node, path: KeyPath) -> Any:
        self._document.lines[path] = node.start_mark.line + 1
        return self.value(node, path)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._problem(key_node, path, "a key must be a word, not a list or a mapping")
                continue
            key = str(key_node.value)
            place = (*path, key)
            if _HALF.search(key):
                self._problem(key_node, path, _HALVED)
            elif key_node.tag == f"{_PREFIX}merge":
                self._problem(
                    key_node, path, "merge keys (<<) are not supported; write the keys out"
                )
            elif key in result:
                first = self._document.lines[place]
                self._problem(key_node, place, f"duplicate key; first given in line {first}")
            else:
                self._document.lines[place] = key_node.start_mark.line + 1
                result[key] = self.value(value_node, place)
        return result

    def _plain(self, node: Any, path: KeyPath) -> Any:
        if node.tag in (f"{_PREFIX}str", f"{_PREFIX}timestamp"):
            if _HALF.search(node.value):
                self._problem(node, path, _HALVED)
                return None
            return str(node.value)
        kind = str(node.tag).removeprefix(_PREFIX)
        if node.style:
            sentence = f"the tag !!{kind} is not supported; write the value without tag and quotes"
            self._problem(node, path, sentence)
            return None
        if _LEADING_ZERO.match(node.value) and kind in ("int", "float"):
            sentence = f"{node.value} starts with a zero; remove it, or write 0o10 for octal"
            self._problem(node, path, sentence)
            return None
        if len(node.value) <= _LONGEST_NUMBER:
            # A text that does not fit its tag raises any of these.
            with suppress(ValueError, LookupError, TypeError):
                return self._scalar(node)
        self._problem(node, path, "not a valid number")
        return None
