"""What is left of a config that cannot be taken?

For looking around, never for acting: a model or a section with a fault in it is left out, so that the rest can still be
examined. Where the fault could hide whose account is meant or where it is asked, nothing is left: a key must not go to
an address that nobody wrote.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from controller.settings import ConfigProblems, Problem, Settings, load, settled
from controller.settings.overrides import overridden
from controller.settings.source import Source, quoted, read
from controller.settings.written import Written

DISPENSABLE: Final = frozenset({"usd_per_day", "log_level", "gateway", "policy", "alarms"})


def load_in_part(path: Path, environment: Mapping[str, str]) -> tuple[Settings | None, tuple[Problem, ...]]:
    """The config, or what is left of it, and everything that is wrong with it."""
    try:
        return load(path, environment), ()
    except ConfigProblems as found:
        problems = found.problems
    try:
        source, _ = overridden(read(path), environment, Written)
        tree = _without(source.tree, problems)
        if tree is None:
            return None, problems
        return settled(path, Source(file=source.file, tree=tree), [], environment), problems
    except ConfigProblems:
        return None, problems


def _without(tree: Mapping[str, Any], problems: tuple[Problem, ...]) -> dict[str, Any] | None:
    models = tree.get("models", {})
    if not isinstance(models, dict):
        return None
    left = dict(tree, models=dict(models))
    for problem in problems:
        top = problem.key.partition(".")[0]
        if not (top in DISPENSABLE or top == "models"):
            return None  # what the environment sets goes by the name of its variable, and is none of them
        if top in DISPENSABLE:
            left.pop(top, None)
            continue
        for alias in models:
            if f"{problem.key}.".startswith(f"models.{quoted(alias)}."):
                left["models"].pop(alias, None)
    return left
