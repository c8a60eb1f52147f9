"""What is true again after a restart?

Identity, phase, duties, last bytes, first sightings and crash counts stay; liveness is forgotten. A create or stop that
was in flight when the process ended has an unknown answer, and counts as over only now. What was never marked as sent
is void. Then every lease is taken anew, under a higher epoch.
"""

from dataclasses import replace

from controller.core import hosting
from controller.core.deployment import Create, CreateAnswer, Record
from controller.core.identity import DeploymentId
from controller.core.lease import Ask, acquire
from controller.core.lifecycle import Phase
from controller.core.obligation import StopAnswer
from controller.core.policy import HostingPolicy
from controller.store import deployments
from controller.store.duties import lease_name
from controller.store.transaction import Tx


def restore(tx: Tx, *, policy: HostingPolicy, holder: str) -> None:
    """Take everything open over for this process. Raises Refusal if a record is of another scope."""
    for duty in list(tx.book.obligations.values()):
        if duty.open and duty.stop_in_flight:
            tx.put_duty(replace(duty, stop_ended_at=tx.now, stop_answer=StopAnswer.UNKNOWN))
    for record in tx.book.live():
        _restore(tx, record)
    take_leases(tx, policy=policy, holder=holder, anew=True)


def _restore(tx: Tx, record: Record) -> None:
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
