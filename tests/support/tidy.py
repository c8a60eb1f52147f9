"""Which rules of the house can be read off one file?

Each rule takes a file's path (relative to the checkout) and its text, and answers with what it minds, as lines
`path:line: what`. It opens nothing, so it can be tried on a planted violation; `tests/test_tidy.py` does that, and
runs every rule over the tree. What ruff, mypy and import-linter can say is left to them.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

Rule = Callable[[str, str], list[str]]

FILE_LINES_MAX: Final = 400
FUNCTION_LINES_MAX: Final = 50

# A name made of these says nothing about what the thing is for.
EMPTY_WORDS: Final = frozenset(
    {"manager", "handler", "service", "helper", "util", "common", "misc", "base", "processor"}
)
# One provider's word for a resource: it would smuggle that provider into rules meant for all.
PROVIDER_WORDS: Final = frozenset({"pod"})
PROVIDER_WORDS_AT_HOME: Final = ("controller/providers/runpod", "controller/emulators", "tests/", "benchmarks/")
# Reasons that operators and alarms read, in words fixed outwards.
OUTWARD_NAMES: Final = frozenset({"POD_EXITED", "POD_ERROR", "gpu_util", "handlers"})

# Nothing here reads a clock, waits, draws at random, logs or touches anything outside the process.
CORE_IMPORTS: Final = frozenset(
    {"collections", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "itertools"}
    | {"json", "math", "re", "struct", "typing"}
)

# Written so that this file does not match itself.
UNWANTED_TEXT: Final = {
    "a package registry's option": re.compile(r"--(extra-)?index[-]url|--find[-]links"),
    "a package registry's address": re.compile(
        r"https?://[^ ]*/simple(?:/|\"|$)|\"resolved\": *\"http|registry *= *\"http"
    ),
    "a path of somebody's machine": re.compile(r"/home/[a-z]|/wor[k]/"),
}


def file_length(path: str, source: str) -> list[str]:
    lines = len(source.splitlines())
    return [f"{path}:1: {lines} lines, more than {FILE_LINES_MAX}"] if lines > FILE_LINES_MAX else []


def function_length(path: str, source: str) -> list[str]:
    return [
        f"{path}:{node.lineno}: {node.name} has {length} lines, more than {FUNCTION_LINES_MAX}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def module_docstring(path: str, source: str) -> list[str]:
    if not source.strip() and path.endswith("__init__.py"):
        return []  # a bare package mark
    docstring = (ast.get_docstring(ast.parse(source)) or "").strip()
    if not docstring:
        return [f"{path}:1: no module docstring"]
    if re.match(r"[-*•]|\d+[.)]", docstring):
        return [f"{path}:1: the module docstring begins with a list, not with the question the file answers"]
    return []


def names(path: str, source: str) -> list[str]:
    at_home = path.startswith(PROVIDER_WORDS_AT_HOME)
    unwanted = EMPTY_WORDS if at_home else EMPTY_WORDS | PROVIDER_WORDS
    stem = path.rpartition("/")[2].removesuffix(".py")
    return [
        f"{path}:{line}: '{name}' uses the word '{word}'"
        for name, line in [(stem, 1), *defined_names(ast.parse(source))]
        for word in sorted(unwanted & words_of(name))
        if name not in OUTWARD_NAMES
    ]


def defined_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name this file gives to something; a test's own name is a sentence and counts as text."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case _:
                pass


def words_of(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name, lower-case, in the singular too."""
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return words | {word.removesuffix("s") for word in words}


def core_imports(path: str, source: str) -> list[str]:
    return [
        f"{path}:{line}: core may not import {module}"
        for module, line in imported_modules(ast.parse(source))
        if module.partition(".")[0] not in CORE_IMPORTS and not f"{module}.".startswith("controller.core.")
    ]


def imported_modules(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                yield from ((alias.name, node.lineno) for alias in aliases)
            case ast.ImportFrom(module=module, level=level, names=aliases):
                if level:
                    yield "." * level + (module or ""), node.lineno
                elif module == "controller":
                    yield from ((f"controller.{alias.name}", node.lineno) for alias in aliases)
                else:
                    yield module or "", node.lineno
            case _:
                pass


def waiting_in_tests(path: str, source: str) -> list[str]:
    return [
        f"{path}:{node.lineno}: a test moves time or waits for an event; it does not sleep a thread"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"time.sleep", "sleep"}
    ]


def unwanted_text(path: str, source: str) -> list[str]:
    return [
        f"{path}:{number}: {what}"
        for number, line in enumerate(source.splitlines(), start=1)
        for what, pattern in UNWANTED_TEXT.items()
        if pattern.search(line)
    ]


def missing_test(path: str, present: frozenset[str]) -> list[str]:
    """A rule or task without a test file of its own name; `present` holds the paths of the tree."""
    folder, _, file = path.removeprefix("controller/").rpartition("/")
    wanted = f"tests/{folder}/test_{file}"
    return [] if file == "__init__.py" or wanted in present else [f"{path}:1: no {wanted}"]
