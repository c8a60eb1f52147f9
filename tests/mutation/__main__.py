"""Which slips in the rules, the tasks and the adapters would no test notice?

    python -m tests.mutation [--fresh] [--list] [--aimed] [--guards] [core | core/idle | tasks/executor ...]

Plants each mutant of the named modules (all for none), reports what survived with its line, and the score: killed out
of those that are not listed as equivalent. Interrupted, it goes on where it was.
"""

import argparse
import importlib
import sys
import time
from typing import Final

from tests.mutation import aimed
from tests.mutation.mutants import GROUPS, Module, Mutant, modules
from tests.mutation.results import Report, Verdicts, equivalent
from tests.mutation.trials import (
    Known,
    Verdict,
    Watch,
    at_import,
    fingerprint,
    in_functions,
    measured,
    run_pytest,
    trial_of,
)

HEAVY: Final = ("anyio", "aiosqlite", "httpx", "pydantic", "sqlalchemy.ext.asyncio", "structlog", "starlette.routing")
"""Imported once rather than in every child; none of it is ours."""


def main() -> int:
    asked = _arguments()
    chosen = modules(asked.modules)
    if asked.list:
        print(*(mutant.id for module in chosen for mutant in _of(module, guards=asked.guards)), sep="\n")
        return 0
    if asked.aimed:
        wanted = aimed.of(chosen) if asked.modules else aimed.entries()
        missed = aimed.missed(wanted, every=asked.every)
        tried = "" if asked.every == 1 else f", one of {asked.every} tried"
        print(*missed or [f"{len(wanted)} aimed defects{tried}, all caught"], sep="\n")
        return 1 if missed else 0
    for name in HEAVY:
        importlib.import_module(name)
    run_pytest(["tests/mutation/__init__.py"], Watch())  # no test there: it imports pytest's plugins, once for all
    report = _Run(chosen, fresh=asked.fresh, guards=asked.guards).all()
    print(*report.lines(), sep="\n")
    return 1 if report.survivors or report.wrong_entries else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants ARGS=", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "modules", nargs="*", help="core, core/idle, providers/runpod, tasks/executor, ...; all for none"
    )
    parser.add_argument("--fresh", action="store_true", help="try again what is known already")
    parser.add_argument("--list", action="store_true", help="name the mutants and try none")
    parser.add_argument("--guards", action="store_true", help="only conditions that never hold: each guard left out")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="with --aimed: try one of so many")
    parser.add_argument("--aimed", action="store_true", help="only the defects of aimed.toml, each against its test")
    return parser.parse_args()


def _of(module: Module, *, guards: bool) -> list[Mutant]:
    return [mutant for mutant in module.mutants() if not guards or mutant.id.endswith("→ if False")]


class _Run:
    def __init__(self, chosen: list[Module], *, fresh: bool, guards: bool) -> None:
        self._mutants = {module.name: _of(module, guards=guards) for module in chosen}
        self._chosen = chosen
        self._groups = [group for group in GROUPS if any(module.group == group for module in chosen)]
        self._verdicts = {group: Verdicts(group, tests=fingerprint(group)) for group in self._groups}
        self._fresh = fresh
        self._said: dict[str, Verdict] = {}
        self._began, self._tried, self._left = time.monotonic(), 0, 0

    def all(self) -> Report:
        """Everything that is changed at import comes first: from then on this process has imported it all."""
        known = {group: measured(group, [one for one in modules([]) if one.group == group]) for group in self._groups}
        todo = [
            (module, mutant)
            for module in self._chosen
            for mutant in self._mutants[module.name]
            if self._due(module, mutant)
        ]
        self._left = len(todo)
        for module in self._chosen:
            tables = [mutant for of, mutant in todo if of is module and mutant.function is None]
            if tables:
                at_import(module, tables, self._done)
        for group in self._groups:
            self._in_functions(group, [one for one in todo if one[0].group == group and one[1].function], known[group])
        return self._report()

    def _in_functions(self, group: str, todo: list[tuple[Module, Mutant]], known: dict[str, Known]) -> None:
        if todo:
            in_functions([GROUPS[group]], [trial_of(module, mutant, known) for module, mutant in todo], self._done)

    def _due(self, module: Module, mutant: Mutant) -> bool:
        verdict = None if self._fresh else self._verdicts[module.group].of(module, mutant)
        if verdict is not None:
            self._said[mutant.id] = verdict
        return verdict is None

    def _done(self, module: Module, mutant: Mutant, verdict: Verdict) -> None:
        self._verdicts[module.group].put(module, mutant, verdict)
        self._said[mutant.id] = verdict
        self._tried += 1
        if not verdict.killed or self._tried % 50 == 0:
            seconds = time.monotonic() - self._began
            what = "survived" if not verdict.killed else "killed"
            line = f"[{self._tried}/{self._left} {seconds:.0f} s] {what}: {mutant.id}"
            print(line, file=sys.__stdout__, flush=True)

    def _report(self) -> Report:
        report, excused = Report(), equivalent()
        for module in self._chosen:
            for mutant in self._mutants[module.name]:
                report.note(module, mutant, self._said[mutant.id], excused)
        return report


if __name__ == "__main__":
    sys.exit(main())
