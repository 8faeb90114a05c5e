"""A place in a line of program text: what is there, what is needed, and where it went wrong.

Every error names file, line and column, what was needed and what was found. Knows words, numbers
and quoted strings; not what they mean (`systolic.isa.formats.write_text`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import NoReturn

from systolic.errors import ProgramError, listed, perhaps

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SPACE = re.compile(r"[ \t\r]*(?:#.*)?$|[ \t]+")
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"[-+]?(?:inf|nan|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[A-Za-z0-9_.+-]+|\S')
LONGEST_NUMBER = 40


class Cursor:
    """A line of text and how far it has been read. Blanks and comments are skipped."""

    __slots__ = ("line", "position", "source", "text")

    def __init__(self, source: str, line: int, text: str) -> None:
        self.source, self.line, self.text, self.position = source, line, text, 0
        self._skip()

    def _skip(self) -> None:
        blank = _SPACE.match(self.text, self.position)
        if blank:
            self.position = blank.end()

    @property
    def at_end(self) -> bool:
        """Return whether only blanks or a comment are left."""
        return self.position >= len(self.text)

    def found(self) -> str:
        """Return the next token as an error message shows it."""
        token = _TOKEN.match(self.text, self.position)
        return f'found "{token.group()[:60]}"' if token else "found the end of the line"

    def fail(self, needed: str, known: Collection[str] = ()) -> NoReturn:
        """Raise ProgramError at this place."""
        token = _TOKEN.match(self.text, self.position)
        names = [name for name in known if name not in WORD.findall(needed)]
        listing = f" (known: {listed(names, len(names))})" if names else ""
        meant = perhaps(token.group(), known) if token else ""
        self.refuse(f"needed {needed}, {self.found()}{listing}{meant}")

    def refuse(self, message: str) -> NoReturn:
        """Raise ProgramError with a message of its own at this place."""
        raise ProgramError(f"{self.source}:{self.line}:{self.position + 1}: {message}")

    def go_back(self, position: int) -> None:
        """Stand where the line has been read before: what is there is at fault."""
        self.position = position

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """Return what matches here and go past it, or return None."""
        match = pattern.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        if self.position < len(self.text) and self.text[self.position] in " \t\r#":
            self._skip()
        return match.group()

    def accept(self, literal: str, *, inside_word: bool = False) -> bool:
        """Go past a literal if it is here, and past blanks behind it unless it is inside a word."""
        if not self.text.startswith(literal, self.position):
            return False
        self.position += len(literal)
        if not inside_word:
            self._skip()
        return True

    def expect(self, literal: str) -> None:
        """Go past a literal that must be here."""
        if not self.accept(literal):
            self.fail(f'"{literal}"')

    def word(self, needed: str, known: Collection[str] = ()) -> str:
        """Return a word, quoted or not; one of the known words, if any are given."""
        start = self.position
        quoted = self.text.startswith('"', start)
        word = self.string(needed) if quoted else self.take(WORD)
        if word is None or (known and word not in known):
            self.position = start
            self.fail(needed, known)
        return word

    def string(self, needed: str) -> str:
        """Return a string in double quotes (JSON's rules)."""
        start = self.position
        try:
            return str(json.loads(self.take(_STRING) or ""))
        except ValueError:
            self.position = start
            self.fail(f"{needed} in double quotes")

    def integer(self, needed: str) -> int:
        """Return a whole number."""
        start = self.position
        token = self.take(_INTEGER)
        if token is None or len(token) > LONGEST_NUMBER:
            self.position = start
            self.fail(needed)
        return int(token)

    def number(self, needed: str) -> int | float:
        """Return a number: int if it is written as one, else float (inf and nan too)."""
        start = self.position
        token = self.take(_NUMBER)
        if token is None or len(token) > LONGEST_NUMBER:
            self.position = start
            self.fail(needed)
        return int(token) if token.lstrip("+-").isdigit() else float(token)

    def end(self) -> None:
        """Refuse anything that is left on the line."""
        if not self.at_end:
            self.fail("the end of the line")


def quoted(text: str) -> str:
    """Return a string in double quotes, in ASCII."""
    return json.dumps(text)


def spelled(text: str) -> str:
    """Return a string as a bare word where it is one, else in double quotes."""
    return text if WORD.fullmatch(text) else quoted(text)
