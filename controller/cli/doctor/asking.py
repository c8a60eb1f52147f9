"""What does the provider say to everything that is asked of it?

All questions leave together and each waits for itself: one that hangs keeps none from its answer, and the whole ends
within its limit. Every call of `ask` reads.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

import anyio

from controller.cli.doctor import account as judge
from controller.cli.doctor.account import Sample
from controller.cli.doctor.finding import Finding
from controller.cli.doctor.recorded import Recorded
from controller.clock import MachineClock
from controller.core.identity import Owner, Scope
from controller.core.inventory import Listing
from controller.providers.inspecting import Failed, Funds, Inspecting, Offers, Trouble
from controller.providers.qualifying import Qualifying
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.adapter import RunpodReading
from controller.providers.runpod.inspection import Need, RunpodInspection, graphql_address
from controller.providers.runpod.order import Cloud
from controller.providers.runpod.qualification import RunpodQualification
from controller.providers.runpod.wire import Namespace
from controller.settings import Settings
from controller.transport import AsyncTransport

CALL_LIMIT: Final = timedelta(seconds=10)
QUESTION_LIMIT: Final = timedelta(seconds=30)
"""A listing has many pages."""
NOTHING: Final = Failed(trouble=Trouble.SILENT, text=f"no answer within {QUESTION_LIMIT.total_seconds():g} s")
_REFERENCE: Final = re.compile(r"\{\{ RUNPOD_SECRET_([A-Za-z0-9_]+) \}\}")


@dataclass(slots=True, kw_only=True)
class Answers:
    """What came back. Until then each question has found silence."""

    greeting: Failed | None
    billing: Failed | None
    logs: Failed | None
    secrets: frozenset[str] | Failed
    registries: frozenset[str] | Failed
    types: frozenset[str] | Failed
    funds: Funds | Failed
    listing: Listing
    offers: dict[str, Offers | Failed] = field(default_factory=dict)
    sample: Sample | None = None


class Ear:
    """Keeps the date that came fastest: it is the surest."""

    def __init__(self, clock: MachineClock) -> None:
        self._clock = clock
        self.best: Sample | None = None

    def __call__(self, said: datetime | None, *, round_trip: timedelta) -> None:
        if said is not None and (self.best is None or round_trip < self.best.round_trip):
            self.best = Sample(said=said, wall=self._clock.wall(), round_trip=round_trip)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The ways to the account, paced together."""

    inspection: Inspecting
    qualification: Qualifying
    reading: RunpodReading
    needs: Mapping[str, Need]
    ear: Ear


@asynccontextmanager
async def reached(
    settings: Settings, *, key: str, us: Owner, clock: MachineClock, transport: AsyncTransport | None
) -> AsyncIterator[Reach]:
    section = settings.written.runpod
    limit = min(CALL_LIMIT, settings.hosting_policy().call_limit)
    opened = partial(open_api, key=key, transport=transport, limit=limit)
    ear = Ear(clock)
    async with opened(api_url=section.api_url) as http, opened(api_url=graphql_address(section.api_url)) as door:
        account = Account(http, clock=clock, hear=ear)
        needs = needs_of(settings)
        yield Reach(
            inspection=RunpodInspection(account, old_door=Account(door, clock=clock), needs=needs),
            qualification=RunpodQualification(account),
            reading=RunpodReading(account, namespace=_namespace(settings, us)),
            needs=needs,
            ear=ear,
        )


async def ask(reach: Reach, *, now: datetime) -> Answers:
    answers = _silence(now)
    async with anyio.create_task_group() as group:
        for question in _questions(answers, reach.inspection, reach.reading, reach.needs):
            group.start_soon(question)
    answers.sample = reach.ear.best
    return answers


def _silence(now: datetime) -> Answers:
    return Answers(
        greeting=NOTHING,
        billing=NOTHING,
        logs=NOTHING,
        secrets=NOTHING,
        registries=NOTHING,
        types=NOTHING,
        funds=NOTHING,
        listing=Listing(began_at=now, ended_at=now, complete=False, problem=NOTHING.text),
    )


