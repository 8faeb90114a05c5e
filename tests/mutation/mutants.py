"""Small mistakes that could stand in a source file, found by ast and made in its text.

Only the text of one node changes, so line numbers before it stay and the rest is as it was.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
}
COUNTED = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
KINDS = (
    "comparison", "operator", "boolean", "negation", "name", "off by one", "constant", "removal",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One mistake. Columns are in characters; file is below the package; text is its first line."""

    file: str
    function: str
    kind: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    before: str
    after: str

    @property
    def package(self) -> str:
        """Return the first folder of the file."""
        return self.file.split("/")[0]

    @property
    def key(self) -> str:
        """Return what names the mistake, also in a tree that has changed elsewhere."""
        return f"{self.file}:{self.line}:{self.column} {self.kind}: {self.before} -> {self.after}"

    def applied(self, text: str) -> str:
        """Return the file's text with the mistake in it."""
        lines = text.splitlines(keepends=True)
        head = lines[self.line - 1][: self.column]
        tail = lines[self.end_line - 1][self.end_column :]
        return "".join([*lines[: self.line - 1], head, self.after, tail, *lines[self.end_line :]])

    def is_python(self, text: str) -> bool:
        """Return whether the file's text with the mistake in it can be read at all."""
        try:
            ast.parse(self.applied(text))
        except SyntaxError:
            return False
        return True


def mutants_of(path: Path, file: str) -> list[Mutant]:
    """Return every mistake of a source file, in the order of the text."""
    text = path.read_text(encoding="utf-8")
    return _Finder(text, file).run(ast.parse(text))


class _Finder:
    """Walks a tree and keeps the function it is in."""

    def __init__(self, text: str, file: str) -> None:
        self._lines, self._file = text.splitlines(keepends=True), file
        self._found: dict[Mutant, None] = {}
        self._scope: list[str] = []

    def run(self, tree: ast.Module) -> list[Mutant]:
        """Return the mistakes in a module."""
        self._visit(tree)
        return list(self._found)

    def _visit(self, node: ast.AST) -> None:
        is_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_scope:
            self._scope.append(node.name)  # type: ignore[attr-defined]
        for kind, place, replacement in _mistakes(node):
            self._add(kind, place, replacement)
        for child in _children(node):
            self._visit(child)
        if is_scope:
            self._scope.pop()

    def _add(self, kind: str, place: ast.AST, after: str) -> None:
        start, end = self._column(place, "start"), self._column(place, "end")
        line, end_line = place.lineno, place.end_lineno  # type: ignore[attr-defined]
        whole = self._lines[line - 1 : end_line]
        text = whole[0].strip()
        whole[-1] = whole[-1][:end]
        whole[0] = whole[0][start:]
        before = " ".join("".join(whole).split())
        where = (line, start, end_line, end)
        mutant = Mutant(self._file, ".".join(self._scope), kind, *where, text, before, after)
        self._found.setdefault(mutant)

    def _column(self, node: ast.AST, side: str) -> int:
        """Return a column in characters; ast counts bytes."""
        at_start = side == "start"
        number = node.lineno if at_start else node.end_lineno  # type: ignore[attr-defined]
        offset = node.col_offset if at_start else node.end_col_offset  # type: ignore[attr-defined]
        return len(self._lines[number - 1].encode()[:offset].decode())


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may be mutated below a node.

    Not: docstrings and other text, annotations, decorators, assertions, what an error says.
    """
    if isinstance(node, ast.Raise):
        return
    skipped = {"annotation", "returns", "decorator_list", "type_comment"}
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_left_alone(child):
                yield child


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.Assign) and "__all__" in ast.unparse(node.targets[0]):
        return True
    return isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom)


Mistakes = Iterator[tuple[str, ast.AST, str]]


def _mistakes(node: ast.AST) -> Mistakes:
    """Yield (kind, node to replace, its new text) for the mistakes that begin at a node."""
    for maker in MAKERS:
        yield from maker(node)


def _comparison(node: ast.AST) -> Mistakes:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            other = copy.deepcopy(node)
            other.ops[place] = COMPARISONS[type(operator)]()
            yield "comparison", node, _text(other)


def _operator(node: ast.AST) -> Mistakes:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        if isinstance(node, ast.BinOp) and _is_type_or_text(node):
            return
        other = copy.deepcopy(node)
        other.op = OPERATORS[type(node.op)]()
        yield "operator", node, _text(other)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            swapped = ast.BinOp(node.right, node.op, node.left)
            yield "operator", node, _text(swapped)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "operator", node, _text(node.operand)


def _boolean(node: ast.AST) -> Mistakes:
    if isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", node, _text(other)
        for place in range(len(node.values)):
            rest = [value for n, value in enumerate(node.values) if n != place]
            yield "boolean", node, _text(ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0])


def _negation(node: ast.AST) -> Mistakes:
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        yield "negation", test, _text(ast.UnaryOp(ast.Not(), test))


def _name(node: ast.AST) -> Mistakes:
    if isinstance(node, ast.Name) and node.id in NAMES:
        yield "name", node, NAMES[node.id]
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        other = copy.deepcopy(node)
        other.attr = NAMES[node.attr]
        yield "name", node, ast.unparse(other)


def _off_by_one(node: ast.AST) -> Mistakes:
    places: list[ast.expr | None] = []
    if isinstance(node, ast.Slice):
        places = [node.lower, node.upper]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("range", "np.arange"):
        places = list(node.args[:2])
    elif isinstance(node, ast.BinOp) and isinstance(node.op, COUNTED):
        places = [] if _is_type_or_text(node) else [node]
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE):
        places = [node.comparators[0]]
    for place in places:
        if place is None or isinstance(place, ast.Constant):
            continue
        for sign in "+-":
            yield "off by one", place, f"({ast.unparse(place)} {sign} 1)"


def _constant(node: ast.AST) -> Mistakes:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", node, str(not node.value)
        elif isinstance(node.value, int | float):
            yield "constant", node, f"({node.value + 1!r})"
            if node.value:
                yield "constant", node, f"({node.value - 1!r})"


def _removal(node: ast.AST) -> Mistakes:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    is_kept = isinstance(node, ast.Assign) and isinstance(
        node.targets[0], ast.Attribute | ast.Subscript
    )
    if is_call or is_kept or isinstance(node, ast.AugAssign | ast.Continue | ast.Break | ast.Raise):
        yield "removal", node, "pass"


MAKERS: tuple[Callable[[ast.AST], Mistakes], ...] = (
    _comparison, _operator, _boolean, _negation, _name, _off_by_one, _constant, _removal,
)  # fmt: skip


def _text(node: ast.AST) -> str:
    """Return a node as text that can stand where another expression stood."""
    text = ast.unparse(ast.fix_missing_locations(node))
    return text if isinstance(node, ast.stmt) else f"({text})"


def _is_type_or_text(node: ast.BinOp) -> bool:
    """Return whether the operands cannot be numbers: `int | None`, text put together."""
    sides = (node.left, node.right)
    if isinstance(node.op, ast.BitOr) and any(
        isinstance(side, ast.Constant) and side.value is None for side in sides
    ):
        return True
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )
