"""In which order are the machines of one model tried?"""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gateway.rotation import PATIENCE_LEAST, beginning, in_order
from controller.gateway.wires import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, RESPONSES, Shape

KEYS = [(f"d{number}", 1) for number in range(4)]
NONE_FAILED: frozenset[tuple[str, int]] = frozenset()


def order(
    open_requests: dict[str, int] | None = None, *, failed: tuple[str, ...] = (), begins: bytes | None = None
) -> list[str]:
    counts = {(name, 1): count for name, count in (open_requests or {}).items()}
    found = in_order(KEYS, open_requests=counts, failed=frozenset((name, 1) for name in failed), begins=begins)
    return [name for name, _ in found]


def test_the_one_with_the_least_to_do_is_first() -> None:
    assert order({"d0": 3, "d1": 1, "d2": 0, "d3": 2}) == ["d2", "d1", "d3", "d0"]


def test_one_that_failed_is_last_however_little_it_has_to_do() -> None:
    assert order({"d0": 0, "d1": 5, "d2": 6, "d3": 7}, failed=("d0",)) == ["d1", "d2", "d3", "d0"]


def test_a_conversation_keeps_its_machine_while_it_has_hardly_more_to_do() -> None:
    favourite = order(begins=b"a")[0]
    assert order({favourite: PATIENCE_LEAST}, begins=b"a")[0] == favourite
    assert order({favourite: PATIENCE_LEAST + 1}, begins=b"a")[0] != favourite


@pytest.mark.parametrize(("most", "kept"), [(30, True), (31, False)])
def test_of_much_to_do_half_as_much_again_is_hardly_more(most: int, kept: bool) -> None:
    favourite = order(begins=b"a")[0]
    counts = {name: most if name == favourite else 20 for name, _ in KEYS}
    assert (order(counts, begins=b"a")[0] == favourite) is kept


def test_a_conversation_whose_machine_failed_goes_to_another_one_always_the_same() -> None:
    favourite = order(begins=b"a")[0]
    second = order(failed=(favourite,), begins=b"a")[0]
    assert second != favourite
    assert order({second: PATIENCE_LEAST}, failed=(favourite,), begins=b"a")[0] == second


def test_conversations_are_spread_evenly_enough() -> None:
    found = Counter(order(begins=b"%d" % number)[0] for number in range(4000))
    assert min(found.values()) > 850


def test_when_a_machine_goes_only_its_own_conversations_move() -> None:
    for number in range(200):
        begins = b"%d" % number
        before = in_order(KEYS, open_requests={}, failed=NONE_FAILED, begins=begins)[0]
        after = in_order(KEYS[1:], open_requests={}, failed=NONE_FAILED, begins=begins)[0]
        assert before in (after, KEYS[0])


@given(
    st.dictionaries(st.sampled_from(KEYS), st.integers(0, 100)),
    st.frozensets(st.sampled_from(KEYS)),
    st.none() | st.binary(max_size=4),
)
def test_every_machine_is_in_the_order_once_and_none_that_failed_before_a_sound_one(
    counts: dict[tuple[str, int], int], failed: frozenset[tuple[str, int]], begins: bytes | None
) -> None:
    found = in_order(KEYS, open_requests=counts, failed=failed, begins=begins)
    assert sorted(found) == sorted(KEYS)
    assert [key in failed for key in found] == sorted(key in failed for key in found)


SYSTEM = {"role": "system", "content": "be brief"}
HELLO, MORE = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}


@pytest.mark.parametrize(
    ("shape", "one", "other", "same"),
    [
        (CHAT, {"messages": [SYSTEM, HELLO]}, {"messages": [SYSTEM, HELLO, MORE]}, True),
        (CHAT, {"messages": [SYSTEM, HELLO]}, {"messages": [HELLO]}, False),
        (CHAT, {"messages": [HELLO]}, {"messages": [MORE]}, False),
        (MESSAGES, {"system": "a", "messages": [HELLO]}, {"system": "a", "messages": [HELLO, MORE]}, True),
        (MESSAGES, {"system": "a", "messages": [HELLO]}, {"system": "b", "messages": [HELLO]}, False),
        (RESPONSES, {"instructions": "a", "input": "x"}, {"instructions": "a", "input": "y"}, False),
        (COMPLETIONS, {"prompt": "x" * 5000}, {"prompt": "x" * 6000}, True),
        (COMPLETIONS, {"prompt": "x"}, {"prompt": "y"}, False),
    ],
)
def test_what_a_conversation_begins_with(shape: Shape, one: dict[str, Any], other: dict[str, Any], same: bool) -> None:
    assert (beginning(shape, one) == beginning(shape, other)) is same


@pytest.mark.parametrize("members", [{}, {"messages": []}, {"messages": None}, {"messages": "x" * 0}])
def test_without_a_beginning_there_is_none(members: dict[str, Any]) -> None:
    assert beginning(CHAT, members) is None


def test_an_embedding_has_no_beginning() -> None:
    assert beginning(EMBEDDINGS, {"input": "x"}) is None


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_a_client_writes_has_a_beginning_or_none(value: object) -> None:
    taken = json.loads(json.dumps(value))
    for shape in (CHAT, COMPLETIONS, RESPONSES):
        found = beginning(shape, {"messages": taken, "prompt": taken, "input": taken, "instructions": taken})
        assert found is None or isinstance(found, bytes)
