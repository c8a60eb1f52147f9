"""Is every command, in every phase, obeyed or refused to its caller, and never silently done? (HC-8)"""

from collections.abc import Callable

import pytest

from controller.core import hosting
from controller.core.deployment import Record
from controller.core.errors import Refusal, RefusalCode
from controller.core.evidence import Evidence, EvidenceKind, StopReason
from controller.core.lifecycle import Phase
from tests.core.samples import T0, claim, record, serving

PROOF = Evidence(kind=EvidenceKind.INVENTORY_COMPLETE_ABSENT, reference="listing 7", observed_at=T0)


def refused(command: Callable[[], object]) -> bool:
    with pytest.raises(Refusal) as refusal:
        command()
    return refusal.value.code is RefusalCode.WRONG_PHASE


Command = Callable[[Record], Record]
ENDS: dict[Phase, Command] = {
    Phase.STOP_REQUIRED: lambda held: hosting.require_stop(held, StopReason.OPERATOR_REQUEST, now=T0),
    Phase.STOPPED: lambda held: hosting.stopped(held, PROOF, now=T0),
    Phase.CANCELLED: lambda held: hosting.cancelled(held, now=T0),
}
TAKEN = {
    (Phase.DECLARED, Phase.CANCELLED),
    (Phase.REQUESTED, Phase.STOP_REQUIRED),
    (Phase.REQUESTED, Phase.STOPPED),
    (Phase.ACTIVE, Phase.STOP_REQUIRED),
    (Phase.ACTIVE, Phase.STOPPED),
    (Phase.UNCERTAIN, Phase.STOP_REQUIRED),
    (Phase.UNCERTAIN, Phase.STOPPED),
    (Phase.STOP_REQUIRED, Phase.STOP_REQUIRED),
    (Phase.STOP_REQUIRED, Phase.STOPPED),
}


@pytest.mark.parametrize("to", ENDS)
@pytest.mark.parametrize("phase", Phase)
def test_a_command_is_obeyed_or_refused_and_never_silently_done(phase: Phase, to: Phase) -> None:
    held = record(phase)
    if (phase, to) in TAKEN:
        assert ENDS[to](held).phase is to
    else:
        assert refused(lambda: ENDS[to](held))


def test_only_what_is_another_owner_s_becomes_ours_again_and_its_stop_stays_owed() -> None:
    taken = serving(Phase.STOP_REQUIRED, reason=StopReason.OWNERSHIP_LOST, stop_required_at=T0)
    again = hosting.ours_again(taken)
    assert (again.phase, again.stop_required_at) == (Phase.STOP_REQUIRED, T0)
    assert hosting.stop(again, claim()) == again
    assert refused(lambda: hosting.ours_again(again))
