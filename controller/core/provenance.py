"""Which of the resources that were seen came of this deployment's creates?

Told by its request ids: each is random, and nobody else knows it. A lost create made what carries one of them; and if
the recorded key is proven missing while one resource of ours carries one, the provider moved it there (design,
section 5).
"""

from dataclasses import replace

from controller.core.book import Book
from controller.core.deployment import Record, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import RequestId
from controller.core.inventory import NotFound
from controller.core.lifecycle import SERVING, Phase
from controller.core.orphans import ended
from controller.core.policy import ModelPolicy
from controller.core.view import View


def requests_of(record: Record, book: Book) -> list[RequestId]:
    """The ids that something of it may carry."""
    return [duty.request for duty in book.duties(record.id) if duty.request is not None]


def made_by(record: Record, view: View, book: Book) -> SeenResource | None:
    """What a lost create of it made; of several, what bears all our marks. The id alone is enough: what is not found
    bills for ever."""
    for request in requests_of(record, book):
        ours = [seen for seen in view.carrying(request) if not ended(seen) and not book.owner.disputed(seen.tags)]
        if ours:
            return min(ours, key=lambda seen: not book.owner.holds(seen.tags))
    return None


def made_otherwise(record: Record, seen: SeenResource, model: ModelPolicy | None, book: Book) -> bool:
    """Is what a lost create made not what it ordered (RP-21)? Under another config than it was ordered by, nobody can
    tell."""
    create = book.creates.get(seen.tags.request) if seen.tags.request is not None else None
    if create is None or seen.fits is None or model is None or model.fingerprint != record.fingerprint:
        return False
    return create.offer not in seen.fits


def judged(record: Record, seen: SeenResource | None, model: ModelPolicy | None, book: Book) -> SeenResource | None:
    """As it is seen, and at fault if it is not what was ordered: the create's own answer may leave out what is known
    only once a machine is found for it. What serves already is not judged by how it came to be."""
    if seen is None or seen.fault is not None or record.phase is not Phase.REQUESTED:
        return seen
    return replace(seen, fault=StopReason.WRONG_RESOURCE) if made_otherwise(record, seen, model, book) else seen


def moved_to(record: Record, view: View, book: Book) -> SeenResource | None:
    """Its recorded key is gone, and one resource of ours carries its request id under another."""
    if record.key is None or record.phase not in SERVING:
        return None
    if record.key not in view.absences.keys or not isinstance(view.reads.get(record.key), NotFound):
        return None
    held = book.held_keys()
    carrying = [
        seen
        for request in requests_of(record, book)
        for seen in view.carrying(request)
        if book.owner.holds(seen.tags) and not ended(seen) and seen.key not in held
    ]
    return carrying[0] if len(carrying) == 1 else None
