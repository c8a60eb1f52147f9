"""What will a model need and cost, as far as it can be told without asking anybody?

Joins what the config says with what the model's own files say: weights, cache of one request of the full context, room
on each card type, disks, longest start and what it costs at worst. What is not known is None with its reason, never a
guess. A fault is what makes a start fail for certain, and is paid for until it does; the rest is an estimate.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Final

from controller.core.architecture import Architecture, read_architecture
from controller.core.layers import CannotSize
from controller.core.sizing import GB, Room, cache_bytes, room, split_faults
from controller.core.spend import cost_micros, to_micros, to_usd
from controller.core.storage import standard_usd_per_month
from controller.settings import Settings
from controller.settings.cache_numbers import number_bytes
from controller.settings.cards import CARD_GB
from controller.settings.hub_sizes import HubSize
from controller.settings.model_files import ModelFiles
from controller.settings.models import ModelSection
from controller.settings.problems import Problem
from controller.settings.sizes import disk_fits, volume_gb

_DAY: Final = timedelta(days=1)
_STEP_TOKENS: Final = 2048
_STEP_TOKENS_LARGE: Final = 8192
_LARGE_CARD_GB: Final = 76
"""vLLM reads a prompt in larger steps on cards from 70 GiB, A100 aside."""
_LLAMA_STEP_TOKENS: Final = 768
"""llama.cpp's physical batch of 512, and what it rounds up to."""
_SIZES_DIFFER: Final = Decimal("1.05")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One GPU type that may be rented. `room` None: its memory, the weights or the cache are unknown."""

    offer: str
    card_gb: int | None
    room: Room | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    alias: str
    cards: int
    context: int
    requests: int
    weights_bytes: int | None
    cache_bytes: int | None
    """Of one request of the full context, before cards share it."""
    cannot_size: str | None
    """Why the cache is not known."""
    fits: tuple[Fit, ...]
    disk_gb: int
    volume_gb: int | None
    """At least so large, where the weights lie on a network volume."""
    usd_per_hour: Decimal | None
    """Ceiling for the whole machine; None: the catalog's price at the time."""
    startup_deadline: timedelta
    startup_longest: timedelta
    """While progress is seen."""
    cold_start_usd: Decimal | None
    """What a start costs at worst, rounded up to a cent."""
    faults: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def fit(self) -> bool | None:
        """True or False where all GPU types agree, else None."""
        found = {None if one.room is None else one.room.fits for one in self.fits}
        return found.pop() if len(found) == 1 else None


def estimate(settings: Settings, alias: str, files: ModelFiles | None) -> Estimate:
    section, policy = settings.models[alias], settings.model_policies()[alias]
    weights = _weights(section, files)
    architecture, why = _architecture(section, files, settings, alias)
    ceiling, longest = section.max_usd_per_hour, policy.startup_deadline_extended
    found = Estimate(
        alias=alias,
        cards=section.gpu_count,
        context=section.context,
        requests=section.max_num_seqs,
        weights_bytes=weights,
        cache_bytes=None if architecture is None else _cache(section, architecture),
        cannot_size=why,
        fits=tuple(_fit(section, offer, architecture, weights) for offer in section.gpus),
        disk_gb=settings.disk_gb(alias),
        volume_gb=volume_gb(Decimal(weights) / GB) if section.volumes and weights else None,
        usd_per_hour=ceiling,
        startup_deadline=policy.startup_deadline,
        startup_longest=longest,
        cold_start_usd=None if ceiling is None else cost_of(ceiling, longest),
    )
    return replace(
        found,
        faults=tuple(_faults(settings, found, architecture)),
        notes=tuple(_notes(settings, found, files, architecture)),
    )


def _weights(section: ModelSection, files: ModelFiles | None) -> int | None:
    if section.model_size_gb is not None:
        return int(section.model_size_gb * GB)
    return None if files is None else files.weights_bytes


