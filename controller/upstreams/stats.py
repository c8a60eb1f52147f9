"""What does a model server count about itself?

Its exposition text in, a few numbers out. Names changed over the years, so each number has a list of them, newest
first; one that is missing or no number is `None`, never 0 (requirements, App. F). Counts add up over engines, usage
is the highest.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?")
# Tried at the begin of a word only: else a long word without a value is read anew from each of its letters.
LABEL: Final = re.compile(r'(?<![a-zA-Z0-9_])([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

RUNNING: Final = ("vllm:num_requests_running", "llamacpp:requests_processing")
WAITING: Final = ("vllm:num_requests_waiting", "llamacpp:requests_deferred")
CACHE_USE: Final = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "llamacpp:kv_cache_usage_ratio")
PROMPT_TOKENS: Final = ("vllm:prompt_tokens_total", "llamacpp:prompt_tokens_total")
ANSWER_TOKENS: Final = ("vllm:generation_tokens_total", "llamacpp:tokens_predicted_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """One scrape. Counters are since the server's start; a lower one than before means that it started anew."""

    running: float | None
    waiting: float | None
    cache_use: float | None
    """0 to 1, of the fullest engine."""
    prompt_tokens: float | None
    answer_tokens: float | None


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def stats_in(text: str) -> Stats:
    samples = list(samples_in(text))
    return Stats(
        running=_first(samples, RUNNING, sum),
        waiting=_first(samples, WAITING, sum),
        cache_use=_first(samples, CACHE_USE, max),
        prompt_tokens=_first(samples, PROMPT_TOKENS, sum),
        answer_tokens=_first(samples, ANSWER_TOKENS, sum),
    )


def served_names(text: str) -> tuple[str, ...] | None:
    """The names in vLLM's `model_name` labels; None where there are none."""
    names = {
        value
        for sample in samples_in(text)
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
