"""Are slips planted as they are named, and is every aimed one caught?"""

import ast
import subprocess
import sys
from datetime import timedelta

import pytest

from controller.core.backoff import round_gap
from tests.mutation.aimed import entries, share
from tests.mutation.edits import Place, edits, enums_of
from tests.mutation.mutants import ROOT, Module
from tests.mutation.planting import NotPlanted, live_functions, plant
from tests.mutation.results import stale

ENUM = "class Phase(StrEnum):\n    ON = 'on'\n    OFF = 'off'\nP = Phase\n"


def texts(statement: str) -> list[str]:
    tree = ast.parse(statement)
    enums = enums_of(ast.parse(ENUM))
    return [
        edit.text
        for node in ast.walk(tree)
        for field, value in ast.iter_fields(node)
        for at in (range(len(value)) if isinstance(value, list) else (None,))
        if isinstance((place := Place(node, field, at)).get(), ast.AST)
        for edit in edits(place, enums)
    ]


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("x = a < b", ["a < b → a <= b"]),
        ("x = a is None", ["a is None → a is not None"]),
        ("x = a and b", ["a and b → a or b", "a and b → b", "a and b → a"]),
        ("x = not a", ["not a → a"]),
        ("x = timedelta(hours=1)", ["timedelta(…) without hours=1", "hours=1 → 2"]),
        ("x = Decimal('0.5')", ["'0.5' → '1.5' in Decimal('0.5')"]),
        ("x = True", ["True → False"]),
        ("x = min(a, b)", ["min(a, b) → max(a, b)"]),
        ("x = a + b", ["a + b → a - b"]),
        ("x = P.ON", ["P.ON → P.OFF"]),
        ("x = P.OFF", ["P.OFF → P.ON"]),
        ("x = {a, b}", ["without a in {a, b}", "without b in {a, b}"]),
        ("x = {a: b}", ["without a in {a: b}"]),
        ("if a: pass", ["if a → if True", "if a → if False"]),
        ("x = [a for a in b if a]", ["for … if a → if True", "for … if a → if False"]),
        ("raise a", ["raise a → pass"]),
        ("self.x = a", ["self.x = a → pass"]),
        ("call()", ["call() → pass"]),
        ("log.info('x')", []),
        ("x = 'words'", []),
    ],
)
def test_a_piece_of_code_is_broken_in_these_ways(code: str, named: list[str]) -> None:
    assert texts(code) == named


def test_an_effect_that_is_awaited_is_left_out_too() -> None:
    assert "await store.write(x) → pass" in texts("async def f():\n await store.write(x)")


def test_a_case_and_its_guard_are_left_out() -> None:
    found = texts("match a:\n case B() if c: pass\n case D(): pass\n case _: pass")
    assert [text for text in found if "case" in text] == [
        "case … if c → case …",
        "without case B()",
        "without case D()",
    ]


def test_names_of_mutants_are_unique_and_each_module_has_some_and_is_whole_again_after_compiling() -> None:
    module = Module("core/obligation")
    whole, mutants = ast.dump(module.tree), module.mutants()
    for mutant in mutants[:40]:
        module.compiled(mutant)
    assert ast.dump(module.tree) == whole
    assert len({mutant.id for mutant in mutants}) == len(mutants) > 200


def test_a_slip_inside_a_function_reaches_those_that_imported_it() -> None:
    module, code = Module("core/backoff"), round_gap.__code__
    mutant = next(
        one for one in module.mutants() if one.id.endswith("max(ROUND_GAP_MAX, first) → min(ROUND_GAP_MAX, first)")
    )
    try:
        plant(module, mutant, live_functions())
        assert round_gap(9, first=timedelta(minutes=10)) == timedelta(minutes=5)
    finally:
        round_gap.__code__ = code


def test_an_equivalent_mutant_that_is_listed_exists() -> None:
    assert stale() == []


def test_every_aimed_defect_is_there_and_one_of_eight_is_caught_by_its_test() -> None:
    command = [sys.executable, "-m", "tests.mutation", "--aimed", "--every", "8"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = f"{len(entries())} aimed defects, one of 8 tried, all caught\n"
    assert (ran.returncode, ran.stdout) == (0, said), ran.stderr[-2000:]


@pytest.mark.parametrize("every", [1, 2, 8])
def test_each_share_is_tried_under_another_mark_and_all_of_them_are_all(every: int) -> None:
    shares = [share(list(range(20)), every=every, mark=1000 + mark) for mark in range(every)]
    assert sorted(one for some in shares for one in some) == list(range(20))


def test_what_is_nowhere_in_the_process_has_no_verdict() -> None:
    module = Module("core/obligation")
    mutant = next(one for one in module.mutants() if one.function is not None)
    with pytest.raises(NotPlanted):
        plant(module, mutant, {})
