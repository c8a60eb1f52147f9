"""Which keys does the environment set instead of the file?

`GPUWARDEN_` and the key's path in capitals, its parts joined by two underscores: GPUWARDEN_USD_PER_DAY,
GPUWARDEN_POLICY__SETTLE, GPUWARDEN_MODELS__QWEN__CONTEXT. What stands in an alias beside letters and digits is written
as one underscore. A name that is unknown, or means a key of two models, is refused: no limit may be silently absent.
"""

import copy
import re
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.settings.problems import Problem, nearest
from controller.settings.source import Keys, Source, quoted

PREFIX: Final = "GPUWARDEN_"
_RESERVED: Final = re.compile(r"GPUWARDEN_(CONFIG|DEMO_[A-Z0-9_]+)", re.ASCII)
"""Read by commands, and no keys of the config."""


def overridden(source: Source, environment: Mapping[str, str], root: type[BaseModel]) -> tuple[Source, list[Problem]]:
    """The source with the environment's values in it, and what is wrong with their names."""
    known: dict[str, list[tuple[Keys, FieldInfo]]] = {}
    for variable, meant in _variables(root, (), source.tree):
        known.setdefault(variable, []).append(meant)
    tree = copy.deepcopy(source.tree)
    used: dict[Keys, str] = {}
    problems: list[Problem] = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or _RESERVED.fullmatch(variable):
            continue
        found = known.get(variable, [])
        if len(found) != 1:
            problems.append(_manifold(variable, found) if found else _unknown(variable, known))
            continue
        keys, entry = found[0]
        _put(tree, keys, _value(environment[variable], entry))
        used[keys] = variable
    return Source(file=source.file, text=source.text, tree=tree, overrides=used), problems


def _unknown(variable: str, known: Mapping[str, object]) -> Problem:
    hint = nearest(variable, known)
    return Problem(file="environment", line=None, key=variable, value=None, why="no such key", mend=hint)


def _manifold(variable: str, found: Sequence[tuple[Keys, FieldInfo]]) -> Problem:
    meant = " and ".join(".".join(map(quoted, keys)) for keys, _ in found)
    mend = "rename one of the models, or write it in the file"
    return Problem(file="environment", line=None, key=variable, value=None, why=f"means {meant}", mend=mend)


def _variables(
    section: type[BaseModel], above: Keys, tree: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[Keys, FieldInfo]]]:
    for name, entry in section.model_fields.items():
        key = entry.alias or name
        keys = (*above, key)
        if (nested := nested_section(entry)) is not None:
            yield from _variables(nested, keys, {})
        elif (named := named_section(entry)) is not None:
            below = tree.get(key)
            for alias in below if isinstance(below, Mapping) else ():
                yield from _variables(named, (*keys, alias), {})
        else:
            yield variable_of(keys), (keys, entry)


def variable_of(keys: Keys) -> str:
    return PREFIX + "__".join(re.sub(r"[^A-Za-z0-9]", "_", key).upper() for key in keys)


def nested_section(entry: FieldInfo) -> type[BaseModel] | None:
    """The class of a field that is a section."""
    annotation = entry.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def named_section(entry: FieldInfo) -> type[BaseModel] | None:
    """The class of the sections in a field that is a table of them by name."""
    if get_origin(entry.annotation) is not dict:
        return None
    _, found = get_args(entry.annotation)
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _value(written: str, entry: FieldInfo) -> object:
    if _takes_text(entry.annotation):
        return written
    try:
        return tomllib.loads(f"value = {written}", parse_float=Decimal)["value"]
    except tomllib.TOMLDecodeError:
        return written  # of the wrong type, and refused as such


def _takes_text(annotation: object) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_takes_text(part) for part in get_args(annotation) if part is not types.NoneType)
    if get_origin(annotation) is Literal:
        return True
    if hasattr(annotation, "__metadata__"):
        return _takes_text(get_args(annotation)[0])
    return isinstance(annotation, type) and issubclass(annotation, str | timedelta)


def _put(tree: dict[str, Any], keys: Keys, value: object) -> None:
    table = tree
    for key in keys[:-1]:
        below = table.get(key)
        table[key] = table = below if isinstance(below, dict) else {}
    table[keys[-1]] = value
