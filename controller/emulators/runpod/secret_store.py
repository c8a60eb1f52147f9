"""How are an account's secrets listed, made, changed and removed?

A value can be written and never read. The values themselves are in the settings, where tests put them too; here they
get ids and dates. Runpod's rules for names (2026-09-17): 191 characters at most, no prefix RUNPOD.
"""

from __future__ import annotations

import re
from typing import Any, Final

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import bodies
from controller.emulators.runpod.api_call import Ask
from controller.emulators.runpod.bodies import Refused
from controller.emulators.runpod.shapes import or_null, record, text
from controller.emulators.runpod.shown import in_rfc3339

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.\-/]{0,190}")
_CREATE: Final = record(
    {"name": text(shortest=1), "value": text(shortest=1), "description": or_null(text())}, required=("name", "value")
)
_CHANGE: Final = record({"value": text(shortest=1), "description": or_null(text())})


def list_secrets(ask: Ask, _: str) -> Answer:
    wanted = ask.request.parameters().get("name")
    names = [name for name in ask.emulator.settings.secrets if wanted in (None, name)]
    return in_json(200, {"secrets": [_shown(ask, name) for name in names]})


def create_secret(ask: Ask, _: str) -> Answer:
    asked = bodies.read_as(ask.request.body, _CREATE)
    name = asked["name"]
    if not _NAME.fullmatch(name) or name.upper().startswith("RUNPOD"):
        raise Refused(422, "Request validation failed.", ["$.name: not a name for a secret"])
    if name in ask.emulator.settings.secrets:
        raise Refused(409, "a secret of this name exists")
    _write(ask, name, asked["value"])
    return in_json(201, _shown(ask, name))


def get_secret(ask: Ask, secret_id: str) -> Answer:
    return in_json(200, _shown(ask, _find(ask, secret_id)))


def change_secret(ask: Ask, secret_id: str) -> Answer:
    asked, name = bodies.read_as(ask.request.body, _CHANGE), _find(ask, secret_id)
    if "value" in asked:
        _write(ask, name, asked["value"])
    return in_json(200, _shown(ask, name))


def remove_secret(ask: Ask, secret_id: str) -> Answer:
    name = _find(ask, secret_id)
    if not ask.ignore:
        kept = {key: value for key, value in ask.emulator.settings.secrets.items() if key != name}
        ask.emulator.change_settings({"secrets": kept})
    return Answer(status=204)


def _write(ask: Ask, name: str, value: str) -> None:
    if not ask.ignore:
        ask.emulator.change_settings({"secrets": ask.emulator.settings.secrets | {name: value}})


def _find(ask: Ask, secret_id: str) -> str:
    for name in ask.emulator.settings.secrets:
        if _id_of(name) == secret_id:
            return name
    raise Refused(404, "resource not found")


def _id_of(name: str) -> str:
    return f"secret_{name.encode().hex()}"


def _shown(ask: Ask, name: str) -> dict[str, Any]:
    moment = in_rfc3339(ask.emulator.began_at)
    return {"id": _id_of(name), "name": name, "createdAt": moment, "description": None, "valueLastUpdatedAt": None}
