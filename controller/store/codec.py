"""How does a value become a row, and a row a value again?

One small table of fields for each kind of row, so that no column is written under one rule and read under another.
Unknown is NULL both ways: None, False and True stay three things (HC-5).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar

from controller.clock import from_ms, to_ms
from controller.core.evidence import Evidence, EvidenceKind
from controller.core.identity import ResourceKey

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One attribute and its column; both conversions get no `None`."""

    attribute: str
    column: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def plain(attribute: str, column: str | None = None) -> Field:
    return Field(attribute=attribute, column=column or attribute, write=_same, read=_same)


def instant(attribute: str) -> Field:
    return Field(attribute=attribute, column=f"{attribute}_ms", write=to_ms, read=from_ms)


def span(attribute: str) -> Field:
    return Field(attribute=attribute, column=f"{attribute}_ms", write=span_to_ms, read=span_from_ms)


def word(attribute: str, kind: type[StrEnum]) -> Field:
    return Field(attribute=attribute, column=attribute, write=lambda value: value.value, read=kind)


def resource(attribute: str = "key", column: str = "resource") -> Field:
    return Field(attribute=attribute, column=column, write=key_to_text, read=key_from_text)


def proof(attribute: str = "evidence") -> Field:
    return Field(attribute=attribute, column=attribute, write=evidence_to_text, read=evidence_from_text)


def span_to_ms(value: timedelta) -> int:
    return value // timedelta(milliseconds=1)


def span_from_ms(ms: int) -> timedelta:
    return timedelta(milliseconds=ms)


def key_to_text(key: ResourceKey) -> str:
    """Canonical, so that the database can tell two keys apart."""
    return json.dumps([key.provider, key.account, key.name, key.incarnation], separators=(",", ":"))


def key_from_text(text: str) -> ResourceKey:
    provider, account, name, incarnation = json.loads(text)
    return ResourceKey(provider=provider, account=account, name=name, incarnation=incarnation)


def evidence_to_text(evidence: Evidence) -> str:
    return json.dumps(
        {
            "kind": evidence.kind.value,
            "reference": evidence.reference,
            "observed_at_ms": to_ms(evidence.observed_at),
        }
    )


def evidence_from_text(text: str) -> Evidence:
    row = json.loads(text)
    return Evidence(
        kind=EvidenceKind(row["kind"]), reference=row["reference"], observed_at=from_ms(row["observed_at_ms"])
    )


def instants_to_text(instants: tuple[datetime, ...]) -> str:
    return json.dumps([to_ms(at) for at in instants])


def instants_from_text(text: str) -> tuple[datetime, ...]:
    return tuple(from_ms(ms) for ms in json.loads(text))


T = TypeVar("T")


def to_row(value: object, fields: tuple[Field, ...]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in fields:
        found = getattr(value, field.attribute)
        row[field.column] = None if found is None else storable(field.write(found))
    return row


def storable(value: Any) -> Any:
    """Half a character may come in with somebody's JSON; it must not keep a fact from being written."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def from_row(kind: Callable[..., T], row: Row, fields: tuple[Field, ...]) -> T:
    found = {field.attribute: row[field.column] for field in fields}
    reads = {field.attribute: field.read for field in fields}
    return kind(**{name: None if value is None else reads[name](value) for name, value in found.items()})
