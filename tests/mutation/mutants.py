"""Which mutants does a module have, and how is each called?

A mutant's name is made of what it changes and where by name, not of line numbers: an entry in `equivalent.toml` holds
through changes elsewhere, and is void as soon as the code it judged is another.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Final

from tests.mutation.edits import Edit, Enums, Place, edits, enums_of, left_alone

ROOT: Final = Path(__file__).parents[2]
GROUPS: Final = {
    "core": "tests/core",
    "providers": "tests/providers",
    "store": "tests/store",
    "tasks": "tests/tasks",
}
"""Packages that are mutated, and whose tests have to notice."""
NOT_MUTATED: Final = ("__init__.py", "providers/fake/")
OF_THE_STORE: Final = frozenset({"store/fencing", "store/owing", "store/replacing", "store/unwritten"})
"""What decides there: the rest is kept by the histories of its model (`tests/store`)."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    id: str
    """Unique in the whole tree: module, function, change."""
    line: int
    lines: range
    """Of the statement: a test that runs none of these cannot notice."""
    function: tuple[str, int] | None
    """The outermost function around it, as compiled code names it; `None`: it is changed at import."""
    edit: Edit


class Module:
    """One file of the package, with its tree."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = ROOT / "controller" / f"{name}.py"
        self.source = self.path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)
        self.group = name.partition("/")[0]

    @property
    def dotted(self) -> str:
        return f"controller.{self.name.replace('/', '.')}"

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]

    def mutants(self) -> list[Mutant]:
        found: list[Mutant] = []
        seen: Counter[str] = Counter()
        for edit, at in _edits(self.tree, _At(), all_enums()):
            name = f"{self.name} {at.name or '-'}: {edit.text}"
            seen[name] += 1
            found.append(
                Mutant(
                    id=name if seen[name] == 1 else f"{name} #{seen[name]}",
                    line=at.line,
                    lines=at.lines,
                    function=at.function,
                    edit=edit,
                )
            )
        return found

    def compiled(self, mutant: Mutant | None) -> CodeType:
        """The whole module with this one change; the tree is as before afterwards."""
        if mutant is None:
            return compile(self.tree, str(self.path), "exec")
        old = mutant.edit.place.get()
        mutant.edit.place.put(mutant.edit.new)
        try:
            return compile(ast.fix_missing_locations(self.tree), str(self.path), "exec")
        finally:
            mutant.edit.place.put(old)

    def line_of(self, mutant: Mutant) -> str:
        return self.source.splitlines()[mutant.line - 1].strip()


@cache
def all_enums() -> Enums:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "controller").glob("**/*.py")):
        found |= enums_of(ast.parse(path.read_text(encoding="utf-8")))
    return found


def modules(asked: list[str]) -> list[Module]:
    """The files that a word names: `core`, `core/idle`, `tasks/executor`; all for none."""
    names = [
        str(path.relative_to(ROOT / "controller"))
        for group in GROUPS
        for path in sorted((ROOT / "controller" / group).glob("**/*.py"))
    ]
    mutated = [name.removesuffix(".py") for name in names if not any(skipped in name for skipped in NOT_MUTATED)]
    kept = [name for name in mutated if not name.startswith("store/") or name in OF_THE_STORE]
    for word in asked:
        if not any(f"{name}/".startswith(f"{word}/") for name in kept):
            raise SystemExit(f"no module {word}; there are {', '.join(kept)}")
    return [Module(name) for name in kept if not asked or any(f"{name}/".startswith(f"{word}/") for word in asked)]


@dataclass(frozen=True, slots=True)
class _At:
    name: str = ""
    function: tuple[str, int] | None = None
    line: int = 0
    lines: range = range(0)

    def inside(self, node: ast.AST) -> "_At":
        name, function, line = self.name, self.function, getattr(node, "lineno", self.line)
        lines = _lines(node) if isinstance(node, ast.stmt) else self.lines
        if isinstance(node, Function | ast.ClassDef):
            name = f"{name}.{node.name}" if name else node.name
        if isinstance(node, Function) and function is None:
            function = name, min([node.lineno, *(one.lineno for one in node.decorator_list)])
        return _At(name, function, line, lines)


def _lines(node: ast.stmt) -> range:
    """Of a statement that holds others, its head only."""
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    first = getattr(body[0], "lineno", None) or body[0].pattern.lineno
    return range(node.lineno, max(first, node.lineno + 1))


def _edits(node: ast.AST, at: _At, enums: Enums, *, around: _At | None = None) -> Iterator[tuple[Edit, _At]]:
    for place in _places(node):
        if left_alone(place):
            continue
        child = place.get()
        # Defaults are made where the function is made, so the outermost ones at import.
        inside = (around if around and place.field == "args" else at).inside(child)
        for edit in edits(place, enums):
            if inside.function is not None or not isinstance(child, ast.Call | ast.Expr):
                yield edit, inside
        yield from _edits(child, inside, enums, around=at if isinstance(child, Function) else None)


def _places(node: ast.AST) -> Iterator[Place]:
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield Place(node, field)
        elif isinstance(value, list):
            yield from (Place(node, field, at) for at, one in enumerate(value) if isinstance(one, ast.AST))
