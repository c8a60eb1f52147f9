"""What does a new run find, and is it all that its predecessors left?

The store is taken over in one transaction, before anything else is done. Whether it is an old copy is asked first, of
its own mark (`gpuwarden restore`) and of the evidence file, which goes on where a copy ends. What comes out later, by a
provider's tags or a gateway's leases, is the restore matcher's.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import structlog

from controller.core.book import AccountTrust
from controller.core.identity import DeploymentId, RequestId
from controller.core.policy import HostingPolicy, LeaseExpiry
from controller.core.removal import CONFIG_REFUSED
from controller.daemon.built import Mode
from controller.providers.runpod.account import key_digest
from controller.store import restoring
from controller.store.evidence_file import EvidenceFile, LastLine, Recalled, recall
from controller.store.outbox import declared_after, hash_of
from controller.store.restoring import Older
from controller.store.store import Store
from controller.store.transaction import BEGUN, Tx
from controller.tasks.evidence_writer import Blocking
from controller.tasks.lease_keeper import expired_leases, oblige_stops

PUT_BACK = "a backup was put back as the store"
GOES_ON = "the evidence file goes on where the store ends: the store is an old copy"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known of runs that the store forgot."""

    older: Older | None = None
    """Set where the store is an old copy that no run has taken up yet."""
    deployments: Mapping[RequestId, DeploymentId] = field(default_factory=dict)


async def recollect(store: Store, path: Path, blocking: Blocking) -> Past:
    """Look at mark and evidence file. A file that cannot be read tells nothing and stands in nobody's way."""
    book = store.book
    try:
        last = await blocking(EvidenceFile(path).last)
        beyond = last if last is not None and not await _told(store, last) else None
        if beyond is None and book.restored_at is None and book.matching_since is None:
            return Past()
        stored = LastLine(book.seq_latest, book.hash_latest)
        found = await blocking(partial(recall, path, stored=stored))
    except (OSError, EOFError, zlib.error) as problem:
        log.warning("evidence_not_read", error=str(problem))
        beyond, found = None, Recalled()
    if not found.of(book.owner.installation):
        beyond, found = None, Recalled()
    if beyond is None and book.restored_at is None:
        return Past(deployments=found.deployments)
    return Past(older=_older(store, beyond, found), deployments=found.deployments)


async def _told(store: Store, last: LastLine) -> bool:
    """Does the store hold this line, or say that it goes on after it?"""
    if last.hash is None:
        return False
    if await store.read(partial(hash_of, seq=last.seq)) == last.hash:
        return True
    return await store.read(partial(declared_after, last=last.hash)) is not None


def _older(store: Store, beyond: LastLine | None, found: Recalled) -> Older:
    book = store.book
    goes_on = beyond is not None and beyond.hash is not None and beyond.seq > book.seq_latest and not found.forks
    return Older(
        why=GOES_ON if book.restored_at is None else PUT_BACK,
        after=beyond if goes_on else None,
        seq=0 if beyond is None else beyond.seq,
        epoch=found.epoch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """This run of the daemon."""

    id: str
    key: str
    mode: Mode
    accepted: str
    """The config, as it is kept for a run that finds a bad one."""
    past: Past


def take_over(tx: Tx, run: Run, policy: HostingPolicy) -> None:
    """Take up what is on record, whose ever run it was of. Raises Refusal if a record is of another scope."""
    if run.past.older is not None:
        restoring.take_up(tx, run.past.older)
    _tell(tx, run)
    expired = expired_leases(tx)
    restoring.restore(tx, policy=policy, holder=run.id)
    if policy.lease_expiry is LeaseExpiry.STOP:
        oblige_stops(tx, expired)
    _take_config(tx, run, policy.account)
    _check_key(tx, run, policy)


def _tell(tx: Tx, run: Run) -> None:
    owner = tx.book.owner
    detail = {"run": run.id, "mode": run.mode.name, "owner": owner.name, "installation": owner.installation}
    tx.line(BEGUN, detail=detail)


def _take_config(tx: Tx, run: Run, account: str) -> None:
    """A config in force is the accepted one, and ends what was said of those that were not."""
    if run.mode.stop_only:
        tx.raise_alarm("stop-only", subject=account, detail="; ".join(run.mode.problems) or "nothing is started")
        return
    tx.clear_alarm("stop-only", subject=account)
    if run.mode.refused is None:
        tx.put_accepted_config(run.accepted)
        tx.clear_alarm(CONFIG_REFUSED, subject=account)
        return
    standing = tx.book.alarms.get((CONFIG_REFUSED, account))
    if standing is not None and standing.detail != run.mode.refused:
        tx.clear_alarm(CONFIG_REFUSED, subject=account)  # another file, or it would stop others
    tx.raise_alarm(CONFIG_REFUSED, subject=account, detail=run.mode.refused)


def _check_key(tx: Tx, run: Run, policy: HostingPolicy) -> None:
    digest = key_digest(run.key, tx.book.owner.installation)
    known = tx.book.account.digest
    if known == digest:
        return
    if known is not None and tx.book.owing:
        why = "the provider's key changed while something is owed"
        tx.put_account(AccountTrust(digest=digest, trusted=False, why=why))
        tx.line("account.changed", detail={"text": why})
        tx.raise_alarm("account-changed", subject=policy.account, detail=why)
    else:
        tx.put_account(replace(tx.book.account, digest=digest, trusted=True, why=None))
