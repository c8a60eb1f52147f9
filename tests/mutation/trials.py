"""Does a test notice this mutant?

Of each test it is known which lines it runs and how long it takes (measured once, in a child); a mutant meets those
that run its statement, the quickest first, until one fails. Hypothesis draws the same examples every time here and
does not shrink: a failure is all that is asked for.
"""

import gc
import hashlib
import io
import json
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest

from tests.mutation.children import Ended, folder_of_results, in_child
from tests.mutation.mutants import GROUPS, ROOT, Module, Mutant
from tests.mutation.planting import AtImport, Live, NotPlanted, live_functions, plant, tell_statements

COLLECTED: Final = "collection"
"""What noticed it where no test could even be collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was measured of one test."""

    seconds: float
    lines: dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    by: str | None
    """The test that failed; `None`: the mutant survived."""
    cpu_s: float

    @property
    def killed(self) -> bool:
        return self.by is not None


@dataclass(eq=False)
class Watch:
    """A pytest plugin that notes the first failure, and may run the collected tests in its own way."""

    loop: Callable[[list[pytest.Item]], object] | None = None
    failed: list[str] = field(default_factory=list)
    answer: object = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if self.loop is None or session.testsfailed:
            return None
        self.answer = self.loop(session.items)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(COLLECTED)


