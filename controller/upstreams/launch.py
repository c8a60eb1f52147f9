"""What do the commands of all model servers have in common?

How thinking is said to a chat template, and how JSON is written into an argument.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any


class BadLaunch(ValueError):
    """These values cannot start a model server."""


class Effort(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


def template_values(effort: Effort | None, *, thinking: bool) -> dict[str, Any]:
    """Chat templates know the switch by one of two names; the one that a template does not know does nothing (MS-5)."""
    values: dict[str, Any] = {"enable_thinking": thinking, "thinking": thinking}
    return values if effort is None else values | {"reasoning_effort": effort.value}


def compact(values: Mapping[str, Any]) -> str:
    """JSON without spaces. Raises BadLaunch for what is none."""
    try:
        return json.dumps(values, separators=(",", ":"), allow_nan=False, default=_number)
    except (TypeError, ValueError) as error:
        raise BadLaunch("sampling values are no JSON") from error


def _number(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(type(value).__name__)
