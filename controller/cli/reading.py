"""What do `status`, `explain` and `owed` show?

The daemon's answer where it answers; else what the store holds, said to be that, and the code of an unreachable daemon:
a script must not take yesterday's record for today's world.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from controller.cli import offline
from controller.cli.exits import Exit, Failure
from controller.cli.link import Daemon, asked
from controller.cli.output import age, say, show_facts, show_json, show_table, usd
from controller.cli.schedules import said
from controller.settings import Settings

Body = dict[str, Any]

_DOWN = "the daemon is down: this is what its store holds, and nothing of what exists now"


def status(settings: Settings, *, alias: str | None, as_json: bool, now: datetime) -> Exit:
    answer, code = _asked_or_read(settings, "/v1/status", offline.status)
    if alias is not None:
        _require_model(answer, alias, settings)
        answer["models"] = [model for model in answer["models"] if model["alias"] == alias]
    if as_json:
        show_json(answer)
    else:
        _show_status(answer, now)
    return code


def explain(settings: Settings, *, alias: str, as_json: bool, now: datetime) -> Exit:
    async def ask(daemon: Daemon) -> Body:
        return await daemon.get(f"/v1/models/{quote(alias, safe='')}/explain")

    answer = asked(settings, ask)
    if as_json:
        show_json(answer)
    else:
        show_table(
            ("subject", "why", "since", "until"),
            [
                (line.get("subject"), line.get("text"), age(line.get("since"), now), age(line.get("until"), now))
                for line in answer.get("lines", [])
            ],
        )
    return Exit.OK


def owed(settings: Settings, *, every: bool, as_json: bool, now: datetime) -> Exit:
    answer, code = _asked_or_read(
        settings,
        "/v1/obligations?all=1" if every else "/v1/obligations",
        lambda store: offline.obligations(store, ended=every),
    )
    if as_json:
        show_json(answer)
    else:
        _show_obligations(answer.get("obligations", []), now)
    return code


def _asked_or_read(settings: Settings, path: str, read: Callable[..., Body]) -> tuple[Body, Exit]:
    async def ask(daemon: Daemon) -> Body:
        return await daemon.get(path)

    try:
        return asked(settings, ask), Exit.OK
    except Failure as failure:
        if failure.code is not Exit.UNREACHABLE:
            raise
        answer = read(settings.places.store)
        say(failure.words)
        say(_DOWN)
        return {**answer, "source": "store"}, Exit.UNREACHABLE


def _require_model(answer: Body, alias: str, settings: Settings) -> None:
    known = {model["alias"] for model in answer["models"]} | set(settings.models)
    if alias not in known:
        raise Failure(Exit.NOT_FOUND, f"no model {alias}; there are: {', '.join(sorted(known)) or 'none'}")


def _show_status(answer: Body, now: datetime) -> None:
    show_table(
        ("model", "phase", "pods", "open requests", "load", "$/h", "est. $", "billed $", "idle stop", "why"),
        [
            (
                model.get("alias"),
                model.get("phase"),
                len(model.get("deployments") or ()),
                model.get("open_requests"),
                _load(model.get("load") or ()),
                model.get("usd_per_hour"),
                (model.get("money") or {}).get("estimated_usd"),
                _billed(model, now),
                age(model.get("idle_stop_at"), now),
                "; ".join(filter(None, (model.get("blocked") or model.get("why"), said(model.get("schedule"))))),
            )
            for model in answer.get("models", [])
        ],
    )
    print()
    show_facts(_facts(answer, now))


def _billed(model: Body, now: datetime) -> str | None:
    """What is on the bill, and until when it goes; `unknown` while something bills and is on no bill."""
    money = model.get("money") or {}
    if (amount := money.get("billed_usd")) is not None:
        return f"{amount} ({age(money.get('billed_until'), now)})"
    return "unknown" if money.get("estimated_usd") is not None else None


def _load(machines: Sequence[Body]) -> str:
    """What the model servers say of themselves; a machine that tells nothing is a question mark."""
    return "; ".join(_of_machine(machine) for machine in machines)


def _of_machine(machine: Body) -> str:
    parts = (
        ("{:.0f} running", machine.get("running")),
        ("{:.0f} waiting", machine.get("waiting") or None),
        ("{:.0%} cache", machine.get("cache_use")),
        ("{:.0f} tok/s", machine.get("answer_tokens_per_second")),
    )
    return ", ".join(text.format(number) for text, number in parts if number is not None) or "?"


def _facts(answer: Body, now: datetime) -> Iterator[tuple[str, object]]:
    yield "owed stops", answer.get("owed")
    yield "open obligations", answer.get("obligations_open")
    if handed_over := (answer.get("obligations_ended") or {}).get("transferred"):
        yield "handed over", f"{handed_over}, to a newer lease elsewhere: theirs to stop"
    if spend := answer.get("spend"):
        parts = (f"{usd(spend.get(f'{part}_usd')) or '-'} {part}" for part in ("settled", "held"))
        yield "today's money", f"{', '.join(parts)}, of {usd(spend.get('limit_usd')) or '-'}"
        until = age(spend.get("billed_until"), now)
        yield "billed today", "unknown" if until is None else f"{usd(spend.get('billed_usd'))}, until {until}"
    yield from _volumes(answer.get("storage") or {})
    if listing := answer.get("listing"):
        yield "last listing", _listing(listing, now)
    yield "daemon", "ready" if answer.get("ready") else f"not ready ({answer.get('mode')})"
    for problem in answer.get("problems") or ():
        yield "problem", problem
    for alarm in answer.get("alarms") or ():
        yield "alarm", f"{alarm.get('name')}: {alarm.get('detail')} ({age(alarm.get('since'), now) or '-'})"
    for task in answer.get("tasks") or ():
        if task.get("problem"):
            yield f"task {task.get('name')}", task["problem"]


def _volumes(storage: Body) -> Iterator[tuple[str, object]]:
    """What bills whether or not anything runs."""
    if storage.get("volumes") or storage.get("usd_per_month", "0") is None:
        month = usd(storage.get("usd_per_month"))
        yield "volumes", "unknown" if month is None else f"{month} a month, beside today's money"


def _listing(listing: Body, now: datetime) -> str:
    words = {True: "complete", False: "incomplete", None: "none yet"}[listing.get("complete")]
    parts = [words, age(listing.get("ended_at"), now), listing.get("problem")]
    return ", ".join(str(part) for part in parts if part)


def _show_obligations(obligations: list[Body], now: datetime) -> None:
    if not obligations:
        say("nothing is owed")
        return
    show_table(
        ("obligation", "model", "pod", "owed", "reason", "tries", "last answer", "last seen", "waiting for"),
        [
            (
                found.get("id"),
                found.get("model"),
                (found.get("resource") or {}).get("incarnation") or found.get("request"),
                found.get("ending") or (age(found.get("due_at"), now) if found.get("due") else "not yet"),
                found.get("reason"),
                found.get("attempts"),
                found.get("last_answer"),
                age(found.get("last_seen_at"), now),
                found.get("waiting_for"),
            )
            for found in obligations
        ],
    )