def _architecture(
    section: ModelSection, files: ModelFiles | None, settings: Settings, alias: str
) -> tuple[Architecture | None, str | None]:
    if files is None or files.config is None:
        place = settings.model_files(alias) if files is None else files.place
        return None, f"there is no config.json of the model; put it into {place}, or name it with --model-files"
    try:
        architecture = read_architecture(files.config)
        number_bytes(section, architecture)
    except CannotSize as unknown:
        return None, unknown.why
    return architecture, None


def _cache(section: ModelSection, architecture: Architecture, *, cards: int = 1, step_tokens: int = 0) -> int:
    return cache_bytes(
        architecture,
        context=section.context,
        element=number_bytes(section, architecture),
        cards=cards,
        step_tokens=step_tokens,
    )


def _fit(section: ModelSection, offer: str, architecture: Architecture | None, weights: int | None) -> Fit:
    card_gb = CARD_GB.get(offer)
    if card_gb is None or architecture is None or weights is None:
        return Fit(offer=offer, card_gb=card_gb, room=None)
    cards = section.gpu_count
    if section.server == "llama_cpp":
        # Layers, not heads, are shared out, and all slots are laid out at the start.
        all_slots = section.max_num_seqs * _cache(section, architecture, step_tokens=_LLAMA_STEP_TOKENS)
        found = room(
            card_gb=card_gb, share=Decimal(1), weights_bytes=weights, cards=cards, cache=-(-all_slots // cards)
        )
        return Fit(offer=offer, card_gb=card_gb, room=replace(found, contexts=found.contexts * section.max_num_seqs))
    cache = _cache(section, architecture, cards=cards, step_tokens=_step_tokens(section, offer, card_gb))
    found = room(card_gb=card_gb, share=section.gpu_util, weights_bytes=weights, cards=cards, cache=cache)
    return Fit(offer=offer, card_gb=card_gb, room=found)


def _step_tokens(section: ModelSection, offer: str, card_gb: int) -> int:
    large = card_gb >= _LARGE_CARD_GB and "A100" not in offer
    return section.max_num_batched_tokens or (_STEP_TOKENS_LARGE if large else _STEP_TOKENS)


def cost_of(usd_per_hour: Decimal, span: timedelta) -> Decimal:
    """Rounded up to a cent."""
    return to_usd(cost_micros(to_micros(usd_per_hour), span)).quantize(Decimal("0.01"), ROUND_CEILING)


def _faults(settings: Settings, found: Estimate, architecture: Architecture | None) -> Iterator[Problem]:
    """What makes every start fail, and each is paid for until it does."""
    section = settings.models[found.alias]

    def fault(key: str, value: object, why: str, mend: str) -> Problem:
        shown = None if value is None else str(value)
        full = f"models.{found.alias}.{key}"
        return Problem(file=str(settings.file), line=None, key=full, value=shown, why=why, mend=mend)

    if architecture is not None and section.server == "vllm":
        if wrong := next(split_faults(architecture, found.cards), None):
            yield fault("gpu_count", found.cards, wrong, f"write one of {_counts(architecture)}")
        most = architecture.context_most
        if most is not None and found.context > most and "VLLM_ALLOW_LONG_MAX_MODEL_LEN" not in section.environment:
            yield fault("context", found.context, f"the model takes at most {most} tokens", f"write at most {most}")
    if found.weights_bytes is not None and not section.volumes:
        size = gigabytes(found.weights_bytes)
        if not disk_fits(found.disk_gb, size):
            why = f"weights of {size} GB do not fit on the container disk of {found.disk_gb} GB"
            if section.disk_gb is None:
                yield fault("model_size_gb", None, f"missing: {why} that an unknown size gets", f"write {size}")
            else:
                yield fault("disk_gb", section.disk_gb, why, "leave it out, and write model_size_gb")


def _counts(architecture: Architecture) -> str:
    return ", ".join(str(cards) for cards in range(1, 17) if not list(split_faults(architecture, cards)))


def _notes(
    settings: Settings, found: Estimate, files: ModelFiles | None, architecture: Architecture | None
) -> Iterator[str]:
    section = settings.models[found.alias]
    if found.cannot_size is not None:
        yield f"cannot size its cache: {found.cannot_size}"
    yield from _size_notes(section, files, found, settings.hub_sizes.get(found.alias))
    yield from _fit_notes(found)
    if architecture is not None and architecture.senses:
        yield "what it takes while it reads pictures or sound is not counted"
    if section.adapters:
        yield "what its adapters take on the card is not counted"
    if section.hf_token_secret is None:
        yield "no hf_token_secret: a download that took 646 s with a token took 1646 s without"
    yield from _volume_notes(found, volumes=len(section.volumes))
    lifetime = settings.model_policies()[found.alias].max_lifetime
    yield from _price_notes(found, lifetime=lifetime, usd_per_day=settings.written.usd_per_day)


def _size_notes(
    section: ModelSection, files: ModelFiles | None, found: Estimate, told: HubSize | None
) -> Iterator[str]:
    declared = section.model_size_gb
    if told is not None:
        yield f"the size of its weights is the hub's, asked on {told.asked_at:%Y-%m-%d}; model_size_gb stands above it"
    if found.weights_bytes is None:
        yield "the size of its weights is unknown, so disk and startup deadline are those of any model: " + (
            "write model_size_gb, or let --online ask the hub"
        )
    elif declared is None:
        size = gigabytes(found.weights_bytes)
        yield f"write model_size_gb = {size}, as its files say: disk and startup deadline do not follow from them"
    elif files is not None and files.weights_bytes is not None:
        size = gigabytes(files.weights_bytes)
        if not declared / _SIZES_DIFFER <= size <= declared * _SIZES_DIFFER:
            stated = f"model_size_gb = {declared}" if told is None else f"the hub says {declared} GB"
            yield f"{stated}, but its files say {size}"


def _fit_notes(found: Estimate) -> Iterator[str]:
    for one in found.fits:
        if one.card_gb is None:
            yield f"the memory of {one.offer} is not known here"
        elif one.room is not None and not one.room.fits:
            missing = gigabytes(-one.room.left_bytes)
            yield (
                f"does not fit {found.cards} × {one.offer}: {missing} GB a card are missing; take a larger or a further"
                " card, or lower context"
            )


def _volume_notes(found: Estimate, *, volumes: int) -> Iterator[str]:
    """Nothing of ours makes a volume or ends one, so no estimate counts them."""
    if not volumes:
        return
    told = "its volume bills" if volumes == 1 else f"each of its {volumes} volumes bills"
    text = f"{told} day and night, which neither usd_per_day nor any estimate here counts"
    if found.volume_gb is None:
        yield text
    else:
        usd = standard_usd_per_month(found.volume_gb)
        yield f"{text}: about ${usd:.2f} a month at {found.volume_gb} GB of the standard kind"


def _price_notes(found: Estimate, *, lifetime: timedelta, usd_per_day: Decimal) -> Iterator[str]:
    ceiling = found.usd_per_hour
    if ceiling is None:
        yield "no max_usd_per_hour: its price is the catalog's of the moment, up to what usd_per_day allows"
        return
    reserved = cost_of(ceiling, min(lifetime, _DAY))
    if reserved > usd_per_day:
        hours = usd_per_day / ceiling
        begin = _DAY - timedelta(hours=float(hours))
        yield (
            f"a start reserves its ceiling until midnight UTC, up to {reserved} USD: with usd_per_day = {usd_per_day}"
            f" it is refused before {_clock(begin)} UTC"
        )


def _clock(span: timedelta) -> str:
    minutes = math.ceil(span / timedelta(minutes=1))
    return f"{minutes // 60:02}:{minutes % 60:02}"


def gigabytes(amount: int, rounding: str = ROUND_CEILING) -> Decimal:
    """To a tenth of a GB; what is needed is rounded up."""
    return (Decimal(amount) / GB).quantize(Decimal("0.1"), rounding)
