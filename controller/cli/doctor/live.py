"""What does the provider do with a machine of ours, found out by renting one?

The daemon itself does it, in this process and on this store: the duty to stop is on record before the call, under the
store's lock, by the same rules. So this refuses while a daemon holds the store, or while the store owes anything else;
what is left where it ends in the middle is stopped first by whatever runs next, this or the daemon. It rents one
machine, never another, and is done when that one is proven gone.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from controller import log
from controller.cli import doctor
from controller.cli.doctor import asking, here, questions
from controller.cli.doctor.asking import Reach
from controller.cli.doctor.clearing import LOOK_EVERY, cleared
from controller.cli.doctor.finding import Finding, Verdict, in_order
from controller.cli.doctor.questions import ASKED, Answer
from controller.cli.doctor.trial import ALIAS, Plan, planned, with_trial
from controller.cli.exits import Exit, Failure
from controller.cli.output import Progress, say, show_json, show_table
from controller.core.deployment import Record, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import Owner
from controller.core.lifecycle import Phase
from controller.daemon.build import build
from controller.daemon.built import Daemon, Seams
from controller.providers.inspecting import Failed, Funds
from controller.providers.qualifying import Inside
from controller.settings import ConfigProblems, Settings, find_config, load
from controller.store import holds
from controller.store.errors import StoreError, StoreInUse
from controller.store.standing import standing
from controller.supervision import GaveUp

LISTED_WITHIN: Final = timedelta(seconds=120)
RESTARTED_WITHIN: Final = timedelta(minutes=3)
REFUSED_FOR: Final = timedelta(minutes=10)
RATE_FALLS_WITHIN: Final = timedelta(minutes=10)
COMING: Final = frozenset({Phase.DECLARED, Phase.REQUESTED, Phase.UNCERTAIN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    limit: Decimal
    """US dollars that the run may cost."""
    model: str | None = None
    as_json: bool = False


@dataclass(slots=True, kw_only=True)
class Run:
    """One qualification, as far as it came."""

    daemon: Daemon
    reach: Reach
    plan: Plan | None = None
    answers: list[Answer] = field(default_factory=list)
    record: Record | None = None
    seen: SeenResource | None = None
    inside: Inside | Failed | None = None
    during: Funds | Failed | None = None
    """What the account cost while the machine was there."""
    failure: Failure | None = None
    gave_up: bool = False

    async def conclude(self, answer: Answer) -> None:
        """Onto the record at once: the run may end at any moment."""
        self.answers.append(answer)
        key = None if self.record is None else self.record.key
        told = {"question": answer.question, "asked": ASKED[answer.question], "said": answer.said.value}
        await self.daemon.store.write(
            lambda tx: tx.line("qualification.finding", resource=key, detail={**told, "text": answer.text})
        )


def wished(spend_limit: str | None, *, live: bool, model: str | None, as_json: bool) -> Wish:
    """What the options ask for. Raises Failure."""
    if not live:
        raise Failure(Exit.USAGE, "--spend-limit and --model are for --live")
    if spend_limit is None:
        raise Failure(Exit.USAGE, "--live rents a machine: say how much it may cost, as in --spend-limit 2")
    try:
        limit = Decimal(spend_limit)
    except ArithmeticError:
        limit = Decimal()
    if not limit.is_finite() or limit <= 0:
        raise Failure(Exit.USAGE, f"not an amount of US dollars: {spend_limit}")
    return Wish(limit=limit, model=model, as_json=as_json)


async def run_live(config: Path | None, wish: Wish) -> Exit:
    """The first SIGINT or SIGTERM ends the questions, and the stop is waited for; a second one ends that too."""
    interrupted = anyio.Event()
    ended: Exit | Failure | ConfigProblems
    async with anyio.create_task_group() as group:
        group.start_soon(_watch_signals, interrupted)
        try:
            ended = await live(config, wish, seams=Seams(), environment=dict(os.environ), interrupted=interrupted)
        except (Failure, ConfigProblems) as refused:
            ended = refused  # raised in here it would come out as a group, without its words and its code
        group.cancel_scope.cancel()
    if isinstance(ended, Exit):
        return ended
    raise ended


async def _watch_signals(interrupted: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if interrupted.is_set():
                say("what is left stays owed: the next run of this or of the daemon stops it first")
                os._exit(Exit.INTERRUPTED)
            say("no more questions; stopping what was rented, and waiting for the proof")
            interrupted.set()


async def live(
    config: Path | None, wish: Wish, *, seams: Seams, environment: Mapping[str, str], interrupted: anyio.Event
) -> Exit:
    """Raises ConfigProblems, and Failure where nothing could be rented, or a stop is not proven.

    Cancelled, it leaves its duty on record, as if it had been killed; to end it in order, set `interrupted`.
    """
    settings = load(find_config(config, environment), environment)
    if ALIAS in settings.models or not settings.models:
        words = "no model is configured" if not settings.models else f"the alias {ALIAS} is this run's own: rename it"
        raise Failure(Exit.REFUSED, words)
    key = settings.runpod_key().get_secret_value()
    log.configure("error", stream=sys.stderr)
    for secret in here.known_secrets(settings):
        log.register_secret(secret)
    us = Owner(name=settings.written.name, installation="")
    async with asking.reached(settings, key=key, us=us, clock=seams.clock, transport=seams.transport) as reach:
        await _finish_former(settings, seams, reach)
        looking = doctor.Seams(clock=seams.clock, transport=seams.transport, environment=environment)
        _require_sound(await doctor.examined(settings, looking))
        offers = {alias: await reach.inspection.read_offers(alias) for alias in settings.models}
        plan = planned(settings, offers, limit=wish.limit, model=wish.model)
        if interrupted.is_set():
            raise Failure(Exit.INTERRUPTED, "nothing was rented")
        run = Run(daemon=await _opened(with_trial(settings, plan), seams), reach=reach, plan=plan)
        say(f"renting one {plan.offer} at ${plan.usd_per_hour}/h, shaped as {plan.model}, for at most {plan.life}")
        left = await _through(run, plan, interrupted)
    return _told(run, plan, left, wish=wish, interrupted=interrupted.is_set())


async def _finish_former(settings: Settings, seams: Seams, reach: Reach) -> None:
    """A run that was killed left its duty on record: it ends before anything else is asked."""
    kept, _ = here.store(settings, seams.clock)
    if kept is None or not kept.open_duties:
        return
    running = standing(settings.places.store)
    _require_none_of([] if running is None else [found for found in running.machines if found.model != ALIAS])
    daemon = await _opened(settings, seams)
    others = [duty.id for duty in daemon.store.book.obligations.values() if duty.open and duty.model != ALIAS]
    if others:
        await daemon.close()
    _require_none_of(others)
    say("stopping what a former run left")
    left = await _through(Run(daemon=daemon, reach=reach), None, anyio.Event())
    if left:
        raise Failure(Exit.FAILED, f"what a former run left is not proven gone, and stays owed: {', '.join(left)}")


def _require_none_of(others: Sequence[object]) -> None:
    """Asked of what runs before the store is opened: a config that would stop it must not be taken by this either."""
    if others:
        words = f"the store owes {len(others)} stops of other machines, now or one day"
        raise Failure(Exit.REFUSED, f"{words}: run the daemon, stop them, and end it (`gpuwarden owed`)")


async def _opened(settings: Settings, seams: Seams) -> Daemon:
    try:
        return await build(settings, seams)
    except StoreInUse as refused:
        raise Failure(Exit.REFUSED, f"{refused.path} is in use: end the daemon first") from refused
    except StoreError as refused:
        raise Failure(Exit.FAILED, str(refused)) from refused


def _require_sound(findings: list[Finding]) -> None:
    """A machine is rented only where reading finds no fault. Whether the key may act is what the run finds out."""
    failed = [
        finding for finding in in_order(findings) if finding.verdict is Verdict.FAIL and finding.subject != "to act"
    ]
    if failed:
        words = ", ".join(finding.check for finding in failed)
        raise Failure(Exit.REFUSED, f"nothing is rented: `gpuwarden doctor` finds fault with {words}; mend that first")


async def _through(run: Run, plan: Plan | None, interrupted: anyio.Event) -> list[str]:
    """Run the daemon until nothing of ours is left; without a plan nothing is started. What stays owed."""
    left: list[str] = []
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_tasks, run)
            try:
                if plan is not None:
                    await _until(interrupted, partial(_tried, run, plan))
            finally:
                left = await cleared(run.daemon, gave_up=lambda: run.gave_up)
            if plan is not None and not left and run.record is not None:
                await _until(interrupted, partial(_bill_watched, run))
            group.cancel_scope.cancel()
    finally:
        await run.daemon.close()
    return left


async def _tasks(run: Run) -> None:
    try:
        await run.daemon.run()
    except* GaveUp:
        run.gave_up = True


async def _until(interrupted: anyio.Event, work: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            await interrupted.wait()
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()


async def _tried(run: Run, plan: Plan) -> None:
    try:
        await run.daemon.store.write(lambda tx: holds.unblock(tx, ALIAS, why="a qualification run begins"))
        served = await _started(run, plan)
        await _asked(run, plan, served=served)
    except Failure as failure:
        run.failure = failure
    except StoreError as problem:
        run.failure = Failure(Exit.FAILED, str(problem))


async def _started(run: Run, plan: Plan) -> bool:
    """Ask for the model until one machine is ordered, and never again; then until it serves, or will not."""
    daemon, clock = run.daemon, run.daemon.clock
    begun, progress = clock.now(), Progress()
    while clock.now() - begun < plan.life and not run.gave_up:
        record = _followed(run)
        if record is None or record.phase is Phase.CANCELLED:
            _ask(run, give_up=clock.now() - begun >= REFUSED_FOR)
        else:
            run.record = record
            if record.phase is not Phase.DECLARED:
                daemon.wants.satisfied(ALIAS)
            await _noticed(run, plan)
            if record.phase not in COMING:
                return record.phase is Phase.ACTIVE
            progress.tell(f"{record.phase.value} for {clock.now() - record.declared_at}", subject=record.phase.value)
        await anyio.sleep(LOOK_EVERY.total_seconds())
    return False


async def _noticed(run: Run, plan: Plan) -> None:
    """As soon as it is listed: it may be stopped for a good reason at any moment."""
    if run.record is None or run.record.key is None:
        return
    run.seen = run.daemon.view.value.resource(run.record.key) or run.seen
    if run.seen is not None and run.during is None:
        run.during = await run.reach.inspection.read_funds()
        run.inside = await run.reach.qualification.read_inside(run.record.key, reference=plan.reference)


def _followed(run: Run) -> Record | None:
    book = run.daemon.store.book
    if run.record is not None and run.record.phase is not Phase.CANCELLED:
        return book.records.get(run.record.id, run.record)
    return next(iter(book.live(ALIAS)), None)


def _ask(run: Run, *, give_up: bool) -> None:
    """Raises Failure where the start is refused for good, or for too long."""
    daemon = run.daemon
    refusal = daemon.reconciler.refusals.get(ALIAS)
    if refusal is not None and (refusal.final or give_up):
        raise Failure(Exit.PROVIDER, f"nothing was rented: {refusal.code.value} ({refusal.reason})")
    if give_up:
        detail = daemon.store.book.memory(ALIAS).round_detail or "the account could not be looked at"
        raise Failure(Exit.PROVIDER, f"nothing was rented: {detail}")
    daemon.wants.ask(ALIAS, now=daemon.clock.now())
    daemon.ring("observer", "reconciler")


async def _asked(run: Run, plan: Plan, *, served: bool) -> None:
    """Everything that the machine itself can show; each answer goes on record as it comes."""
    record = run.record
    if served and record is not None and record.key is not None:
        await _listed(run, plan)
        run.inside = await run.reach.qualification.read_inside(record.key, reference=plan.reference)
    inside = run.inside
    reason: StopReason | None = None if record is None else record.reason
    await run.conclude(questions.listing(run.seen, run.daemon.store.book.owner, inside))
    await run.conclude(questions.substitution(served=served, reason=reason))
    await run.conclude(questions.price(run.seen, listed=plan.usd_per_hour))
    await run.conclude(questions.cards(inside, wanted=plan.cards))
    after = await _restarted(run, plan, inside) if served and isinstance(inside, Inside) else None
    await run.conclude(questions.restart(inside, after))


async def _listed(run: Run, plan: Plan) -> None:
    with anyio.move_on_after(LISTED_WITHIN.total_seconds()):
        while run.seen is None:
            run.daemon.ring("observer")
            await anyio.sleep(LOOK_EVERY.total_seconds())
            await _noticed(run, plan)


async def _restarted(run: Run, plan: Plan, before: Inside) -> Inside | Failed | None:
    """Have the container restarted, and look until that shows."""
    if run.record is None or run.record.key is None:
        return None
    refused = await run.reach.qualification.restart(run.record.key)
    if refused is not None:
        return refused
    after: Inside | Failed | None = None
    with anyio.move_on_after(RESTARTED_WITHIN.total_seconds()):
        while not isinstance(after, Inside) or not questions.restarted(before, after):
            await anyio.sleep(LOOK_EVERY.total_seconds())
            after = await run.reach.qualification.read_inside(run.record.key, reference=plan.reference)
    return after


async def _bill_watched(run: Run) -> None:
    """Does the account cost less now? The provider counts every few minutes."""
    rate = None if run.seen is None else run.seen.usd_per_hour
    after: Funds | Failed | None = None
    answer = questions.billing(run.during, after, usd_per_hour=rate)
    with anyio.move_on_after(RATE_FALLS_WITHIN.total_seconds()):
        while answer.said is not questions.Said.YES and isinstance(run.during, Funds):
            after = await run.reach.inspection.read_funds()
            answer = questions.billing(run.during, after, usd_per_hour=rate)
            await anyio.sleep(LOOK_EVERY.total_seconds())
    if run.record is not None and run.record.key is not None:
        billed = questions.on_the_bill(await run.reach.qualification.read_billed(run.record.key))
        answer = replace(answer, text=f"{answer.text}; {billed}")
    await run.conclude(answer)


def _told(run: Run, plan: Plan, left: list[str], *, wish: Wish, interrupted: bool) -> Exit:
    """Print the answers; what is left owed is a failure, whatever else was found."""
    rows = sorted(run.answers, key=lambda answer: answer.question)
    if wish.as_json:
        rented = {"model": plan.model, "offer": plan.offer, "usd_per_hour": str(plan.usd_per_hour)}
        answers = [{**asdict(row), "asked": ASKED[row.question]} for row in rows]
        show_json({"rented": rented, "answers": answers, "unproven": left})
    elif rows:
        table = [(row.question, ASKED[row.question], row.said.value, row.text) for row in rows]
        show_table(("question", "asked", "said", "by what"), table)
    if left:
        words = f"not proven gone, and owed: {', '.join(left)}"
        raise Failure(Exit.FAILED, f"{words}; start the daemon, or run this again: either stops it first")
    if run.failure is not None:
        raise run.failure
    say("what was rented is proven gone")
    return Exit.INTERRUPTED if interrupted else Exit.OK
