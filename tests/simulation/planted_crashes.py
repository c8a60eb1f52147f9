"""Which defects must the crash points catch?

Each is planted in the real code of a process that plays stories and nothing else. What a harness never saw fail, it
cannot be trusted with.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from controller.core import obligation
from controller.core.deployment import Record
from controller.core.identity import RequestId
from controller.core.lifecycle import Phase
from controller.providers.writing import CreateOutcome
from controller.store import declaring, deployments, restoring
from controller.store.deployments import Planned
from controller.store.evidence_file import EvidenceFile
from controller.store.store import Store
from controller.store.transaction import Tx
from controller.tasks.executor import Executor


def mark_after_create() -> None:
    """The intent of a create is committed only after its call."""
    real = Executor._create

    async def later(self: Executor, planned: Planned, called: set[RequestId]) -> CreateOutcome:
        means, create = self._means, self._means.writing.create

        async def first(order: Any) -> Any:
            vars(means.writing).pop("create")
            outcome = await create(order)
            request = planned.create.request
            await means.store.write(lambda tx: deployments.mark_submitting(tx, request, holder=means.holder))
            return outcome

        vars(means.writing)["create"] = first
        return await real(self, planned, called)

    declaring._submitted = lambda tx, planned, *, holder: planned
    Executor._create = later  # type: ignore[method-assign]


def void_in_flight() -> None:
    """What was declared when the daemon ended is void, whether its create was sent or not."""
    real = restoring._restore

    def restore(tx: Tx, record: Record) -> None:
        if record.phase is Phase.DECLARED:
            deployments.cancel(tx, record)
        else:
            real(tx, record)

    restoring._restore = restore


def stop_stays_in_flight() -> None:
    """A stop that was in flight when the daemon ended is waited for: on record, and by the rule that needs none."""
    real = restoring.restore

    def restore(tx: Tx, **given: Any) -> None:
        flying = {duty.id: duty for duty in tx.book.obligations.values() if duty.open and duty.stop_in_flight}
        real(tx, **given)
        for duty in flying.values():
            current = tx.duty(duty.id)
            tx.put_duty(replace(current, stop_ended_at=duty.stop_ended_at, stop_answer=duty.stop_answer))

    restoring.restore = restore
    obligation._of_a_former_process = lambda duty, times: False


def torn_line_stays() -> None:
    """What a crash left of a line is written on."""
    EvidenceFile._drop_torn_line = lambda self, descriptor: None  # type: ignore[method-assign]


def book_is_believed() -> None:
    """Nobody asks whether another daemon began on the store."""
    Store._require_ours = lambda self, connection: None  # type: ignore[method-assign]


PLANTED: Final[dict[str, Callable[[], None]]] = {
    plant.__name__.replace("_", "-"): plant
    for plant in (mark_after_create, void_in_flight, stop_stays_in_flight, torn_line_stays, book_is_believed)
}
