"""What is read from a request's body, and that exchanging one value leaves the rest as it was."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gateway.document import Unreadable, parse
from controller.gateway.system_first import system_first

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
objects = st.dictionaries(st.text(max_size=8), values, max_size=5)


@settings(max_examples=40, deadline=None)
@given(objects, st.text(), st.booleans(), st.sampled_from([None, 2, "\t"]))
def test_exchanging_the_name_keeps_every_other_byte(
    members: dict[str, Any], name: str, escaped: bool, indent: int | str | None
) -> None:
    members["model"] = "MARK"
    body = json.dumps(members, ensure_ascii=escaped, indent=indent).encode()
    document = parse(body)
    start, end = document.spans["model"]
    replaced = document.replaced({"model": name}).decode()
    text = body.decode()
    assert replaced[:start] == text[:start]
    assert replaced[len(replaced) - len(text) + end :] == text[end:]
    assert json.loads(replaced) == {**members, "model": name}


@given(st.binary())
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        document = parse(body)
    except Unreadable:
        return
    assert isinstance(document.members, dict)


@settings(max_examples=40, deadline=None)
@given(objects, st.data())
def test_what_is_cut_short_is_unreadable(members: dict[str, Any], data: st.DataObject) -> None:
    body = json.dumps(members).encode()
    cut = data.draw(st.integers(min_value=0, max_value=len(body) - 1))
    with pytest.raises(Unreadable):
        parse(body[:cut])


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","m\\u006fdel":"b"}',
        b'{"stream":true,"stream":false}',
        b'{"a":1} {"b":2}',
        b'{"a":1,}',
        b'{"a" 1}',
        b"{a:1}",
        b"{1:1}",
        b'{"a":}',
        b'{"a":1 "b":2}',
        b'{"a\tb":1}',
        b'{"\\x61":1}',
        b'{,"a":1}',
        b'{"a":1}}',
        b'\xef\xbb\xbf{"a":1}',
        b'[{"a":1}]',
        b'{"a":Infinity}',
        b'{"n":' + b"1" * 5000 + b"}",
    ],
)
def test_what_two_readers_could_take_differently_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(body)


@settings(max_examples=40, deadline=None)
@given(objects, values, st.sampled_from([None, 2, "\t"]))
def test_a_member_that_is_new_comes_last_and_keeps_every_other_byte(
    members: dict[str, Any], value: Any, indent: int | str | None
) -> None:
    members.pop("new", None)
    body = json.dumps(members, indent=indent)
    replaced = parse(body.encode()).replaced({"new": value}).decode()
    assert replaced.startswith(body[: body.rindex("}")])
    assert json.loads(replaced) == {**members, "new": value}


@pytest.mark.parametrize(
    "body",
    [
        b' {\r\n\t"a" :1 , "b": [ {} ] }\n',
        b'{"m\\u006fdel":"x","a\\"b":{"a":[]},"\\\\":null,"":0,"\xc3\xa9":1e400}',
        b" { } ",
    ],
)
def test_members_are_those_that_the_standard_decoder_finds(body: bytes) -> None:
    document = parse(body)
    assert document.members == json.loads(body)
    assert {name: json.loads(document.text[slice(*span)]) for name, span in document.spans.items()} == json.loads(body)


@pytest.mark.parametrize(
    "body", ['{"' + "a" * 2_000_000, '{"' + "\\a" * 1_000_000, '{"a":1' + " " * 2_000_000, "[" * 99_999]
)
def test_what_never_ends_is_unreadable_at_a_look(body: str) -> None:
    with pytest.raises(Unreadable):
        parse(body.encode())
    with pytest.raises(Unreadable):
        parse(b'{"a":' + body.encode())


def test_a_nested_name_is_left_alone() -> None:
    body = b'{"metadata":{"model":"m1"},"model":"m1"}'
    assert parse(body).replaced({"model": "x"}) == b'{"metadata":{"model":"m1"},"model":"x"}'


roles = st.sampled_from(["system", "user", "assistant"])
messages = st.lists(st.fixed_dictionaries({"role": roles, "n": st.integers()}))


@given(messages)
def test_system_messages_move_to_the_front_and_nothing_else_changes_order(asked: list[dict[str, Any]]) -> None:
    moved = system_first(asked)
    ordered = asked if moved is None else moved
    system = [entry for entry in asked if entry["role"] == "system"]
    assert ordered[: len(system)] == system
    assert ordered[len(system) :] == [entry for entry in asked if entry["role"] != "system"]


texts = st.text(max_size=5)
contents = texts | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}), max_size=2)
chats = st.lists(st.fixed_dictionaries({"role": roles, "content": contents}))


@given(chats)
def test_several_system_messages_become_one_that_says_all_of_it_in_order(asked: list[dict[str, Any]]) -> None:
    merged = system_first(asked, merge=True) or asked
    system = [entry for entry in asked if entry["role"] == "system"]
    assert [entry for entry in merged if entry["role"] != "system"] == [e for e in asked if e["role"] != "system"]
    assert [entry["role"] for entry in merged].count("system") == min(len(system), 1)
    if system:
        assert merged[0]["role"] == "system"
        assert said(merged[0]).replace("\n\n", "") == "".join(map(said, system)).replace("\n\n", "")


def said(entry: dict[str, Any]) -> str:
    content = entry["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_system_messages_of_an_unknown_form_are_not_made_one() -> None:
    odd = [{"role": "user"}, {"role": "system", "content": 3}, {"role": "system", "content": "a"}]
    assert system_first(odd, merge=True) == [odd[1], odd[2], odd[0]]


@pytest.mark.parametrize("asked", [None, "text", [], [{"role": "system"}, {"role": "user"}], ["odd", 3]])
def test_what_is_in_order_or_no_list_of_messages_stays(asked: object) -> None:
    assert system_first(asked) is None


def test_a_body_may_have_so_many_members_and_no_more() -> None:
    """Each costs a look of our own, and a body may hold a million."""
    assert len(parse(json.dumps({f"m{number}": 0 for number in range(1024)}).encode()).members) == 1024
    with pytest.raises(Unreadable, match="more than 1024 members"):
        parse(json.dumps({f"m{number}": 0 for number in range(1025)}).encode())
