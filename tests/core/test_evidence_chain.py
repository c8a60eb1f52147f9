"""Is every change, removal, insertion and move in the evidence found, at its line?"""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.evidence_chain import BEFORE_THE_FIRST, RESTORED, canonical, forgotten, link, verify


def chain(count: int) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    prev = BEFORE_THE_FIRST
    for seq in range(1, count + 1):
        lines.append(link({"seq": seq, "event": "deployment.phase", "model": "größe", "detail": None}, prev))
        prev = lines[-1]["hash"]
    return lines


def test_the_hash_is_that_of_the_canonical_line_without_it() -> None:
    (line,) = chain(1)
    text = '{"detail":null,"event":"deployment.phase","model":"größe","prev":"' + "0" * 64 + '","seq":1}'
    assert line["hash"] == hashlib.sha256(text.encode()).hexdigest()


def test_an_untouched_chain_holds_from_its_begin_and_from_any_line_on() -> None:
    lines = chain(5)
    assert verify(lines, BEFORE_THE_FIRST) is None
    assert verify(lines[2:]) is None
    assert verify(lines[2:], lines[1]["hash"]) is None
    assert verify([]) is None


def test_linking_anew_replaces_what_was_there() -> None:
    (line,) = chain(1)
    assert link(line, BEFORE_THE_FIRST) == line


@pytest.mark.parametrize("position", range(5))
def test_a_changed_line_is_found(position: int) -> None:
    lines = chain(5)
    lines[position]["detail"] = "x"
    broken = verify(lines)
    assert broken is not None
    assert (broken.position, broken.seq) == (position + 1, position + 1)
    assert "changed" in broken.what


@pytest.mark.parametrize("position", [1, 2, 3])
def test_a_removed_line_is_found_at_the_next(position: int) -> None:
    lines = chain(5)
    del lines[position]
    broken = verify(lines)
    assert broken is not None
    assert (broken.position, broken.seq) == (position + 1, position + 2)


def test_a_line_put_in_with_a_good_hash_of_its_own_is_found() -> None:
    lines = chain(3)
    lines.insert(2, link({"seq": 3, "event": "forged"}, lines[1]["hash"]))
    broken = verify(lines)
    assert broken is not None
    assert broken.position == 4


def test_a_missing_first_line_is_found_when_the_hash_before_it_is_known() -> None:
    lines = chain(3)
    assert verify(lines[1:], BEFORE_THE_FIRST) is not None


def test_lines_swapped_are_found() -> None:
    lines = chain(4)
    lines[1], lines[2] = lines[2], lines[1]
    assert verify(lines) is not None


@pytest.mark.parametrize("line", [{}, {"seq": 1}, {"seq": 1, "prev": "", "hash": 3}, {"seq": 1, "hash": ""}])
def test_a_line_without_its_links_is_found(line: dict[str, Any]) -> None:
    assert verify([line]) is not None


@pytest.mark.parametrize("seq", [None, "1", True, 1.0])
def test_a_line_without_a_whole_seq_is_found(seq: object) -> None:
    broken = verify([link({"seq": seq}, BEFORE_THE_FIRST)])
    assert broken is not None
    assert "no seq" in broken.what


def test_a_repeated_seq_is_found() -> None:
    first = link({"seq": 1}, BEFORE_THE_FIRST)
    broken = verify([first, link({"seq": 1}, first["hash"])])
    assert broken is not None
    assert broken.position == 2


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.text(alphabet="0123456789abcdef", max_size=64))
def test_whatever_a_line_holds_it_survives_the_file(content: dict[str, Any], prev: str) -> None:
    line = link({**content, "seq": 7}, prev)
    assert verify([json.loads(canonical(line))], prev) is None


def test_what_json_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"seq": float("nan")})


@pytest.mark.parametrize("lacking", ["hash", "prev"])
@pytest.mark.parametrize("instead", [None, 7])
def test_a_line_without_a_hash_of_its_own_or_of_the_line_before_is_found(lacking: str, instead: object) -> None:
    lines = chain(2)
    lines[1] = {**lines[1], lacking: instead}
    if lacking == "prev":
        lines[1] = {**lines[1], "hash": hashlib.sha256(canonical(_bare(lines[1])).encode()).hexdigest()}
    broken = verify(lines)
    assert broken is not None
    assert (broken.position, broken.what) == (2, "it carries no hash")


def _bare(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "hash"}


# A restored store


def restored(stored: dict[str, Any], after: dict[str, Any] | None) -> dict[str, Any]:
    """The line with which a store goes on that ends in `stored`, in a file that ends in `after`."""
    told = None if after is None else {"seq": after["seq"], "hash": after["hash"]}
    detail = {"store": {"seq": stored["seq"], "hash": stored["hash"]}, "after": told}
    return link({"seq": 1_000_010, "event": RESTORED, "detail": detail}, stored["hash"])


def test_a_declared_break_is_no_fault() -> None:
    lines = chain(5)
    lines.append(restored(lines[2], lines[4]))
    lines.append(link({"seq": 1_000_011}, lines[-1]["hash"]))
    assert verify(lines, BEFORE_THE_FIRST) is None
    assert list(forgotten(lines[5])) == [4, 5]


def test_the_same_break_undeclared_or_declared_elsewhere_is_found() -> None:
    lines = chain(5)
    for line in (
        restored(lines[2], None),
        restored(lines[2], lines[3]),
        {**restored(lines[2], lines[4]), "event": "daemon.started"},
    ):
        broken = verify([*lines, link(line, line["prev"])])
        assert broken is not None
        assert broken.position == 6


@pytest.mark.parametrize("position", [3, 4])
def test_a_line_taken_out_before_a_declared_break_is_found(position: int) -> None:
    lines = chain(5)
    lines.append(restored(lines[2], lines[4]))
    del lines[position]
    assert verify(lines) is not None


def test_a_store_that_nothing_follows_goes_on_without_a_break() -> None:
    lines = chain(3)
    lines.append(restored(lines[2], None))
    assert verify(lines) is None
    assert list(forgotten(lines[3])) == list(forgotten(lines[0])) == []
