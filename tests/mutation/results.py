"""What is known of each mutant, and what does it come to?

Verdicts are kept outside of the checkout, one line each. A killed mutant stays killed while its module is the same; a
survivor is tried again once a test has changed. `equivalent.toml` names the mutants that change nothing that anybody
could notice, with the reason; an entry that names no mutant is an error, and so is one that a test kills.
"""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.mutation.children import folder_of_results
from tests.mutation.mutants import Module, Mutant
from tests.mutation.trials import Verdict

EQUIVALENT: Final = Path(__file__).with_name("equivalent.toml")


def equivalent() -> dict[str, str]:
    """The reason why nobody can notice it, by mutant."""
    tables: dict[str, dict[str, str]] = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {f"{module} {change}": reason for module, changes in tables.items() for change, reason in changes.items()}


class Verdicts:
    """The stored verdicts of one package."""

    def __init__(self, group: str, *, tests: str) -> None:
        self._path = folder_of_results() / f"{group}.jsonl"
        self._tests = tests
        self._known: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                self._known[one["id"]] = one

    def of(self, module: Module, mutant: Mutant) -> Verdict | None:
        one = self._known.get(mutant.id)
        if one is None or one["module"] != module.fingerprint or (one["by"] is None and one["tests"] != self._tests):
            return None
        return Verdict(by=one["by"], cpu_s=one["cpu_s"])

    def put(self, module: Module, mutant: Mutant, verdict: Verdict) -> None:
        one = {"id": mutant.id, "module": module.fingerprint, "tests": self._tests}
        self._known[mutant.id] = one | {"by": verdict.by, "cpu_s": round(verdict.cpu_s, 3)}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self._known[mutant.id]) + "\n")


@dataclass(kw_only=True)
class Count:
    """Of one module or package."""

    killed: int = 0
    survived: int = 0
    equivalent: int = 0

    @property
    def score(self) -> str:
        weighed = self.killed + self.survived
        return f"{100 * self.killed / weighed:5.1f} %" if weighed else "      -"


@dataclass
class Report:
    """Counts, and what is left to do."""

    counts: dict[str, Count] = field(default_factory=dict)
    survivors: list[str] = field(default_factory=list)
    wrong_entries: list[str] = field(default_factory=list)

    def note(self, module: Module, mutant: Mutant, verdict: Verdict, excused: dict[str, str]) -> None:
        for name in (module.name, module.group):
            count = self.counts.setdefault(name, Count())
            count.killed += verdict.killed
            count.equivalent += not verdict.killed and mutant.id in excused
            count.survived += not verdict.killed and mutant.id not in excused
        if verdict.killed and mutant.id in excused:
            self.wrong_entries.append(f"killed by {verdict.by}, so not equivalent: {mutant.id}")
        if not verdict.killed and mutant.id not in excused:
            self.survivors.append(
                f"controller/{module.name}.py:{mutant.line}: {module.line_of(mutant)}\n    {mutant.id}"
            )

    def lines(self) -> Iterable[str]:
        yield from self.survivors
        yield from self.wrong_entries
        yield ""
        yield f"{'':32} killed survived equivalent   score"
        for name, count in sorted(self.counts.items()):
            yield f"{name:32} {count.killed:6} {count.survived:8} {count.equivalent:10} {count.score:>7}"


def stale() -> list[str]:
    """Entries whose code is not there any more."""
    named = equivalent().keys()
    there = {mutant.id for name in {one.partition(" ")[0] for one in named} for mutant in Module(name).mutants()}
    return sorted(named - there)
