"""Reading HLO text, optimised or not, as XLA has printed it from 2023 on.

A line is an instruction: ``%name = shape opcode(operands), key=value, ...``. The reader goes
through the text once with one pattern for what most lines look like; literals, tuples and nested
attributes are cut at their matching brackets. Names may stand with or without a percent sign, and
operands with or without their shapes. Every fault is an ImportFileError with line and column.

Source: the text form is what `HloModule::ToString` writes; https://openxla.org/xla/operation_semantics
says what the operations mean.
"""

from __future__ import annotations

import re
from functools import lru_cache

from systolic.errors import shortened
from systolic.layout import Shape
from systolic.layout.errors import LayoutError
from systolic.workload.importers.errors import fail_at
from systolic.workload.importers.hlo.module import Computation, HloInstruction, HloModule, HloShape

_HEADER = re.compile(r"\s*HloModule\s+([^\s,]+)")
_COMPUTATION = re.compile(r"[ \t]*(ENTRY\s+)?%?([\w.\-~]+)[ \t]*(?=[({])")
_HEAD = re.compile(r"[ \t]*(ROOT\s+)?%?([\w.\-~]+)\s*=\s*")
_ARRAY = re.compile(r"\w+\[[^\]]*\](?:\{[^}]*\})?")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_PLAIN = re.compile(r"[^(){}\"]*?\)")
_OPERAND = re.compile(r"%?([\w.\-~]+)$")
_KEY = re.compile(r"\s*,\s*([\w.\-]+)=")
_VALUE = re.compile(r"[^\s,{(\[\"]+")
_COMMENT = re.compile(r"/\*.*?\*/")
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_STOPS = re.compile(r'[(){}\[\]"]')
_NUMBER = re.compile(r"\d+")
MOST_NESTED = 64
"""The deepest nesting of brackets and of tuples that is read."""


def read_module(text: str) -> HloModule:
    """Return the module that a text spells.

    Raises:
        ImportFileError: the text is not HLO, is cut off, uses a name that it does not define, or
            defines one twice; with the line and the column.

    """
    return _Reader(_COMMENT.sub(lambda found: " " * len(found[0]), text)).module()


