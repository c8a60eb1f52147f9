"""Does the tree keep the rules of the house, and does each rule notice when it is broken?"""

import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.support import tidy

ROOT = Path(__file__).parents[1]
PYTHON_FOLDERS = ("controller", "tests", "migrations", "benchmarks")


@cache
def tracked() -> tuple[str, ...]:
    """Paths under version control and new ones not ignored; without git, every file but the hidden and built."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = listing.stdout.decode().rstrip("\0").split("\0")
    else:
        paths = [str(path.relative_to(ROOT)) for path in ROOT.glob("[!.]*/**/*") if "__pycache__" not in path.parts]
    return tuple(sorted(path for path in paths if (ROOT / path).is_file()))


def python_files(*folders: str) -> list[str]:
    return [
        path for path in tracked() if path.endswith(".py") and path.partition("/")[0] in (folders or PYTHON_FOLDERS)
    ]


def minded(rule: tidy.Rule, paths: list[str]) -> str:
    return "\n".join(line for path in paths for line in rule(path, (ROOT / path).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "rule", [tidy.file_length, tidy.function_length, tidy.module_docstring, tidy.names], ids=lambda rule: rule.__name__
)
def test_every_python_file_keeps(rule: tidy.Rule) -> None:
    assert minded(rule, python_files()) == ""


def test_core_imports_rules_and_plain_values_only() -> None:
    assert minded(tidy.core_imports, [path for path in python_files() if path.startswith("controller/core/")]) == ""


def test_no_test_sleeps() -> None:
    assert minded(tidy.waiting_in_tests, python_files("tests")) == ""


def test_no_tracked_file_names_a_registry_or_a_machine() -> None:
    texts = [path for path in tracked() if b"\0" not in (ROOT / path).read_bytes()[:8000]]
    assert minded(tidy.unwanted_text, texts) == ""


def test_every_rule_and_task_has_a_test_of_its_name() -> None:
    present = frozenset(tracked())
    ruled = [path for path in python_files() if path.startswith(("controller/core/", "controller/tasks/"))]
    assert "\n".join(line for path in ruled for line in tidy.missing_test(path, present)) == ""


DOC = '"""What is this?"""\n'


@pytest.mark.parametrize(
    ("rule", "path", "kept", "broken"),
    [
        (tidy.file_length, "controller/x.py", "\n" * 400, "\n" * 401),
        (tidy.function_length, "controller/x.py", "def f():\n" + " x\n" * 49, "def f():\n" + " x\n" * 50),
        (tidy.function_length, "controller/x.py", "async def f():\n x", "class A:\n async def f():\n" + "  x\n" * 50),
        (tidy.module_docstring, "controller/x.py", DOC, "x = 1\n"),
        (tidy.module_docstring, "controller/x.py", DOC, '"""  """\n'),
        (tidy.module_docstring, "controller/x.py", DOC, '"""- one\n- two\n"""\n'),
        (tidy.module_docstring, "controller/x.py", DOC, '"""1. first\n"""\n'),
        (tidy.module_docstring, "tests/__init__.py", "", "x = 1\n"),
        (tidy.names, "controller/x.py", "class Reaper: ...", "class PassManager: ..."),
        (tidy.names, "controller/x.py", "def reap(): ...", "def handler_for(): ..."),
        (tidy.names, "controller/x.py", "def reap(utility): ...", "def reap(*, utils): ..."),
        (tidy.names, "controller/x.py", "self.basement = 1", "self.base_url = 1"),
        (tidy.names, "controller/x.py", "podium: int = 1", "pods: int = 1"),
        (tidy.names, "controller/x.py", "x = client.pods", "class HTTPPod: ..."),
        (tidy.names, "controller/core/x.py", "POD_EXITED = 1", "POD_LOST = 1"),
        (tidy.names, "controller/providers/runpod/wire.py", "pod_id = 1", "helper = 1"),
        (tidy.names, "tests/test_x.py", "def test_the_base_of_it(): ...", "def make_base(): ..."),
        (tidy.core_imports, "controller/core/x.py", "from collections.abc import Set", "import asyncio"),
        (tidy.core_imports, "controller/core/x.py", "from controller.core import idle", "from controller import clock"),
        (
            tidy.core_imports,
            "controller/core/x.py",
            "from controller.core.idle import X",
            "from controller.ids import X",
        ),
        (tidy.core_imports, "controller/core/x.py", "import datetime as dt", "def f():\n import pydantic"),
        (tidy.core_imports, "controller/core/x.py", "import re", "from . import idle"),
        (tidy.waiting_in_tests, "tests/x.py", "anyio.sleep(1)", "time.sleep(1)"),
        (tidy.unwanted_text, "x.txt", "pip install x", "pip install --index" + "-url x"),
        (tidy.unwanted_text, "x.txt", "https://example.com/simpler", "https://example.com/" + "simple/x"),
        (tidy.unwanted_text, "x.txt", "/var/work", "cd /wo" + "rk/tree"),
    ],
)
def test_rule_passes_what_keeps_it_and_notices_what_breaks_it(
    rule: tidy.Rule, path: str, kept: str, broken: str
) -> None:
    assert rule(path, kept) == []
    assert len(rule(path, broken)) == 1


def test_a_file_called_by_an_empty_word_is_noticed() -> None:
    assert len(tidy.names("controller/utils.py", DOC)) == 1


def test_a_rule_without_its_test_is_noticed() -> None:
    present = frozenset({"tests/core/test_idle.py"})
    assert tidy.missing_test("controller/core/idle.py", present) == []
    assert tidy.missing_test("controller/core/__init__.py", present) == []
    assert tidy.missing_test("controller/tasks/idle_reaper.py", present) == [
        "controller/tasks/idle_reaper.py:1: no tests/tasks/test_idle_reaper.py"
    ]
