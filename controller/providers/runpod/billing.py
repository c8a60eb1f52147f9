"""What does Runpod's bill for pods say, and is all of it there?

One record per pod and hour. Anything odd (an amount below zero, a bucket that is no hour, fewer records than counted,
a further page) makes the whole answer unreadable: half a bill would prove that something is billed no more.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from controller.core.billing import BUCKET, Bill, Bucket
from controller.core.spend import to_micros
from controller.providers.errors import ProviderError
from controller.providers.runpod.account import Account
from controller.providers.runpod.document import Unreadable, document
from controller.providers.runpod.pace import Kind
from controller.providers.runpod.wire import instant
from controller.transport import TransportError

DENIALS: Final = frozenset({401, 403})
HOUR_USD_MAX: Final = Decimal(1_000_000)


async def read_bill(account: Account, since: datetime) -> Bill:
    asked_at, denied = account.clock.now(), False
    found: tuple[Bucket, ...] | Unreadable
    try:
        answer = await account.call(Kind.READ, "GET", bill_path(since))
        denied, problem = answer.code in DENIALS, Unreadable(what=f"the bill was answered with {answer.code}")
        found = buckets_in(answer.body) if answer.code == 200 else problem
    except (ProviderError, TransportError) as error:
        found = Unreadable(what=str(error))
    if isinstance(found, Unreadable):
        return Bill(since=since, asked_at=asked_at, problem=found.what, denied=denied)
    return Bill(since=since, asked_at=asked_at, buckets=found)


def bill_path(since: datetime) -> str:
    begin = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"/billing/pods?bucketSize=hour&startTime={quote(begin, safe='')}"


def buckets_in(body: bytes) -> tuple[Bucket, ...] | Unreadable:
    shown = document(body)
    if isinstance(shown, Unreadable):
        return shown
    records = shown.get("records") if isinstance(shown, dict) else None
    if not isinstance(records, list):
        return Unreadable(what="the bill has no records")
    if not _whole(shown, len(records)):
        return Unreadable(what="not all of the bill is there")
    found = [_bucket(record) for record in records]
    kept = tuple(bucket for bucket in found if bucket is not None)
    return kept if len(kept) == len(found) else Unreadable(what="a record of the bill makes no sense")


def _whole(shown: dict[str, Any], count: int) -> bool:
    metadata, pages = shown.get("metadata"), shown.get("pagination")
    counted = metadata.get("recordCount") if isinstance(metadata, dict) else None
    return counted == count and not (isinstance(pages, dict) and pages.get("hasNextPage") is not False)


def _bucket(record: Any) -> Bucket | None:
    if not isinstance(record, dict):
        return None
    incarnation, amount = record.get("podId"), _amount(record.get("totalAmount"))
    begin, end = instant(record.get("startTime")), instant(record.get("endTime"))
    if not isinstance(incarnation, str) or amount is None or begin is None or end != begin + BUCKET:
        return None
    return Bucket(incarnation=incarnation, begin=begin, end=end, micros=to_micros(amount))


def _amount(value: Any) -> Decimal | None:
    """Dollars, none or more: what is given back is no bill."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= HOUR_USD_MAX:
        return None
    return Decimal(value)