class _Reader:
    """Goes through a text once, from its header to the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._shapes: dict[str, HloShape] = {}

    def module(self) -> HloModule:
        header = _HEADER.match(self._text)
        if header is None:
            found = shortened(self._text[:40].strip() or "nothing")
            fail_at(
                self._text, 0, f'needs HLO text, which begins with "HloModule", found "{found}"'
            )
        end = self._line_end(header.end())
        layout = self._entry_layout(header.end(), end)
        self._at = end
        computations: dict[str, Computation] = {}
        entry: Computation | None = None
        while (found_one := self._computation()) is not None:
            made, is_entry = found_one
            if made.name in computations:
                fail_at(self._text, made.offset, f'computation "{made.name}" is there twice')
            if is_entry and entry is not None:
                fail_at(self._text, made.offset, f'a second ENTRY; "{entry.name}" is the first')
            computations[made.name] = made
            entry = made if is_entry else entry
        if entry is None:
            fail_at(self._text, len(self._text), "needs an ENTRY computation, found none")
        return HloModule(header[1], computations, entry, self._text, layout)

    def _line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _entry_layout(self, at: int, end: int) -> tuple[tuple[HloShape, ...], HloShape] | None:
        """Return the shapes of entry_computation_layout={(...)->...}, if the header has it."""
        key = self._text.find("entry_computation_layout={", at, end)
        if key < 0:
            return None
        begin = self._text.index("{", key)
        stop = self._closing(begin)
        parameters, after = self._shape(begin + 1)
        if not self._text.startswith("->", after):
            fail_at(self._text, after, 'needs "->" after the shapes of the parameters')
        result, last = self._shape(after + 2)
        if last != stop or not isinstance(parameters, tuple):
            fail_at(self._text, last, 'needs "}" after the shape of the result')
        return parameters, result

    # computations

    def _computation(self) -> tuple[Computation, bool] | None:
        """Return the next computation and whether it is the entry; tables between are skipped."""
        while self._at < len(self._text):
            end = self._line_end(self._at)
            head = _COMPUTATION.match(self._text, self._at, end)
            opens = head is not None and self._text[self._at : end].rstrip().endswith("{")
            if head is not None and (opens or head[1]):
                return self._body(head, end), head[1] is not None
            line = self._text[self._at : end].strip()
            if _HEAD.match(line) and _ARRAY.search(line):
                fail_at(self._text, self._at, "an instruction outside a computation")
            if line == "}":
                fail_at(self._text, end - 1, 'a "}" that nothing has opened')
            self._at = end + 1
        return None

    def _body(self, head: re.Match[str], end: int) -> Computation:
        name, offset = head[2], head.start(2)
        if not self._text[:end].rstrip().endswith("{"):
            fail_at(self._text, end, f'needs "{{" at the begin of computation "{name}"')
        self._at = end + 1
        made: dict[str, HloInstruction] = {}
        root: HloInstruction | None = None
        while True:
            line = self._skip_space()
            if line >= len(self._text):
                fail_at(
                    self._text, offset, f'computation "{shortened(name)}" has no "}}" at its end'
                )
            if self._text[line] == "}":
                self._at = self._line_end(line) + 1
                break
            instruction, is_root = self._instruction(line)
            if instruction.name in made:
                fail_at(self._text, line, f'"{shortened(instruction.name)}" is there twice')
            for operand in instruction.operands:
                if operand not in made:
                    what = f'"{shortened(instruction.name)}" takes "{shortened(operand)}"'
                    fail_at(self._text, line, f"{what}, which nothing before it makes")
            if is_root and root is not None:
                fail_at(self._text, line, f'a second ROOT; "{shortened(root.name)}" is the first')
            made[instruction.name] = instruction
            root = instruction if is_root else root
        if not made:
            fail_at(self._text, offset, f'computation "{shortened(name)}" has no instructions')
        given = tuple(made.values())
        self._check_parameters(given)
        return Computation(name, given, root or given[-1], offset)

    def _check_parameters(self, instructions: tuple[HloInstruction, ...]) -> None:
        """Raise if parameters are not numbered 0, 1, 2, ..., each once."""
        found = [each for each in instructions if each.opcode == "parameter"]
        numbers = sorted(int(each.argument) for each in found)
        if numbers != list(range(len(found))):
            fail_at(
                self._text,
                found[0].offset,
                f"needs parameters 0 to {len(found) - 1}, each once, found {numbers[:20]}",
            )

    def _skip_space(self) -> int:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at

    # instructions

    def _instruction(self, line: int) -> tuple[HloInstruction, bool]:
        """Return the instruction that begins at `line`, and whether it is the root."""
        text = self._text
        head = _HEAD.match(text, line)
        if head is None:
            found = shortened(text[line : self._line_end(line)])
            fail_at(text, line, f'needs an instruction "name = shape opcode(...)", found "{found}"')
        shape, at = self._shape(head.end())
        opcode = _OPCODE.match(text, at)
        if opcode is None:
            fail_at(text, at, f'"{shortened(head[2])}" needs an opcode and "(" behind its shape')
        opens = opcode.end() - 1
        plain = _PLAIN.match(text, opens + 1)
        closes = plain.end() - 1 if plain else self._closing(opens)
        inside = text[opens + 1 : closes]
        operands, argument = self._operands(opcode[1], inside, opens)
        attributes, self._at = self._attributes(closes + 1)
        name = head[2]
        made = HloInstruction(name, opcode[1], shape, operands, argument, attributes, head.start(2))
        return made, head[1] is not None

    def _operands(self, opcode: str, inside: str, opens: int) -> tuple[tuple[str, ...], str]:
        if opcode == "constant":
            return (), inside
        if opcode == "parameter":
            if not _NUMBER.fullmatch(inside.strip()):
                fail_at(self._text, opens, f'a parameter needs a number, found "{inside[:20]}"')
            return (), inside.strip()
        if not inside.strip():
            return (), ""
        names: list[str] = []
        for part in self._parts(inside):
            found = _OPERAND.search(part.strip())
            if found is None:
                fail_at(self._text, opens, f'needs names of operands, found "{shortened(part)}"')
            names.append(found[1])
        return tuple(names), ""

    def _parts(self, inside: str) -> list[str]:
        """Return what commas separate outside of brackets."""
        if not _STOPS.search(inside):
            return inside.split(",")
        parts, depth, begin = list[str](), 0, 0
        for at, letter in enumerate(inside):
            if letter in "({[":
                depth += 1
            elif letter in ")}]":
                depth -= 1
            elif letter == "," and depth == 0:
                parts.append(inside[begin:at])
                begin = at + 1
        return [*parts, inside[begin:]]

    def _attributes(self, at: int) -> tuple[dict[str, str], int]:
        """Return the attributes behind an instruction's operands, and where its line ends."""
        found: dict[str, str] = {}
        text = self._text
        while (key := _KEY.match(text, at)) is not None:
            begin = at = key.end()
            while at < len(text) and text[at] not in ",\n":  # such as b01f_01io->b01f, 3x3{...}
                if text[at] in '({["':
                    at = self._closing(at) + 1
                elif (word := _VALUE.match(text, at)) is not None:
                    at = word.end()
                else:
                    at += 1
            value = text[begin:at].strip()
            if not value:
                fail_at(text, begin, f"{key[1]}= has no value")
            if key[1] in found:
                fail_at(text, key.start(1), f"{key[1]}= is there twice")
            found[key[1]] = value
        end = self._line_end(at)
        if rest := text[at:end].strip():
            fail_at(text, at, f'needs the end of the line, found "{shortened(rest)}"')
        return found, end

    def _closing(self, opens: int) -> int:
        """Return where the bracket or the string that opens at `opens` is closed."""
        text, at, waiting = self._text, opens, list[str]()
        while True:
            stop = _STOPS.search(text, at)
            if stop is None:
                fail_at(text, opens, f'"{text[opens]}" is never closed')
            letter, at = stop[0], stop.end()
            if letter == '"':
                at = self._string_end(at)
                if not waiting:
                    return at - 1
            elif letter in _CLOSING:
                waiting.append(_CLOSING[letter])
                if len(waiting) > MOST_NESTED:
                    fail_at(text, opens, f"brackets may be nested {MOST_NESTED} deep")
            elif letter != waiting.pop():
                fail_at(text, stop.start(), f'found "{letter}" before the bracket is closed')
            elif not waiting:
                return at - 1

    def _string_end(self, at: int) -> int:
        begin = at
        while True:
            end = self._text.find('"', at)
            if end < 0:
                fail_at(self._text, begin, "a string is never closed")
            slashes = end - len(self._text[begin:end].rstrip("\\")) - begin
            if slashes % 2 == 0:
                return end + 1
            at = end + 1

    # shapes

    def _shape(self, at: int, depth: int = 0) -> tuple[HloShape, int]:
        """Return the shape that begins at `at`, and where it ends."""
        text = self._text
        if depth > MOST_NESTED:
            fail_at(text, at, f"tuples may be nested {MOST_NESTED} deep")
        if text.startswith("(", at):
            return self._tuple(at + 1, depth)
        found = _ARRAY.match(text, at)
        if found is None:
            fail_at(
                text,
                at,
                f'needs a shape, found "{shortened(text[at : at + 20].split(chr(10))[0])}"',
            )
        spelled = found[0]
        if spelled not in self._shapes:
            self._shapes[spelled] = self._array(spelled, at)
        return self._shapes[spelled], found.end()

    def _array(self, spelled: str, at: int) -> HloShape:
        if spelled == "token[]":
            return None
        if "<=" in spelled or "?" in spelled:
            fail_at(self._text, at, f"{spelled}: sizes that are not known until a run are not done")
        try:
            return _parsed(spelled)
        except LayoutError as error:
            fail_at(self._text, at, str(error))

    def _tuple(self, at: int, depth: int) -> tuple[HloShape, int]:
        elements = list[HloShape]()
        text = self._text
        while not text.startswith(")", at):
            shape, at = self._shape(at, depth + 1)
            elements.append(shape)
            if text.startswith(",", at):
                at += 1
                while text.startswith(" ", at):
                    at += 1
            elif not text.startswith(")", at):
                fail_at(text, at, 'needs "," or ")" in a tuple of shapes')
        return tuple(elements), at + 1


@lru_cache(maxsize=4096)
def _parsed(spelled: str) -> Shape:
    return Shape.parse(spelled)
