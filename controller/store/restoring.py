"""What is true again after a restart?

Identity, phase, duties, last bytes, first sightings and crash counts stay; liveness is forgotten. A create or stop that
was in flight when the process ended has an unknown answer, and counts as over only now. What was never marked as sent
is void. Then every lease is taken anew, under a higher epoch.

A store that is an old copy is taken up before anything else: epochs and evidence numbers go on far above whatever was
given since it was made, and a line says so. It is then no proof that a create was not sent, that a start is late or
that nobody used a machine: what it shows as planned may exist, and clocks that would stop something run from now.
"""

from dataclasses import dataclass, replace
from typing import Final

from controller.core import hosting
from controller.core.deployment import Create, CreateAnswer, Record
from controller.core.evidence_chain import RESTORED
from controller.core.identity import DeploymentId
from controller.core.lease import Ask, acquire
from controller.core.lifecycle import Phase
from controller.core.obligation import StopAnswer
from controller.core.policy import HostingPolicy
from controller.core.restoration import raised
from controller.store import deployments
from controller.store.duties import lease_name
from controller.store.evidence_file import LastLine
from controller.store.transaction import Tx

ALARM: Final = "store-restored"
SUBJECT: Final = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """How it is known that this store is an old copy, and what else is known of what came after it."""

    why: str
    after: LastLine | None = None
    """Where the evidence file goes on past this store, and can be gone on with."""
    seq: int = 0
    epoch: int = 0
    """The highest numbers that are told from outside."""


def take_up(tx: Tx, older: Older) -> None:
    """Raise epoch and seq above everything that was given since the copy was made, and say so (RP-52)."""
    book = tx.book
    epoch, seq = raised(book.epoch_latest, older.epoch), raised(book.seq_latest, older.seq)
    tx.begin_matching(epoch=epoch, seq=seq)
    tx.line(
        RESTORED,
        detail={
            "why": older.why,
            "store": {"seq": book.seq_latest, "hash": book.hash_latest, "epoch": book.epoch_latest},
            "after": None if older.after is None else {"seq": older.after.seq, "hash": older.after.hash},
            "epoch": epoch,
        },
    )
    tx.raise_alarm(ALARM, subject=SUBJECT, detail=f"{older.why}; nothing is created until what exists is matched")


def notice(tx: Tx, older: Older, *, policy: HostingPolicy, holder: str) -> None:
    """It came out while this process runs: nothing decided under the epochs so far is acted on any more."""
    take_up(tx, older)
    take_leases(tx, policy=policy, holder=holder, anew=True)


def matched(tx: Tx) -> None:
    """What the store forgot is on record again."""
    tx.end_matching()
    tx.clear_alarm(ALARM, subject=SUBJECT)


def restore(tx: Tx, *, policy: HostingPolicy, holder: str) -> None:
    """Take everything open over for this process. Raises Refusal if a record is of another scope."""
    for duty in list(tx.book.obligations.values()):
        if duty.open and duty.stop_in_flight:
            tx.put_duty(replace(duty, stop_ended_at=tx.now, stop_answer=StopAnswer.UNKNOWN))
    for record in tx.book.live():
        _restore(tx, record)
    take_leases(tx, policy=policy, holder=holder, anew=True)


def _restore(tx: Tx, record: Record) -> None:
    if tx.book.matching_since is not None:
        record = _doubted(tx, record)
    creates = deployments.creates_of(tx, record.id)
    restored = hosting.restored(record, creates, scope=tx.book.scope)
    in_flight = [create for create in creates if create.submitting_at is not None and create.answer is None]
    if record.phase is Phase.DECLARED and in_flight:
        deployments.record_unknown(tx, in_flight[0], detail="the controller ended before the answer came")
    elif record.phase is Phase.DECLARED:
        deployments.cancel(tx, record)
    else:
        if restored != record:
            tx.put_record(restored)
        for create in in_flight:
            _end_call(tx, create)


def _doubted(tx: Tx, record: Record) -> Record:
    """An old copy shows neither that a planned create was not sent, nor that a start is late, nor that nobody used the
    machine."""
    for create in deployments.creates_of(tx, record.id):
        if create.submitting_at is None and create.answer is None:
            tx.put_create(replace(create, submitting_at=tx.now))
    if record.phase is Phase.ACTIVE:
        return tx.put_record(replace(record, last_byte_at=tx.now))
    begun = record.phase in {Phase.DECLARED, Phase.REQUESTED, Phase.UNCERTAIN}
    return tx.put_record(replace(record, declared_at=tx.now)) if begun else record


def _end_call(tx: Tx, create: Create) -> None:
    tx.put_create(replace(create, answer=CreateAnswer.UNKNOWN, ended_at=tx.now))


def take_leases(tx: Tx, *, policy: HostingPolicy, holder: str, anew: bool = False) -> None:
    """Acquire every lease that is needed and not held live by this process; each grant has a new, higher epoch.

    `anew`: this process has none yet, whoever of its name held them before it.
    """
    held = frozenset() if anew else _live(tx, holder)
    for record in tx.book.live():
        epoch = _take(tx, record.id, policy=policy, holder=holder) if record.id not in held else None
        if epoch is not None:
            current = tx.put_record(replace(tx.record(record.id), epoch=epoch))
            for duty in tx.book.duties(current.id):
                tx.put_duty(replace(duty, epoch=epoch))
    for duty in list(tx.book.obligations.values()):
        if duty.open and duty.deployment is None and lease_name(duty) not in held:
            epoch = _take(tx, lease_name(duty), policy=policy, holder=holder)
            tx.put_duty(replace(tx.duty(duty.id), epoch=epoch))


def _live(tx: Tx, holder: str) -> frozenset[DeploymentId]:
    leases = tx.book.leases.values()
    return frozenset(lease.deployment for lease in leases if lease.holder == holder and lease.live(tx.now))


def _take(tx: Tx, deployment: DeploymentId, *, policy: HostingPolicy, holder: str) -> int:
    lease = tx.book.leases.get(deployment)
    ask = Ask(deployment=deployment, holder=holder, now=tx.now, span=policy.lease)
    # The file's lock says that no other process of ours lives: a former run's lease is nobody's.
    former = None if lease is None else replace(lease, holder=holder)
    granted = acquire(former, ask=ask, epoch_latest=tx.next_epoch() - 1)
    tx.put_lease(granted)
    return granted.epoch
