"""What follows from what a gateway saw?

A report is a hint. It wakes the tasks, and it obliges a stop only where the machine itself is at fault and no other
gateway streams from it: a key that is refused to one may serve another.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import structlog

from controller.api.panel import Panel
from controller.api.problems import bad_field, count_in, text_in
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.evidence import StopReason
from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.store import owing, replacing
from controller.store.errors import Stale

FAULTS: Final = {
    "key-refused": StopReason.KEY_REFUSED,
    "served-model-mismatch": StopReason.SERVED_MODEL_MISMATCH,
}
HINTS: Final = frozenset({"unreachable", "broken-stream"})
PROVED: Final = "proved"
NO_TOKEN: Final = "no-token"
"""One token was asked for, and none came in time."""
TOKENS: Final = frozenset({PROVED, NO_TOKEN})
KINDS: Final = TOKENS | FAULTS.keys() | HINTS
DETAIL_MOST: Final = 200

log = structlog.get_logger(__name__)


async def take_report(panel: Panel, body: Mapping[str, Any]) -> None:
    """Raises Problem(bad_request). A report of another epoch, or of what does not serve, changes nothing."""
    gateway, kind = text_in(body, "gateway"), text_in(body, "kind")
    deployment, epoch = DeploymentId(text_in(body, "deployment")), count_in(body, "epoch")
    if kind not in KINDS:
        raise bad_field("kind", f"one of {', '.join(sorted(KINDS))} is wanted")
    detail = str(body.get("detail", ""))[:DETAIL_MOST]
    log.info("gateway_reported", gateway=gateway, deployment=deployment, epoch=epoch, kind=kind, detail=detail)
    if not _serves(panel.book.records.get(deployment), epoch):
        return
    if kind in TOKENS and panel.doubts.tell(deployment, came=kind == PROVED, at=panel.now):
        panel.ring("hang_detector")
    if kind == PROVED:
        panel.board.proven.add((deployment, epoch))
        panel.board.ring()
        await _note_proven(panel, deployment, epoch)
        return
    if kind in FAULTS:
        await _oblige(panel, gateway, (deployment, epoch), FAULTS[kind])
    panel.ring()


def _serves(record: Record | None, epoch: int) -> bool:
    return record is not None and record.phase is Phase.ACTIVE and record.epoch == epoch


async def _note_proven(panel: Panel, deployment: DeploymentId, epoch: int) -> None:
    """What it replaces waits for this; nobody else asks for it after our own end."""
    record = panel.book.records.get(deployment)
    if record is not None and record.replaces is not None and record.proven_at is None:
        await panel.store.write(lambda tx: replacing.note_proven(tx, deployment, epoch=epoch))


async def _oblige(panel: Panel, gateway: str, key: tuple[DeploymentId, int], reason: StopReason) -> None:
    def due(book: Book, now: datetime) -> Iterator[owing.Due]:
        record = book.records.get(key[0])
        shielded = panel.stream_leases.others_streaming(gateway, key[0], now=now)
        if record is not None and _serves(record, key[1]) and not shielded:
            yield owing.Due(record=record, reason=reason)

    with suppress(Stale):
        await owing.oblige_by(panel.store, due)
