"""README.md and docs/**/*.md as data: fenced blocks with their kind, and the commands in them.

A kind is decided by what stands in a block, never guessed: a block of no known kind is an error,
so that nothing is shown to a reader that no test looks at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from systolic.isa.opcodes import OPCODES

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

Kind = Literal["listing", "commands", "program", "instructions", "python", "toml", "text"]
TOOLS = ("systolic", "make", "python", "pytest")
"""The first words of a line, or of a code span, by which it is a command."""

ELISION = "..."
"""A line of a listing that is nothing but this stands for any number of lines, none included."""

_FENCED = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `line` is that of its opening fence, counted from 1."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def where(self) -> str:
        """Return page and line, as an editor takes them."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def lines(self) -> list[str]:
        """Return the lines that hold something."""
        return [line for line in self.text.splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class Listing:
    """A command after `$` and the lines below it, which are what it prints."""

    block: Block
    command: str
    output: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A command without its output: a line of a block, or a span of the text."""

    where: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1].strip(), found[2])
        for found in _FENCED.finditer(text)
    ]


def kind_of(block: Block) -> Kind:
    """Return the kind of a block.

    Raises:
        ValueError: nothing here knows how to check such a block.

    """
    if block.info in ("python", "toml"):
        return "python" if block.info == "python" else "toml"
    if block.info == "text":
        if any(is_command(line.removeprefix("$ ")) for line in block.lines):
            raise ValueError(f"{block.where}: a block of text that holds a command")
        return "text"
    if block.info in ("", "console") and block.lines:
        return _kind_by_lines(block)
    raise ValueError(f"{block.where}: no test knows a block of {block.info or 'nothing'}")


def _kind_by_lines(block: Block) -> Kind:
    first, words = block.lines[0], [line.split()[0] for line in block.lines]
    if first == "systolic program 1":
        return "program"
    if first.startswith("$ "):
        return "listing"
    if all(is_command(line) for line in block.lines):
        return "commands"
    if set(words) <= {opcode.mnemonic for opcode in OPCODES}:
        return "instructions"
    raise ValueError(f'{block.where}: no test knows a block that begins with "{first}"')


def is_command(line: str) -> bool:
    """Return whether a line is a tool's name and arguments; the name alone is the package."""
    tool, _, arguments = line.partition(" ")
    return tool in TOOLS and (bool(arguments) or tool == "make")


def listings(block: Block) -> list[Listing]:
    """Return the commands of a listing, each with the lines it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return [Listing(block, command, tuple(lines)) for command, lines in found]


def commands(page: Path) -> list[Command]:
    """Return the commands of a page that stand without output: in blocks, and in the text."""
    found = [
        Command(f"{page.relative_to(ROOT)}:{block.line + 1 + place}", line)
        for block in blocks(page)
        if kind_of(block) == "commands"
        for place, line in enumerate(block.text.splitlines())
        if line.strip()
    ]
    text = page.read_text(encoding="utf-8")
    prose = _FENCED.sub(lambda fenced: "\n" * fenced[0].count("\n"), text)
    for number, line in enumerate(prose.splitlines(), 1):
        where = f"{page.relative_to(ROOT)}:{number}"
        if line.startswith("    ") and is_command(line.strip()):
            raise ValueError(f"{where}: a command in an indented block; fence it")
        found += [Command(where, span) for span in _SPAN.findall(line) if is_command(span)]
    return found


def matches(shown: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Return whether lines are as shown, elisions standing for any lines."""
    if not shown:
        return not printed
    if shown[0].strip() == ELISION:
        return any(matches(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


def rewrite(listing: Listing, printed: tuple[str, ...]) -> None:
    """Write in its page that a listing's command prints these lines; elisions are not kept."""
    page = listing.block.page
    text, command = page.read_text(encoding="utf-8"), f"$ {listing.command}"
    old = "\n".join([command, *listing.output]) + "\n"
    assert text.count(old) == 1, f"{listing.block.where}: not there, or twice: {command}"
    page.write_text(text.replace(old, "\n".join([command, *printed]) + "\n"), encoding="utf-8")