def _questions(
    answers: Answers, inspection: Inspecting, reading: RunpodReading, needs: Mapping[str, Need]
) -> list[Callable[[], Coroutine[Any, Any, None]]]:
    async def put(name: str, read: Callable[[], Awaitable[object]]) -> None:
        with anyio.move_on_after(QUESTION_LIMIT.total_seconds()):
            setattr(answers, name, await read())

    async def offers(alias: str) -> None:
        answers.offers[alias] = NOTHING
        with anyio.move_on_after(QUESTION_LIMIT.total_seconds()):
            answers.offers[alias] = await inspection.read_offers(alias)

    async def listed() -> None:
        """Then a log of what was listed, if anything of ours was."""
        await put("listing", reading.list_resources)
        ours = [seen.key for seen in answers.listing.resources if seen.namespaced]
        await put("logs", partial(inspection.open_log, ours[0] if ours else None))

    return [
        partial(put, "greeting", inspection.greet),
        partial(put, "billing", inspection.open_billing),
        partial(put, "secrets", inspection.read_secret_names),
        partial(put, "registries", inspection.read_registries),
        partial(put, "types", inspection.read_types),
        partial(put, "funds", inspection.read_funds),
        listed,
        *(partial(offers, alias) for alias in needs),
    ]


def _namespace(settings: Settings, us: Owner) -> Namespace:
    policy, section = settings.hosting_policy(), settings.written.runpod
    return Namespace(
        scope=Scope(provider=policy.provider, account=policy.account),
        owner=us,
        prefix=section.prefix,
        foreign_prefixes=section.foreign_prefixes,
        proxy_url=section.proxy_url,
    )


def needs_of(settings: Settings) -> dict[str, Need]:
    return {alias: _need(settings, alias) for alias in settings.models}


def _need(settings: Settings, alias: str) -> Need:
    section = settings.models[alias]
    places = tuple(section.volumes) or section.data_center_ids
    return Need(cards=section.gpu_count, cloud=Cloud(section.cloud_type), places=places)


def judged(settings: Settings, answers: Answers, us: Owner, kept: Recorded | None) -> list[Finding]:
    """Every finding that rests on the provider's answers."""
    models = settings.models
    declared = {alias: section.gpus for alias, section in models.items()}
    found = [
        *judge.greeting(answers.greeting, address=settings.written.runpod.api_url),
        judge.billing(answers.billing),
        judge.logs(answers.logs),
        judge.renting(None if kept is None else kept.answered),
        judge.clock(answers.sample),
        judge.listing(answers.listing),
        judge.tags(answers.listing, name=us.name),
        *judge.owner(answers.listing, us, settled=kept is not None),
        *judge.secrets(answers.secrets, wanted_secrets(settings)),
        *judge.registries(answers.registries, {alias: section.registry for alias, section in models.items()}),
        *judge.gpus(answers.types, declared),
        *(judge.stock(alias, answers.offers[alias], declared[alias]) for alias in models),
        *(
            judge.price(alias, answers.offers[alias], declared[alias], most=section.max_usd_per_hour)
            for alias, section in models.items()
        ),
        judge.funds(answers.funds, dearest=_dearest(answers.offers, declared)),
    ]
    return found


def _dearest(offers: Mapping[str, Offers | Failed], declared: Mapping[str, tuple[str, ...]]) -> Decimal | None:
    prices = (
        offer.usd_per_hour
        for alias, found in offers.items()
        if not isinstance(found, Failed)
        for gpu, offer in found.items()
        if gpu in declared[alias]
    )
    return max((usd for usd in prices if usd is not None), default=None)


def wanted_secrets(settings: Settings) -> dict[str, str]:
    """By name, what each of the provider's secrets is wanted for."""
    wanted: dict[str, str] = {}
    for alias, section in settings.models.items():
        wanted.setdefault(settings.key_secret(alias), f"the key of {alias}'s server")
        if section.hf_token_secret is not None:
            wanted.setdefault(section.hf_token_secret, f"the Hugging Face token of {alias}")
        for value in section.environment.values():
            for name in _REFERENCE.findall(value):
                wanted.setdefault(name, f"named in the environment of {alias}")
    return wanted
