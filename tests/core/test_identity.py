"""Are names bounded, are keys exact, and do tags tell whose a resource is?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.errors import InvalidIdentifier
from controller.core.identity import Owner, ResourceKey, Scope, Tags, identifier, same_name
from tests.core.samples import key

US = Owner(name="acme", installation="i1", claimed=frozenset({"i0"}))


@pytest.mark.parametrize("value", ["a", "!", "~", "vllm/vllm-openai:v1", "x" * 256])
def test_printable_ascii_of_1_to_256_bytes_is_an_identifier(value: str) -> None:
    assert identifier(value) == value


@pytest.mark.parametrize(
    "value", ["", "x" * 257, "a b", " ", "a\n", "\n", "a\t", "a\0", "\x7f", "ä", "\uff41", "\ud800"]
)
def test_anything_else_is_none(value: str) -> None:
    with pytest.raises(InvalidIdentifier):
        identifier(value)


@given(st.text(max_size=300))
def test_a_refused_name_is_never_repeated_in_the_text(value: str) -> None:
    try:
        identifier(value)
    except InvalidIdentifier as refused:
        assert str(refused) == "an identifier is 1 to 256 bytes of printable ASCII without spaces"


@pytest.mark.parametrize("part", ["provider", "account", "name", "incarnation"])
def test_a_key_refuses_a_part_that_is_no_identifier(part: str) -> None:
    parts = {"provider": "runpod", "account": "main", "name": "n", "incarnation": "p1"}
    with pytest.raises(InvalidIdentifier):
        ResourceKey(**{**parts, part: "two words"})


@pytest.mark.parametrize("part", ["provider", "account", "name", "incarnation"])
def test_keys_that_differ_in_one_part_are_different_resources(part: str) -> None:
    parts = {"provider": "runpod", "account": "main", "name": "n", "incarnation": "p1"}
    assert ResourceKey(**parts) == ResourceKey(**parts)
    assert ResourceKey(**parts) != ResourceKey(**{**parts, part: "other"})


def test_the_same_name_is_not_the_same_resource() -> None:
    assert same_name(key("p1"), key("p2"))
    assert key("p1") != key("p2")


def test_names_of_two_accounts_have_nothing_in_common() -> None:
    assert not same_name(key(account="main"), key(account="other"))
    assert not same_name(key(name="a"), key(name="b"))


def test_a_key_tells_its_scope() -> None:
    assert key(account="main").scope == Scope(provider="runpod", account="main")


# owner, installation -> holds, copied, foreign
WHOSE = [
    ("acme", "i1", True, False, False),
    ("acme", "i0", True, False, False),
    ("acme", "i2", False, True, False),
    ("acme", None, False, False, False),
    ("other", "i1", False, False, True),
    ("other", "i0", False, False, True),
    ("other", None, False, False, True),
    (None, "i1", False, False, False),
    (None, None, False, False, False),
]


@pytest.mark.parametrize(("owner", "installation", "holds", "copied", "foreign"), WHOSE)
def test_tags_are_ours_copied_foreign_or_nobodys(
    owner: str | None, installation: str | None, holds: bool, copied: bool, foreign: bool
) -> None:
    tags = Tags(owner=owner, installation=installation)
    assert (US.holds(tags), US.copied(tags), US.foreign(tags)) == (holds, copied, foreign)
