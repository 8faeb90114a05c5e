"""Cutting a shape's text into tokens with their columns. Not here: the grammar (``read``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from systolic.layout.errors import ShapeError
from systolic.layout.tile import INT64_MAX, INT64_MIN

MAX_TEXT = 65536
"""The longest text that is read, in characters."""

_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\n\f\v]+|/\*[^*]{0,40}\*/)"
    r"|(?P<integer>-?[0-9]+)"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign><=|.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text: ``kind`` is integer, word, sign or end; ``column`` counts from 1."""

    kind: str
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f'"{self.text[:24]}"'


class Tokens:
    """A reader over the tokens of one text; every error is a ShapeError with its column."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_TEXT:
            reason = f"a shape's text may have {MAX_TEXT} characters, found {len(text)}"
            raise ShapeError(text, MAX_TEXT + 1, reason)
        self.text = text
        self._tokens = [
            Token(str(match.lastgroup), match.group(), match.start() + 1)
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "blank"
        ]
        self._tokens.append(Token("end", "", len(text) + 1))
        self._next = 0

    @property
    def next(self) -> Token:
        """The token that would be taken next."""
        return self._tokens[self._next]

    @property
    def after_next(self) -> Token:
        """The token behind the next one."""
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    def take(self) -> Token:
        """Return the next token and move on; at the end, return the end again."""
        token = self.next
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def take_if(self, text: str) -> bool:
        """Take the next token if it reads ``text``."""
        found = self.next.kind != "end" and self.next.text == text
        if found:
            self.take()
        return found

    def expect(self, text: str, why: str) -> Token:
        """Take the token ``text``, or fail saying what was expected and found."""
        if self.next.kind == "end" or self.next.text != text:
            self.fail(self.next, f'expected "{text}" {why}, found {self.next}')
        return self.take()

    def integer(self, what: str) -> int:
        """Take an integer of at most 64 bits; leading zeros are allowed, a plus sign is not."""
        token = self.next
        if token.kind != "integer":
            self.fail(token, f"expected {what} (an integer), found {token}")
        digits = token.text.lstrip("-").lstrip("0")
        sign = -1 if token.text.startswith("-") else 1
        # Digits are counted first, because Python refuses to convert thousands of them.
        if len(digits) > 19 or not INT64_MIN <= sign * int(digits or "0") <= INT64_MAX:
            self.fail(token, f"{what} must fit a signed 64-bit integer")
        self.take()
        return sign * int(digits or "0")

    def integers(self, what: str) -> tuple[int, ...]:
        """Take one or more integers separated by commas."""
        found = [self.integer(what)]
        while self.take_if(","):
            found.append(self.integer(what))
        return tuple(found)

    def fail(self, token: Token, reason: str) -> NoReturn:
        """Raise a ShapeError at ``token``."""
        raise ShapeError(self.text, token.column, reason)
