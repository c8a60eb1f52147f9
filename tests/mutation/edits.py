"""In which small ways can a piece of code be wrong?

Each edit is one slip that a person could make or a merge could leave: a boundary off by one instant, a condition that
always or never holds, a guard dropped, a number one too high, an element missing from a table, another member of the
same enum, a call that is not made. Left alone are what mypy and ruff answer for (annotations, decorators), strings,
logging and asserts. Nothing is imported: edits are made on the syntax tree.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

TEXT_MAX: Final = 110


@dataclass(frozen=True, slots=True)
class Place:
    """A field of a node, or one element of it."""

    parent: ast.AST
    field: str
    index: int | None = None

    def get(self) -> Any:
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    def put(self, new: Any) -> None:
        if self.index is None:
            setattr(self.parent, self.field, new)
        else:
            getattr(self.parent, self.field)[self.index] = new


@dataclass(frozen=True, slots=True)
class Edit:
    """Put `new` at `place`; `text` says so for people."""

    place: Place
    new: Any
    text: str


Enums = Mapping[str, list[str]]
"""The members of every enum of the tree, by its name."""


def enums_of(tree: ast.AST) -> dict[str, list[str]]:
    """The enums that a file defines, and other names that it gives to one."""
    found = {
        node.name: [
            target.id
            for statement in node.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        ]
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(one).endswith("Enum") for one in node.bases)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=name)) if name in found:
                found[alias] = found[name]
    return found


def edits(place: Place, enums: Enums) -> Iterator[Edit]:
    """Every way in which the node at this place can be wrong, its children aside."""
    node = place.get()
    for kind, make in EDITS.items():
        if isinstance(node, kind):
            yield from make(node, place)
    if isinstance(node, ast.Attribute):
        yield from _other_member(node, place, enums)


UNTOUCHED: Final = frozenset({"log", "_log", "assert_never", "super()"})


def left_alone(place: Place) -> bool:
    """What other checks answer for, or what only people read."""
    node = place.get()
    if place.field in {"annotation", "returns", "decorator_list", "bases", "type_params"}:
        return True
    if isinstance(node, ast.Call) and not UNTOUCHED.isdisjoint(ast.unparse(node.func).split(".")):
        return True
    return isinstance(node, ast.Assert | ast.JoinedStr)


def _instead(place: Place, new: ast.AST, *, before: str = "") -> Edit:
    old = place.get()
    return Edit(place, ast.copy_location(new, old), f"{short(before or ast.unparse(old))} → {short(ast.unparse(new))}")


def short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= TEXT_MAX else f"{flat[: TEXT_MAX - 20]} … {flat[-16:]}"


OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
BOUNDARIES: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _comparison(node: ast.Compare, place: Place) -> Iterator[Edit]:
    for at, op in enumerate(node.ops):
        if place.field == "test" and not isinstance(op, BOUNDARIES):
            continue  # always and never say more
        ops = [*node.ops[:at], OPPOSITE[type(op)](), *node.ops[at + 1 :]]
        yield _instead(place, ast.Compare(left=node.left, ops=ops, comparators=node.comparators))


def _connective(node: ast.BoolOp, place: Place) -> Iterator[Edit]:
    other: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield _instead(place, ast.BoolOp(op=other, values=node.values))
    for at in range(len(node.values)):
        rest = [*node.values[:at], *node.values[at + 1 :]]
        yield _instead(place, rest[0] if len(rest) == 1 else ast.BoolOp(op=node.op, values=rest))


def _negation(node: ast.UnaryOp, place: Place) -> Iterator[Edit]:
    if isinstance(node.op, ast.Not) and place.field != "test":
        yield _instead(place, node.operand)


def _condition(node: ast.If | ast.IfExp | ast.While, place: Place) -> Iterator[Edit]:
    if isinstance(node.test, ast.Constant):
        return
    word = "while" if isinstance(node, ast.While) else "if"
    for value in (False,) if isinstance(node, ast.While) else (True, False):
        test = ast.copy_location(ast.Constant(value=value), node.test)
        yield Edit(Place(node, "test"), test, f"{word} {short(ast.unparse(node.test))} → {word} {value}")


def _filter(node: ast.comprehension, place: Place) -> Iterator[Edit]:
    for at, test in enumerate(node.ifs):
        for value in (True, False):
            yield Edit(
                Place(node, "ifs", at),
                ast.copy_location(ast.Constant(value=value), test),
                f"for … if {short(ast.unparse(test))} → if {value}",
            )


def _constant(node: ast.Constant, place: Place) -> Iterator[Edit]:
    value: object = node.value
    match value:
        case bool():
            other: bool | float | str = not value
        case int() | float():
            other = value + 1
        case str() if isinstance(place.parent, ast.Call) and ast.unparse(place.parent.func) == "Decimal":
            try:
                other = str(Decimal(value) + 1)
            except InvalidOperation:
                return
        case _:
            return
    yield Edit(place, ast.copy_location(ast.Constant(value=other), node), _told(place.parent, value, other))


def _told(parent: ast.AST, value: object, other: object) -> str:
    match parent:
        case ast.keyword(arg=name):
            return f"{name}={value!r} → {other!r}"
        case ast.AnnAssign(target=target):
            return f"{ast.unparse(target)} = {value!r} → {other!r}"
        case ast.expr():
            return f"{value!r} → {other!r} in {short(ast.unparse(parent))}"
        case _:
            return f"{value!r} → {other!r}"


ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
}


def _arithmetic(node: ast.BinOp, place: Place) -> Iterator[Edit]:
    other = ARITHMETIC.get(type(node.op))
    if other is None or (isinstance(node.op, ast.BitOr) and _names_types(node)):
        return
    yield _instead(place, ast.BinOp(left=node.left, op=other(), right=node.right))


def _names_types(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _names_types(left) or _names_types(right)
        case ast.Name(id=name):
            return name[:1].isupper() and not name.isupper()
        case _:
            return False


SWAPPED: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _call(node: ast.Call, place: Place) -> Iterator[Edit]:
    called = ast.unparse(node.func)
    if called in SWAPPED:
        yield _instead(
            place, ast.Call(func=ast.Name(id=SWAPPED[called], ctx=ast.Load()), args=node.args, keywords=node.keywords)
        )
    for at, one in enumerate(node.keywords):
        if one.arg is not None:
            rest = [*node.keywords[:at], *node.keywords[at + 1 :]]
            yield Edit(Place(node, "keywords"), rest, f"{short(called)}(…) without {short(ast.unparse(one))}")


def _elements(node: ast.Set | ast.List | ast.Tuple, place: Place) -> Iterator[Edit]:
    if isinstance(node, ast.Tuple) and (place.field in {"slice", "value", "target"} or isinstance(node.ctx, ast.Store)):
        return  # its length is its type
    if isinstance(place.parent, ast.AnnAssign | ast.Assign) and isinstance(node, ast.Tuple):
        return
    for at, one in enumerate(node.elts):
        if len(node.elts) > 1:
            rest = [*node.elts[:at], *node.elts[at + 1 :]]
            yield Edit(Place(node, "elts"), rest, f"without {short(ast.unparse(one))} in {short(ast.unparse(node))}")


def _entries(node: ast.Dict, place: Place) -> Iterator[Edit]:
    for at, key in enumerate(node.keys):
        new = ast.Dict(keys=[*node.keys[:at], *node.keys[at + 1 :]], values=[*node.values[:at], *node.values[at + 1 :]])
        what = "the spread one" if key is None else ast.unparse(key)
        yield Edit(place, ast.copy_location(new, node), f"without {short(what)} in {short(ast.unparse(node))}")


def _other_member(node: ast.Attribute, place: Place, enums: Enums) -> Iterator[Edit]:
    members = enums.get(node.value.id, []) if isinstance(node.value, ast.Name) else []
    if node.attr in members and len(members) > 1:
        other = members[(members.index(node.attr) + 1) % len(members)]
        yield _instead(place, ast.Attribute(value=node.value, attr=other, ctx=node.ctx))


def _returned(node: ast.Return, place: Place) -> Iterator[Edit]:
    if node.value is None:
        yield _instead(place, ast.Pass())
    elif not isinstance(node.value, ast.Constant):
        yield _instead(place, ast.Return(value=ast.Constant(value=None)))


def _not_done(node: ast.stmt, place: Place) -> Iterator[Edit]:
    yield _instead(place, ast.Pass())


def _effect(node: ast.Expr, place: Place) -> Iterator[Edit]:
    called = node.value.value if isinstance(node.value, ast.Await) else node.value
    if isinstance(called, ast.Call) and not left_alone(Place(node, "value")):
        yield _instead(place, ast.Pass())


def _kept_in(node: ast.Assign, place: Place) -> Iterator[Edit]:
    if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
        yield _instead(place, ast.Pass())


def _cases(node: ast.Match, place: Place) -> Iterator[Edit]:
    for at, case in enumerate(node.cases):
        if case.guard is not None:
            yield Edit(Place(case, "guard"), None, f"case … if {short(ast.unparse(case.guard))} → case …")
        if not isinstance(case.pattern, ast.MatchAs) or case.pattern.pattern is not None:
            rest = [*node.cases[:at], *node.cases[at + 1 :]]
            if rest:
                yield Edit(Place(node, "cases"), rest, f"without case {short(ast.unparse(case.pattern))}")


EDITS: Final[dict[Any, Callable[..., Iterator[Edit]]]] = {
    ast.Compare: _comparison,
    ast.BoolOp: _connective,
    ast.UnaryOp: _negation,
    (ast.If, ast.IfExp, ast.While): _condition,
    ast.comprehension: _filter,
    ast.Constant: _constant,
    ast.BinOp: _arithmetic,
    ast.Call: _call,
    (ast.Set, ast.List, ast.Tuple): _elements,
    ast.Dict: _entries,
    ast.Return: _returned,
    (ast.Raise, ast.Continue, ast.Break, ast.AugAssign, ast.Delete): _not_done,
    ast.Expr: _effect,
    ast.Assign: _kept_in,
    ast.Match: _cases,
}
