"""Are clients sent only to a server that our own probe found fit?"""

import pytest

from controller.core.evidence import StopReason
from controller.core.readiness import Assessment, Verdict, assess

NAME = "Qwen/Qwen3-8B"

TABLE = {
    Verdict.READY: Assessment(ready=True),
    Verdict.NOT_READY: Assessment(ready=False),
    Verdict.REFUSED: Assessment(ready=False, stop=StopReason.KEY_REFUSED),
    Verdict.UNPROTECTED: Assessment(ready=False, stop=StopReason.UNPROTECTED),
    Verdict.SECRET_UNSUBSTITUTED: Assessment(ready=False, stop=StopReason.SECRET_UNSUBSTITUTED),
    Verdict.PROXY_REFUSED: Assessment(ready=None),
    Verdict.UNREACHABLE: Assessment(ready=None),
}


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_means_one_thing(verdict: Verdict) -> None:
    assert assess(verdict, None, expected=NAME) == TABLE[verdict]


@pytest.mark.parametrize(("served", "ready"), [(None, True), ((NAME,), True), ((NAME, "lora-a"), True)])
def test_an_unknown_name_and_a_list_with_ours_do_not_block(served: tuple[str, ...] | None, ready: bool) -> None:
    assert assess(Verdict.READY, served, expected=NAME) == Assessment(ready=ready)


@pytest.mark.parametrize("served", [(), ("other",), ("qwen/qwen3-8b",)])
def test_a_list_without_our_name_must_not_serve(served: tuple[str, ...]) -> None:
    expected = Assessment(ready=False, stop=StopReason.SERVED_MODEL_MISMATCH)
    assert assess(Verdict.READY, served, expected=NAME) == expected


@pytest.mark.parametrize("verdict", [Verdict.NOT_READY, Verdict.UNREACHABLE, Verdict.PROXY_REFUSED])
def test_names_of_a_server_that_is_not_ready_mean_nothing(verdict: Verdict) -> None:
    assert assess(verdict, ("other",), expected=NAME) == TABLE[verdict]
