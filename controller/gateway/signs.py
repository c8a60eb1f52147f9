"""By what does a model server show, on each wire, that its answer is whole, or that it broke off?

vLLM reports a dead engine as an `error` event, and an aborted answer as finish reason "abort", each followed by
`[DONE]` (seen with 0.32, 2026-11-29). Its abort is a null stop reason on Anthropic's wire, and a stop reason that is
missing in a plain answer; on the wire of responses it is a `completed` response whose own status is `cancelled`, where
it can be seen at all (read in 0.33). llama.cpp tells an error on Anthropic's wire by the event's name alone, and on
that of responses as OpenAI's chat does (read in b11434). Hints are cheap to look for; what they point at is read.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

BROKEN_OFF: Final = frozenset({"cancelled", "failed"})
DATA: Final = re.compile(rb"^data: ?(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    failure_hints: tuple[bytes, ...]
    failures: re.Pattern[bytes]
    ambiguous: re.Pattern[bytes] | None = None
    """An event that is a failure only if its data says so."""
    end_hints: tuple[bytes, ...]
    ends: re.Pattern[bytes]
    broke_off: Callable[[Any], bool]
    """Whether a plain answer, read, says that it is none."""
    plain_hint: bytes = b""
    """Without it a plain answer need not be read."""

    def failure_in(self, events: bytes) -> int | None:
        """Where the first event begins that tells of a failure."""
        found = self.failures.search(events)
        at = None if found is None else found.start()
        for event in () if self.ambiguous is None else self.ambiguous.finditer(events):
            data = DATA.search(events, event.start())
            if data is not None and self.broke_off(_read(data[1]).get("response")):
                return event.start() if at is None else min(at, event.start())
        return at

    def failed_plainly(self, answer: bytes) -> bool:
        return self.plain_hint in answer and self.broke_off(_read(answer))


def _read(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _aborted(answer: Any) -> bool:
    choices = answer.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") == "abort" for choice in choices
    )


def _without_reason(answer: Any) -> bool:
    return answer.get("type") == "message" and answer.get("stop_reason") is None


def _never_completed(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("status") in BROKEN_OFF


_ERROR: Final = rb'^event: ?error\b|^data: ?\{"error": ?[{"]|^data: ?\{"type": ?"error"'

CHAT_SIGNS: Final = Signs(
    failure_hints=(b'"error"', b'"abort"'),
    failures=re.compile(rb'^data: ?\{"error": ?[{"]|"finish_reason": ?"abort"', re.MULTILINE),
    end_hints=(b"[DONE]",),
    ends=re.compile(rb"^data: ?\[DONE\]", re.MULTILINE),
    broke_off=_aborted,
    plain_hint=b'"abort"',
)
MESSAGES_SIGNS: Final = Signs(
    failure_hints=(b"error", b"message_delta"),
    failures=re.compile(_ERROR + rb'|^data: ?\{"type": ?"message_delta".*"stop_reason": ?null', re.MULTILINE),
    end_hints=(b"message_stop",),
    ends=re.compile(rb'^data: ?\{"type": ?"message_stop"', re.MULTILINE),
    broke_off=_without_reason,
)
RESPONSES_SIGNS: Final = Signs(
    failure_hints=(b"error", b"response.failed", b'"cancelled"'),
    failures=re.compile(_ERROR + rb"|^event: ?response\.failed", re.MULTILINE),
    ambiguous=re.compile(rb"^event: ?response\.completed", re.MULTILINE),
    end_hints=(b"response.completed", b"response.incomplete"),
    ends=re.compile(rb"^event: ?response\.(completed|incomplete)", re.MULTILINE),
    broke_off=_never_completed,
)
