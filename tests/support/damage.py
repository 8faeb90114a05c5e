"""Damaged files: a good one with a few seeded changes of the kinds that break readers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

ODD_NUMBERS = (
    b"0", b"-1", b"1", b"3", b"7", b"64", b"129", b"65536", b"2147483648", b"9223372036854775807",
    b"99999999999999999999", b"0.5", b"-0.0", b"1e999", b"nan", b"inf", b"0x10", b"1_0", b"",
)  # fmt: skip
ODD_WORDS = (
    b"=", b"[", b"]", b"[[", b"{", b"}", b'"', b"'", b'"""', b",", b".", b"#", b"\n", b"\r", b"\t",
    b"\x00", b"\xff", b"\xc3\xa9", b"\xe2\x80\xa8", b"true", b"[]", b"{}", b"1979-05-27", b"*",
    b"..", b"/", b"%s", b"f32[4,4]", b"chip", b"$x^{2$", b"[red]", b"a.b.c", b":T(2,2)", b"S(9)",
)  # fmt: skip
NUMBER = re.compile(rb"\d+(?:\.\d+)?")
WORD = re.compile(rb"[A-Za-z_]\w+")


def damaged(good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Return one of the good files with one to four changes."""
    data = good[rng.integers(len(good))]
    for _ in range(rng.integers(1, 5)):
        change = CHANGES[rng.integers(len(CHANGES))]
        data = change(data, good, rng)
    return data


def _place(data: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(len(data) + 1))


def _flip(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    if not data:
        return b"\x00"
    changed = bytearray(data)
    changed[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _cut(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    first = _place(data, rng)
    return data[:first] + data[first + int(rng.integers(1, 16)) :]


def _end(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    return data[: _place(data, rng)]


def _insert(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    first = _place(data, rng)
    return data[:first] + ODD_WORDS[rng.integers(len(ODD_WORDS))] + data[first:]


def _splice(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    other = good[rng.integers(len(good))]
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def _lines(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Return the data with a line removed, doubled or moved."""
    lines = data.split(b"\n")
    line = lines.pop(int(rng.integers(len(lines))))
    for _ in range(int(rng.integers(3))):
        lines.insert(int(rng.integers(len(lines) + 1)), line)
    return b"\n".join(lines)


def _number(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    return _replaced(data, NUMBER, ODD_NUMBERS[rng.integers(len(ODD_NUMBERS))], rng)


def _word(data: bytes, good: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Return the data with a word replaced by another one of a good file."""
    words = WORD.findall(good[rng.integers(len(good))]) or list(ODD_WORDS)
    return _replaced(data, WORD, words[rng.integers(len(words))], rng)


def _replaced(
    data: bytes, pattern: re.Pattern[bytes], new: bytes, rng: np.random.Generator
) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data + new
    place = found[rng.integers(len(found))]
    return data[: place.start()] + new + data[place.end() :]


CHANGES = (_flip, _cut, _end, _insert, _splice, _lines, _number, _number, _word, _word)
