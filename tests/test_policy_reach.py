"""Does every limit that an operator may set limit something?

A field that nobody reads is a promise that nobody keeps: the config takes it, and nothing changes.
"""

import ast
from dataclasses import fields
from pathlib import Path

import pytest

from controller.core.policy import HostingPolicy, ModelPolicy

PACKAGE = Path(__file__).parents[1] / "controller"
WRITERS = (PACKAGE / "settings", PACKAGE / "core" / "policy.py", PACKAGE / "cli" / "config_check.py")


def _read_names() -> set[str]:
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if not any(path.is_relative_to(writer) for writer in WRITERS):
            tree = ast.parse(path.read_text())
            found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found


@pytest.mark.parametrize("policy", [HostingPolicy, ModelPolicy])
def test_every_field_of_a_policy_is_read_somewhere(policy: type[HostingPolicy] | type[ModelPolicy]) -> None:
    used = _read_names()
    assert [entry.name for entry in fields(policy) if entry.name not in used] == []
