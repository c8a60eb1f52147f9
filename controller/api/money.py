"""What has it cost, as we estimate it and as the provider bills it?

Two numbers that are never made one (PF-12). The estimate is the rate times the time, and runs on; the bill comes by
the hour and late, so it says until when it goes. Unknown is null: not billed yet, a bill that could not be read, or one
that does not go back to the begin.
"""

from collections.abc import Collection
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from controller.api.panel import Panel
from controller.core.billing import Billed, sum_since
from controller.core.deployment import Record
from controller.core.spend import to_usd
from controller.core.storage import Storage
from controller.store.ledger import believed_micros
from controller.store.transaction import stamp

Json = dict[str, Any]


def billed(panel: Panel, record: Record) -> Billed | None:
    """Of one machine, since its begin."""
    if record.key is None or record.started_at is None:
        return None
    return sum_since(panel.view.value.bill, {record.key.incarnation}, since=record.started_at)


def billed_today(panel: Panel) -> Billed | None:
    """Of everything that we know to be or to have been ours, since midnight UTC."""
    book = panel.book
    keys = [record.key for record in book.records.values()] + list(book.settled)
    keys += [duty.key for duty in book.obligations.values()]
    midnight = panel.now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    since = max([midnight, *_bill_begins(panel)])
    return sum_since(panel.view.value.bill, {key.incarnation for key in keys if key is not None}, since=since)


def _bill_begins(panel: Panel) -> Collection[datetime]:
    """It is asked for from the first of ours on: before that nothing of ours was billed."""
    bill = panel.view.value.bill
    return [] if bill is None else [bill.since]


def of_record(panel: Panel, record: Record) -> Json:
    estimated = believed_micros(record, now=panel.now)
    return {"estimated_usd": _usd(estimated), **_billed_json(billed(panel, record))}


def of_records(panel: Panel, records: Collection[Record]) -> Json:
    """The sum; unknown where it is unknown of one of them."""
    estimates = [believed_micros(record, now=panel.now) for record in records]
    bills = [billed(panel, record) for record in records]
    known = [found for found in bills if found is not None]
    estimated = sum(found for found in estimates if found is not None) if records and None not in estimates else None
    if not known or len(known) < len(bills):
        return {"estimated_usd": _usd(estimated), **_billed_json(None)}
    whole = Billed(micros=sum(found.micros for found in known), until=min(found.until for found in known))
    return {"estimated_usd": _usd(estimated), **_billed_json(whole)}


def of_today(panel: Panel) -> Json:
    return _billed_json(billed_today(panel))


def of_storage(panel: Panel) -> Json:
    """What the volumes that models name bill, beside everything else here. Not asked for yet is unknown, unless there
    are none."""
    none, storage = Storage(volumes=()), panel.view.value.storage
    named = any(model.volumes for model in panel.models.values())
    told = storage or none
    known = storage is not None or not named
    return {
        "usd_per_hour": _rounded(told.usd_per_hour) if known else None,
        "usd_per_month": _rounded(told.usd_per_month) if known else None,
        "asked_at": None if told.asked_at is None else stamp(told.asked_at),
        "problem": told.problem,
        "volumes": [
            {
                "id": volume.id,
                "place": volume.place,
                "models": list(volume.models),
                "found": volume.found,
                "size_gb": volume.size_gb,
                "usd_per_hour": _rounded(volume.usd_per_hour),
                "usd_per_month": _rounded(volume.usd_per_month),
            }
            for volume in told.volumes
        ],
    }


def _rounded(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.4f}"


def _billed_json(found: Billed | None) -> Json:
    if found is None:
        return {"billed_usd": None, "billed_until": None}
    return {"billed_usd": _usd(found.micros), "billed_until": stamp(found.until)}


def _usd(micros: int | None) -> str | None:
    return None if micros is None else f"{to_usd(micros):.4f}"


def in_words(panel: Panel, record: Record) -> str:
    """Beside the estimate, in a line for people."""
    found = billed(panel, record)
    if found is None:
        return "billed: unknown so far"
    return f"billed: ${to_usd(found.micros):.4f} until {stamp(found.until)}"
