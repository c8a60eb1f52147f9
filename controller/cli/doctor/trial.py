"""Which machine is rented to find out, and for how long at most?

A model of its own beside those of the config, shaped as one of them on its cheapest card that is in stock. Whatever
runs next on this store and does not know the name (every daemon) takes it for a removed model, and stops it. It may
live for no longer than most of the limit pays for; the rest is for its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from controller.cli.doctor.questions import lasting
from controller.cli.exits import Exit, Failure
from controller.cli.output import span_words
from controller.providers.inspecting import Failed, Offer, Offers, Stock
from controller.settings import Settings
from controller.settings.models import ModelSection

ALIAS: Final = "qualification"
SHARE: Final = Decimal("0.8")
LIFE_LEAST: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    model: str
    """The one that it is shaped as."""
    offer: str
    usd_per_hour: Decimal
    life: timedelta
    cards: int
    reference: str
    """How its key's variable is sent."""


def planned(settings: Settings, offers: Mapping[str, Offers | Failed], *, limit: Decimal, model: str | None) -> Plan:
    """The cheapest of all, or of one model. Raises Failure."""
    if model is not None and model not in settings.models:
        raise Failure(Exit.NOT_FOUND, f"no model {model}; there are: {', '.join(settings.models) or 'none'}")
    found = [
        (offer.usd_per_hour, alias, gpu)
        for alias in settings.models
        if model in {None, alias}
        for gpu, offer in _wanted(offers[alias], settings.models[alias].gpus)
        if offer.usd_per_hour is not None and offer.stock is not Stock.NONE
    ]
    if not found:
        raise Failure(Exit.PROVIDER, "nothing that is configured is in stock at a known price: see `gpuwarden doctor`")
    usd, alias, gpu = min(found)
    life = lasting(limit, usd, share=SHARE)
    if life < LIFE_LEAST:
        least = usd * Decimal(LIFE_LEAST.total_seconds()) / 3600 / SHARE
        words = f"{gpu} costs ${usd}/h: ${limit} pays for {span_words(life.total_seconds())}"
        raise Failure(Exit.REFUSED, f"{words}, and a run may take {span_words(LIFE_LEAST.total_seconds())}: "
                      f"at least ${least:.2f}")  # fmt: skip
    reference = f"{{{{ RUNPOD_SECRET_{settings.key_secret(alias)} }}}}"
    cards = settings.models[alias].gpu_count
    return Plan(model=alias, offer=gpu, usd_per_hour=usd, life=life, cards=cards, reference=reference)


def _wanted(offers: Offers | Failed, types: tuple[str, ...]) -> list[tuple[str, Offer]]:
    return [] if isinstance(offers, Failed) else [(gpu, offers[gpu]) for gpu in types if gpu in offers]


def with_trial(settings: Settings, plan: Plan) -> Settings:
    """The config with the trial's model in it. No key of its server is needed: that the literal reference is refused
    shows enough."""
    written = settings.written
    life = min(plan.life, settings.hosting_policy().max_lifetime)
    changes: dict[str, object] = {
        "gpus": (plan.offer,),
        "replicas": 1,
        "max_usd_per_hour": plan.usd_per_hour,
        "max_lifetime": life,
        "idle_after": life,
        "startup_deadline": min(life, settings.model_policies()[plan.model].startup_deadline),
        "api_key_secret": settings.key_secret(plan.model),
        "probe_key_credential": None,
        "probe_key_file": None,
    }
    models: dict[str, ModelSection] = {**written.models, ALIAS: written.models[plan.model].model_copy(update=changes)}
    return replace(settings, written=written.model_copy(update={"models": models}))
