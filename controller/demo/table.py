"""What is going on in the demo, at a glance?

A live table on a terminal, plain lines elsewhere: the model's phase, what the provider bills, what is owed, and the
newest evidence.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import anyio

from controller.api.client import DaemonClient, Problem, Unreachable

EVERY_S: Final = 0.5
NEWEST: Final = 12


class Scene(Protocol):
    """What the table looks at."""

    @property
    def daemon(self) -> DaemonClient: ...

    @property
    def evidence(self) -> Path: ...

    async def truth(self) -> dict[str, Any]: ...


async def show(scene: Scene, asked: anyio.Event) -> None:
    """Until `asked` is set."""
    if sys.stdout.isatty():
        await _show_live(scene, asked)
    else:
        await _show_lines(scene, asked)


async def _show_live(scene: Scene, asked: anyio.Event) -> None:
    from rich.live import Live  # only on a terminal

    with Live(refresh_per_second=4, transient=False) as live:
        while not asked.is_set():
            live.update(_table(await rows(scene), newest(scene.evidence)))
            with anyio.move_on_after(EVERY_S):
                await asked.wait()


def _table(facts: list[tuple[str, str]], lines: list[str]) -> Any:
    from rich.console import Group
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, value in facts:
        grid.add_row(f"[bold]{name}[/bold]", value)
    return Group(grid, "", *lines)


async def _show_lines(scene: Scene, asked: anyio.Event) -> None:
    """Only what changed, one line each."""
    before: dict[str, str] = {}
    while not asked.is_set():
        for name, value in await rows(scene):
            if before.get(name) != value and name != "stops":
                before[name] = value
                sys.stdout.write(f"{name}: {value}\n")
        sys.stdout.flush()
        with anyio.move_on_after(EVERY_S):
            await asked.wait()


async def rows(scene: Scene) -> list[tuple[str, str]]:
    """What is believed, beside what the provider knows."""
    try:
        status = await scene.daemon.get("/v1/status")
        machines = [made for made in (await scene.truth())["pods"] if made["deleted_at"] is None]
    except (Unreachable, Problem, OSError) as problem:
        return [("daemon", f"does not answer: {problem}")]
    facts = []
    for model in status["models"]:
        facts.append(("model", f"{model['alias']}: {model['phase']}, {model['open_requests']} open requests"))
        facts.append(("why", model["why"]))
        facts.append(("stops", model["idle_stop_at"] or "-"))
    facts.append(("provider", ", ".join(f"{made['name']} {made['status']}" for made in machines) or "no pod"))
    facts.append(("obligations", f"{status['obligations_open']} open, {status['owed']} owed stops"))
    spend = status["spend"]
    facts.append(
        ("spend today", f"{spend['settled_usd']} USD settled, {spend['held_usd']} held of {spend['limit_usd']}")
    )
    return facts


def newest(evidence: Path) -> list[str]:
    """The last evidence lines, for people."""
    if not evidence.exists():
        return []
    found = [json.loads(line) for line in evidence.read_text().splitlines()[-NEWEST:]]
    return [_words(line) for line in found]


def _words(line: dict[str, Any]) -> str:
    phase = line.get("phase")
    parts = [line["at"][11:23], f"{line['seq']:>4}", line["event"]]
    if phase is not None:
        parts.append(f"{phase['from']} → {phase['to']}")
    parts += [str(line[name]) for name in ("reason", "obligation") if line.get(name)]
    if line.get("evidence"):
        parts.append(line["evidence"]["kind"])
    return "  ".join(parts)
