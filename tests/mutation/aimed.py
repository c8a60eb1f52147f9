"""Does each guard on money or duty have a test that fails without it?

`aimed.toml` names one slip for each such guard, and the test that has to notice. Every run of the tests makes sure that
all of these slips and tests are there, and tries one of eight; all of them take minutes. Which eighth follows from the
sources: the same tree tries the same ones again, and each change has others tried.
"""

import hashlib
import tomllib
from pathlib import Path
from typing import Final, TypeVar

from tests.mutation.mutants import ROOT, Module, Mutant
from tests.mutation.trials import Trial, Verdict, in_functions

T = TypeVar("T")
AIMED: Final = Path(__file__).with_name("aimed.toml")


def entries() -> dict[str, str]:
    """The test that has to notice, by mutant."""
    tables: dict[str, dict[str, str]] = tomllib.loads(AIMED.read_text(encoding="utf-8"))
    return {f"{module} {change}": test for module, changes in tables.items() for change, test in changes.items()}


def of(chosen: list[Module]) -> dict[str, str]:
    """Those entries that are about these modules. A module that is gone is told of wherever all are asked for."""
    names = {module.name for module in chosen}
    return {name: test for name, test in entries().items() if name.partition(" ")[0] in names}


def missed(wanted: dict[str, str], *, every: int = 1) -> list[str]:
    """Plant each of these defects alone, or one of so many; answers with those that their test lets through."""
    found = {name: pair for module in _modules(wanted) for name, pair in _mutants(module).items() if name in wanted}
    if gone := sorted(wanted.keys() - found.keys()):
        return [f"no such mutant any more: {name}" for name in gone]
    trials = [
        Trial(module=module, mutant=mutant, tests=[wanted[name]], cpu_limit_s=20)
        for name, (module, mutant) in share(list(found.items()), every=every, mark=_mark_of_the_sources())
    ]
    survived: list[str] = []

    def done(module: Module, mutant: Mutant, verdict: Verdict) -> None:
        if not verdict.killed:
            survived.append(f"not noticed by {wanted[mutant.id]}: {mutant.id}")

    in_functions(sorted(set(wanted.values())), trials, done)
    return survived


def share(all_of_them: list[T], *, every: int, mark: int) -> list[T]:
    """One of so many; over the marks that follow each other, all."""
    return all_of_them[mark % every :: every]


def _mark_of_the_sources() -> int:
    digest = hashlib.sha256()
    for folder in ("controller", "tests"):
        for path in sorted((ROOT / folder).glob("**/*.py")):
            digest.update(path.read_bytes())
    return int.from_bytes(digest.digest())


def _modules(wanted: dict[str, str]) -> list[Module]:
    return [Module(name) for name in sorted({name.partition(" ")[0] for name in wanted})]


def _mutants(module: Module) -> dict[str, tuple[Module, Mutant]]:
    return {mutant.id: (module, mutant) for mutant in module.mutants()}
