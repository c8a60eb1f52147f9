"""What does a model server count about itself?

Its exposition text in, a few numbers out. Names changed over the years, so each number has a list of them, newest
first; one that is missing or no number is `None`, never 0 (requirements, App. F). Counts add up over engines, usage
is the highest.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from controller.core.runtime import Scrape, normal

SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?")
# Tried at the begin of a word only: else a long word without a value is read anew from each of its letters.
LABEL: Final = re.compile(r'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

RUNNING: Final = ("vllm:num_requests_running", "llamacpp:requests_processing")
WAITING: Final = ("vllm:num_requests_waiting", "llamacpp:requests_deferred")
CACHE_USE: Final = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "llamacpp:kv_cache_usage_ratio")
PROMPT_TOKENS: Final = ("vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total")
ANSWER_TOKENS: Final = ("vllm:generation_tokens_total", "llamacpp:tokens_predicted_total")
STEPS: Final = ("vllm:generation_tokens_total", "llamacpp:n_decode_total")
PROMPT_RATE: Final = ("llamacpp:prompt_tokens_seconds", "vllm:avg_prompt_throughput_toks_per_s")
ANSWER_RATE: Final = ("llamacpp:predicted_tokens_seconds", "vllm:avg_generation_throughput_toks_per_s")
PROCESS_START: Final = ("process_start_time_seconds",)
INSTANT_MOST_S: Final = 4e9


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def stats_in(text: str) -> Scrape:
    return told_in(text)[1]


def served_names(text: str) -> tuple[str, ...] | None:
    """The names in vLLM's `model_name` labels; None where there are none."""
    return told_in(text)[0]


def told_in(text: str) -> tuple[tuple[str, ...] | None, Scrape]:
    """Both, for one reading of what may be a megabyte."""
    samples = list(samples_in(text))
    return _names(samples), _scrape(samples)


def _scrape(samples: list[Sample]) -> Scrape:
    def total(names: tuple[str, ...]) -> float | None:
        return normal(_first(samples, names, sum))

    return Scrape(
        running=total(RUNNING),
        waiting=total(WAITING),
        cache_use=normal(_first(samples, CACHE_USE, max), most=1.0),
        prompt_tokens=total(PROMPT_TOKENS),
        answer_tokens=total(ANSWER_TOKENS),
        steps=total(STEPS),
        prompt_rate=total(PROMPT_RATE),
        answer_rate=total(ANSWER_RATE),
        process_started_at=_instant(_first(samples, PROCESS_START, max)),
    )


def with_slots(scrape: Scrape, body: bytes) -> Scrape:
    """llama.cpp tells how full its cache is by its slots alone: the tokens that each holds, of its share (LS-24). Slots
    that do not say it leave it unknown."""
    try:
        slots = json.loads(body)
    except (ValueError, RecursionError):
        return scrape
    if scrape.cache_use is not None or not isinstance(slots, list) or not slots:
        return scrape
    shares = [_share(slot) for slot in slots]
    known = [share for share in shares if share is not None]
    return replace(scrape, cache_use=max(known)) if known else scrape


def _share(slot: Any) -> float | None:
    """One slot's use of its context; `n_past` is the word of older builds."""
    context = _count(slot.get("n_ctx")) if isinstance(slot, dict) else None
    if not context:
        return None
    held = _count(slot.get("n_past"))
    if held is None:
        held = _processed(slot)
    return None if held is None else min(held / context, 1.0)


def _processed(slot: dict[str, Any]) -> int | None:
    """Newer builds count what a slot has taken in and written for its present task."""
    if slot.get("is_processing") is False:
        return 0
    following = slot.get("next_token")
    first = following[0] if isinstance(following, list) and following else None
    written = _count(first.get("n_decoded")) if isinstance(first, dict) else None
    taken = _count(slot.get("n_prompt_tokens_processed"))
    if taken is None or written is None:
        return None
    return taken + written + (_count(slot.get("n_prompt_tokens_cache")) or 0)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _instant(seconds: float | None) -> datetime | None:
    if seconds is None or not 0 < seconds < INSTANT_MOST_S:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def _names(samples: Iterable[Sample]) -> tuple[str, ...] | None:
    names = {
        value
        for sample in samples
        if sample.name.startswith("vllm:")
        for label, value in sample.labels
        if label == "model_name" and value
    }
    return tuple(sorted(names)) or None


def samples_in(text: str) -> Iterator[Sample]:
    """Every line that is a sample with a finite value; the rest says nothing."""
    for line in text.splitlines():
        match = SAMPLE.fullmatch(line.strip())
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        if math.isfinite(value):
            yield Sample(match["name"], _labels(match["labels"] or ""), value)


def _labels(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, re.sub(r"\\.", lambda escape: ESCAPES.get(escape[0], escape[0]), value))
        for name, value in LABEL.findall(text)
    )


def _first(samples: list[Sample], names: tuple[str, ...], together: Callable[[Iterable[float]], float]) -> float | None:
    for name in names:
        values = [sample.value for sample in samples if sample.name == name]
        if values:
            return together(values)
    return None