def run_pytest(tests: list[str], watch: Watch, *more: str) -> str | None:
    """Run here; answers with what failed first."""
    quick = hypothesis.settings(
        max_examples=60,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.register_profile("mutants", quick)
    options = ["-q", "-x", "-s", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-o", "addopts="]
    said = io.StringIO()
    with redirect_stdout(said):
        code = pytest.main(
            [*options, *more, "--hypothesis-profile=mutants", "-m", "not process", f"--rootdir={ROOT}", *tests],
            plugins=[watch],
        )
    if watch.failed:
        return watch.failed[0]
    return None if code in {0, 5} else f"exit {int(code)}: {said.getvalue()[-2000:]}"


def run_items(items: list[pytest.Item], watch: Watch) -> str | None:
    """Run collected tests one by one until one fails."""
    for item, after in zip(items, [*items[1:], None], strict=False):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if watch.failed:
            return watch.failed[0]
    return None


# What each test runs


def measured(group: str, modules: list[Module]) -> dict[str, Known]:
    """Of every test of the package: how long, and which lines of which module. Kept until one of them changes."""
    kept = folder_of_results() / f"{group}-tests.json"
    now = fingerprint(group) + "".join(module.fingerprint for module in modules)
    if kept.exists():
        stored = json.loads(kept.read_text())
        if stored["of"] == now:
            return {name: Known(**one) for name, one in stored["tests"].items()}
    ended = in_child(lambda: _measure(GROUPS[group], modules), cpu_limit_s=600)
    if ended.said is None or ended.said["failed"]:
        failed = "a limit was passed" if ended.said is None else ended.said["failed"]
        raise SystemExit(f"the tests of {group} must pass before anything is planted: {failed}")
    kept.write_text(json.dumps({"of": now, "tests": ended.said["tests"]}))
    return {name: Known(**one) for name, one in ended.said["tests"].items()}


def fingerprint(group: str) -> str:
    """Of all tests that may notice."""
    digest = hashlib.sha256()
    for folder in (GROUPS[group], "tests/support"):
        for path in sorted((ROOT / folder).glob("**/*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _measure(tests: str, modules: list[Module]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    lines: dict[str, set[int]] = {}

    def loop(items: list[pytest.Item]) -> None:
        tell_statements(modules, lambda name, line: lines.setdefault(name, set()).add(line))
        for item, after in zip(items, [*items[1:], None], strict=True):
            lines.clear()
            began = time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            known[item.nodeid] = {
                "seconds": time.process_time() - began,
                "lines": {name: sorted(found) for name, found in lines.items()},
            }

    failed = run_pytest([tests], Watch(loop))
    return {"failed": failed, "tests": known}


# Trials


Done = Callable[[Module, Mutant, Verdict], object]


def at_import(module: Module, mutants: list[Mutant], done: Done) -> None:
    """Try what is changed at import, in processes that import everything anew."""
    steps = test_files(module)
    unchanged = [in_child(partial(_import_and_run, module, None, tests), cpu_limit_s=300) for tests in steps]
    if any(one.exit != 0 or one.said != [True, None] for one in unchanged):
        raise SystemExit(f"{module.name}: its tests do not pass unchanged: {unchanged}")
    for mutant in mutants:
        verdict = Verdict(by=None, cpu_s=0)
        for tests, normal in zip(steps, unchanged, strict=True):
            if not verdict.killed:
                ended = in_child(partial(_import_and_run, module, mutant, tests), cpu_limit_s=10 + 3 * normal.cpu_s)
                verdict = _verdict(ended, ended.said and ended.said[1])
        done(module, mutant, verdict)


def _import_and_run(module: Module, mutant: Mutant | None, tests: list[str]) -> list[Any]:
    planted = AtImport(module, mutant)
    planted.plant()
    failed = run_pytest(tests, Watch(), "-p", "no:unraisableexception")  # its last look around takes half a second
    return [planted.used, failed]


def test_files(module: Module) -> list[list[str]]:
    """Those of its name; then those that import from it."""
    folder, stem = ROOT / GROUPS[module.group], Path(module.name).name
    own = {path for path in folder.glob(f"test_*{stem}*.py")}
    speaking = {path for path in folder.glob("test_*.py") if f"{module.dotted} import" in path.read_text("utf-8")}
    return [sorted(str(path.relative_to(ROOT)) for path in files) for files in (own, speaking - own) if files]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One mutant, and the tests that it meets in this order."""

    module: Module
    mutant: Mutant
    tests: list[str]
    cpu_limit_s: float


def trial_of(module: Module, mutant: Mutant, known: dict[str, Known]) -> Trial:
    tests = running(module, mutant, known)
    limit = 10 + 4 * sum(known[name].seconds for name in tests)
    return Trial(module=module, mutant=mutant, tests=tests, cpu_limit_s=limit)


def in_functions(tests: list[str], trials: list[Trial], done: Done) -> None:
    """Try what is changed inside functions: import and collect once, then a fork for each."""
    watch = Watch()
    watch.loop = lambda items: _fork_for_each(items, trials, watch, done)
    failed = run_pytest(tests, watch)
    if failed is not None or watch.answer != len(trials):
        raise SystemExit(f"{tests}: ended early: {failed}")


def _fork_for_each(items: list[pytest.Item], trials: list[Trial], watch: Watch, done: Done) -> int:
    live, by_name = live_functions(), {item.nodeid: item for item in items}
    gc.freeze()  # else the first collection of each fork copies all that it shares with this process
    for trial in trials:
        ended = in_child(partial(_plant_and_run, trial, live, by_name, watch), cpu_limit_s=trial.cpu_limit_s)
        done(trial.module, trial.mutant, _verdict(ended, ended.said))
    return len(trials)


def _plant_and_run(trial: Trial, live: Live, by_name: dict[str, pytest.Item], watch: Watch) -> str | None:
    plant(trial.module, trial.mutant, live)
    return run_items([item for name in trial.tests for item in _named(name, by_name)], watch)


def _named(name: str, by_name: dict[str, pytest.Item]) -> list[pytest.Item]:
    """One item, or all of a test that has parameters, or of a file."""
    if name in by_name:
        return [by_name[name]]
    found = [item for full, item in by_name.items() if full.startswith((f"{name}[", f"{name}::"))]
    if not found:
        raise NotPlanted(f"no test {name}")
    return found


def running(module: Module, mutant: Mutant, known: dict[str, Known]) -> list[str]:
    """The tests that run its statement, the quickest first."""
    return [
        name
        for name, one in sorted(known.items(), key=lambda pair: pair[1].seconds)
        if not set(mutant.lines).isdisjoint(one.lines.get(module.name, ()))
    ]


def _verdict(ended: Ended, failed: str | None) -> Verdict:
    by = failed if ended.exit == 0 else "a limit of time or memory"
    return Verdict(by=by, cpu_s=ended.cpu_s)
