"""What is said while running, where does it go, and what must never be in it?

One line per event on stdout: JSON for a collector, words on a terminal. Events are names with fields. No secret and no
prompt gets through: fields that are named like one are blanked, and every secret value that a process has opened is
registered here and replaced wherever it turns up, tracebacks included.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final, TextIO, cast

# structlog takes rich for tracebacks wherever that is installed: 5 MB and 0.1 s for what no daemon shows (measured,
# November 2026). Hidden for the moment of the import, it does without.
_HIDE: Final = "rich" not in sys.modules
if _HIDE:
    sys.modules["rich"] = None  # type: ignore[assignment]
import structlog  # noqa: E402
from structlog.typing import EventDict, Processor, WrappedLogger  # noqa: E402

if _HIDE:
    del sys.modules["rich"]

BLANK: Final = "[redacted]"
LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_SECRET_WORDS: Final = frozenset({
    "authorization", "credential", "credentials", "env", "environment", "key", "keys", "password", "secret", "secrets",
    "token", "cookie", "webhook",
})  # fmt: skip
_PROMPT_WORDS: Final = frozenset({"prompt", "messages", "input", "content", "body", "completion"})
_SECRET_LENGTH_LEAST: Final = 8
"""A shorter one would blank out ordinary words."""

_known_secrets: set[str] = set()


def register_secret(value: str) -> None:
    """Never print this value from now on."""
    if len(value) >= _SECRET_LENGTH_LEAST:
        _known_secrets.add(value)


def forget_secrets() -> None:
    """For tests."""
    _known_secrets.clear()


def redact(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Blank what is named like a secret or a prompt, and replace every registered value, however deep."""
    return {name: BLANK if _private(name) else _clean(value) for name, value in event.items()}


def _private(name: object) -> bool:
    words = str(name).lower().replace("-", "_").split("_")
    # A resource's key and a count of tokens are no secrets; `resource_key` is how the former is logged.
    if words[-1] == "key" and words[:-1] in (["resource"], ["config"]):
        return False
    return bool(_SECRET_WORDS & set(words)) or words[-1] in _PROMPT_WORDS


def _clean(value: object) -> object:
    match value:
        case str():
            return scrubbed(value)
        case Mapping():
            return {scrubbed(str(key)): BLANK if _private(key) else _clean(entry) for key, entry in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_clean(entry) for entry in value]
        case None | bool() | int() | float():
            return value
        case _:
            return scrubbed(str(value))


def scrubbed(text: str) -> str:
    """`text` without any registered secret."""
    for secret in _known_secrets:
        if secret in text:
            text = text.replace(secret, BLANK)
    return text


TALKATIVE: Final = ("httpx", "alembic", "uvicorn")
"""Libraries that tell each call or start at the level of news; told at debug only."""


def configure(level: str = "info", *, stream: TextIO | None = None) -> None:
    """Once, by a composition root. Raises KeyError for a level that there is not."""
    target = stream or cast(TextIO, _Unfailing(sys.stdout))
    structlog.configure(
        processors=[*_steps(), _writer(target)],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=False,
    )
    _take_in_logging(level, target)


def line_writer(*, stream: TextIO | None = None) -> Callable[[Sequence[str]], None]:
    """Writes lines of the same look, each given as an object in JSON, whose fields are known to hold nothing private:
    those are not gone through one by one, which costs most. A registered secret is replaced all the same. They are
    written whatever the level."""
    target = stream or cast(TextIO, _Unfailing(sys.stdout))
    for_people = target.isatty()

    def write(lines: Sequence[str]) -> None:
        if for_people:
            lines = [_words(None, "info", json.loads(line)) for line in lines]
        target.write(scrubbed("\n".join([*lines, ""])))
        target.flush()

    return write


class _Unfailing:
    """A stream that nobody may read any more: what cannot be said must not stop what is being done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except (OSError, ValueError) as problem:
            self._lost(problem)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError) as problem:
            self._lost(problem)

    def _lost(self, problem: Exception) -> None:
        """A reader that left does not come back; Python would try once more at its end, and fail with 120."""
        if isinstance(problem, BrokenPipeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


def _take_in_logging(level: str, target: TextIO) -> None:
    """What libraries say through `logging` goes the same way; uvicorn and httpx speak there."""
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_logger_name, *_steps()],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact, _writer(target)],
    )
    sink = logging.StreamHandler(target)
    sink.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers = [sink]
    root.setLevel(max(LEVELS[level], logging.INFO))
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.NOTSET if LEVELS[level] <= logging.DEBUG else logging.WARNING)


def _steps() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        # Before redaction: a traceback quotes what was passed.
        structlog.processors.format_exc_info,
        redact,
    ]


def _writer(target: TextIO) -> Processor:
    if target.isatty():
        return _words
    return structlog.processors.JSONRenderer(sort_keys=False, ensure_ascii=False)


def _words(_: WrappedLogger, __: str, event: MutableMapping[str, Any]) -> str:
    """For people: time, level, event, fields. structlog's own console renderer would bring rich along."""
    at, level, name = str(event.pop("at", "")), event.pop("level", ""), event.pop("event", "")
    traceback = event.pop("exception", None)
    fields = " ".join(f"{key}={_short(value)}" for key, value in event.items())
    line = f"{at[11:19]} {level:7} {name} {fields}".rstrip()
    return line if traceback is None else f"{line}\n{traceback}"


def _short(value: object) -> str:
    text = str(value)
    return repr(text) if not text or any(char.isspace() or not char.isprintable() for char in text) else text
