"""How a model server's stream is cut into events, wherever the pieces break."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.gateway.events import Events, StreamFailed
from controller.gateway.signs import CHAT_SIGNS
from tests.gateway.stub_server import DONE, event

WHOLE = event("one") + b": still here\n\n" + event("two", "stop") + DONE
ABORTED = event("one") + event("", "abort") + DONE


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(stream), *cuts})
    return [stream[start:end] for start, end in pairwise(at)]


cut_points = st.lists(st.integers(min_value=0, max_value=len(WHOLE)), max_size=12)


@given(cut_points)
def test_all_bytes_pass_in_order_and_only_whole_events(cuts: list[int]) -> None:
    events = Events(CHAT_SIGNS)
    passed = [events.take(piece) for piece in pieces(WHOLE, cuts)]
    assert b"".join(passed) + events.rest() == WHOLE
    assert all(not part or part.endswith(b"\n\n") for part in passed)
    assert events.said_done


@given(st.lists(st.integers(min_value=0, max_value=len(ABORTED)), max_size=12))
def test_a_failure_is_seen_wherever_the_pieces_break_and_nothing_of_it_passes(cuts: list[int]) -> None:
    events = Events(CHAT_SIGNS)
    passed = b""
    with pytest.raises(StreamFailed) as caught:
        for piece in pieces(ABORTED, cuts):
            passed += events.take(piece)
    assert passed + caught.value.before == event("one")


def test_events_that_end_with_carriage_returns_pass_too() -> None:
    events = Events(CHAT_SIGNS)
    assert events.take(b"data: {}\r\n\r\ndata: [DO") == b"data: {}\r\n\r\n"
    assert events.take(b"NE]\r\n\r\n") == b"data: [DONE]\r\n\r\n"
    assert events.said_done
