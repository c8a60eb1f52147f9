"""Is every failure kept that a full disk does not excuse?"""

import traceback

import pytest

from controller.store.errors import StoreUnwritable
from tests.simulation.logged import excused


def raised(error: Exception) -> Exception:
    """As it comes out of a pass: with a cause."""
    try:
        raise error from OSError("no space left")
    except type(error) as caught:
        return caught


def full() -> Exception:
    return raised(StoreUnwritable("disk full"))


def wrong() -> Exception:
    return raised(ValueError("ours"))


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (full(), True),
        (wrong(), False),
        (ExceptionGroup("one", [full()]), True),
        (ExceptionGroup("two", [full(), full()]), True),
        (ExceptionGroup("two", [full(), wrong()]), False),
        (ExceptionGroup("two", [wrong(), full()]), False),
        (ExceptionGroup("two", [wrong(), wrong()]), False),
        (ExceptionGroup("a group in it", [full(), ExceptionGroup("two", [full(), full()])]), True),
        (ExceptionGroup("a group in it", [full(), ExceptionGroup("two", [full(), wrong()])]), False),
        (ExceptionGroup("a group in it", [ExceptionGroup("one", [wrong()]), full()]), False),
        (ExceptionGroup("a group in it", [ExceptionGroup("one", [full()]), wrong()]), False),
    ],
)
def test_a_failure_is_excused_where_each_of_its_parts_is(error: Exception, passes: bool) -> None:
    assert excused("".join(traceback.format_exception(raised(error)))) is passes
