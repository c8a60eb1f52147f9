"""How busy do the ready machines say they are?

What the model servers counted in the latest probe, as operators and monitoring read it: each number known or null. A
sum over a model's machines is known only where each of them told its part.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from controller.api.panel import Panel
from controller.core.deployment import Record
from controller.core.lifecycle import Phase
from controller.core.runtime import Runtime
from controller.store.transaction import stamp

Json = dict[str, Any]
Number = Callable[[Runtime], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One number: its name in JSON, in monitoring, and what it is."""

    field: str
    metric: str
    says: str
    read: Number
    whole: Callable[[list[float]], float] = sum


SHOWN: Final = (
    Shown(
        field="running",
        metric="model_requests_running",
        says="Requests in work, as the model servers say.",
        read=lambda runtime: runtime.scrape.running,
    ),
    Shown(
        field="waiting",
        metric="model_requests_waiting",
        says="Requests that wait inside the model servers.",
        read=lambda runtime: runtime.scrape.waiting,
    ),
    Shown(
        field="cache_use",
        metric="model_cache_use_ratio",
        says="Share of the key-value cache in use, of the fullest machine.",
        read=lambda runtime: runtime.scrape.cache_use,
        whole=max,
    ),
    Shown(
        field="prompt_tokens_per_second",
        metric="model_prompt_tokens_per_second",
        says="Prompt tokens taken in a second, between the latest two scrapes.",
        read=lambda runtime: runtime.prompt_rate,
    ),
    Shown(
        field="answer_tokens_per_second",
        metric="model_answer_tokens_per_second",
        says="Tokens written a second, between the latest two scrapes.",
        read=lambda runtime: runtime.answer_rate,
    ),
)


def load(panel: Panel, alias: str) -> list[Json]:
    """One entry for each machine that serves; its numbers are null where it tells none."""
    return [_entry(record, runtime) for record, runtime in _serving(panel, alias)]


def _entry(record: Record, runtime: Runtime | None) -> Json:
    numbers = {shown.field: None if runtime is None else _rounded(shown.read(runtime)) for shown in SHOWN}
    return {"deployment": record.id, "at": None if runtime is None else stamp(runtime.at), **numbers}


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def total(panel: Panel, alias: str, shown: Shown) -> float | None:
    """Over all machines of the model that serve; unknown where one of them does not tell."""
    told = [None if runtime is None else shown.read(runtime) for _, runtime in _serving(panel, alias)]
    known = [number for number in told if number is not None]
    return shown.whole(known) if known and len(known) == len(told) else None


def _serving(panel: Panel, alias: str) -> Iterator[tuple[Record, Runtime | None]]:
    probes = panel.view.value.probes
    for record in panel.live(alias):
        if record.phase is Phase.ACTIVE:
            probed = probes.get(record.id)
            yield record, None if probed is None else probed.runtime


def in_words(runtime: Runtime) -> str:
    """For people; only what is known."""
    scrape = runtime.scrape
    parts = (
        ("{:.0f} running", scrape.running),
        ("{:.0f} waiting", scrape.waiting),
        ("cache {:.0%} full", scrape.cache_use),
        ("{:.1f} prompt tokens a second", runtime.prompt_rate),
        ("{:.1f} tokens written a second", runtime.answer_rate),
    )
    return ", ".join(text.format(number) for text, number in parts if number is not None)
