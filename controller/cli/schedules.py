"""What does a model's schedule say, in words for people?"""

from typing import Any

from controller.core.policy import ModelPolicy
from controller.core.schedule import Off, Open, Warm

_WORDS = {"warm": "kept warm until", "off": "off until", "open": "open until"}


def said(schedule: object) -> str | None:
    """Of the daemon's JSON; nothing where no window is open."""
    if not isinstance(schedule, dict) or schedule.get("stance") not in {"warm", "off"}:
        return None
    return f"{_WORDS[schedule['stance']]} {str(schedule.get('until'))[:16].replace('T', ' ')} UTC"


def foreseen(model: ModelPolicy, stance: Open | Warm | Off) -> dict[str, Any] | None:
    """What the windows say now, before anything ran; nothing without windows."""
    if stance.until is None:
        return None
    word = {Warm: "warm", Off: "off", Open: "open"}[type(stance)]
    return {"stance": word, "until": stance.until.isoformat(), "zone": str(model.schedule.zone)}


def words(found: dict[str, Any]) -> str:
    until = found["until"][:16].replace("T", " ")
    return f"{_WORDS[found['stance']]} {until} UTC (windows in {found['zone']})"
