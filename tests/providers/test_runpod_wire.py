"""What is read from Runpod's answers, and from bytes that are none."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.deployment import ProviderState, SeenResource
from controller.core.evidence import StopReason
from controller.core.identity import IDENTIFIER_BYTES_MAX, Tags
from controller.providers.runpod.document import Unreadable
from controller.providers.runpod.wire import Page, Pod, Problem, Reader, key_name, problem_in
from tests.support.runpod_samples import ENV, KEY, NAME, NAMESPACE, REQUEST, TAGS, page, pod, raw

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
FOREIGN = {"name": "jupyter", "env": {}}


def read(**changes: Any) -> Pod:
    found = Reader(NAMESPACE).pod(raw(pod(**changes)), now=NOW)
    assert isinstance(found, Pod)
    return found


def seen(**changes: Any) -> SeenResource:
    return read(**changes).seen


def listed(*pods: Any, **changes: Any) -> Page:
    return Reader(NAMESPACE).page(raw(page(*pods) | changes), now=NOW)


def test_a_plain_pod_is_described_whole() -> None:
    assert seen() == SeenResource(
        key=KEY,
        tags=TAGS,
        namespaced=True,
        state=ProviderState.RUNNING,
        word="RUNNING",
        endpoint="https://5xpma5eg46tqjq-8000.proxy.runpod.net/v1/",
        created_at=datetime(2026, 11, 29, 11, 50, 0, 123000, tzinfo=UTC),
        started_at=datetime(2026, 11, 29, 11, 58, 20, tzinfo=UTC),
        usd_per_hour=Decimal("0.79"),
        offer="NVIDIA L40S",
        alias="qwen",
        place="EU-RO-1",
    )


def test_what_is_not_said_is_none() -> None:
    found = seen(env=..., cost=..., gpu=..., runtime=..., startedAt=..., createdAt=..., cluster=...)
    assert found.tags == Tags(request=REQUEST)
    assert (found.usd_per_hour, found.offer, found.started_at, found.created_at, found.fault) == (None,) * 5


@pytest.mark.parametrize(
    ("word", "state", "fault"),
    [
        ("PROVISIONING", ProviderState.PENDING, None),
        ("STARTING", ProviderState.PENDING, None),
        ("RUNNING", ProviderState.RUNNING, None),
        ("EXITED", None, StopReason.POD_EXITED),
        ("ERROR", None, StopReason.POD_ERROR),
        ("TERMINATED", ProviderState.TERMINATED, None),
    ],
)
def test_each_known_word_means_one_thing_and_leaves_the_listing_complete(
    word: str, state: ProviderState | None, fault: StopReason | None
) -> None:
    found = listed(pod(status=word))
    assert (found.pods[0].seen.state, found.pods[0].seen.fault) == (state, fault)
    assert found.problem is None


@pytest.mark.parametrize("word", ["CONFUSED", "running", "", None, 7, ..., "TERMINATED ", ["TERMINATED"]])
def test_a_word_nobody_knows_leaves_our_pod_present_and_the_listing_partial(word: Any) -> None:
    found = listed(pod(status=word))
    assert found.pods[0].seen.key == KEY
    assert found.pods[0].seen.state is None
    assert found.problem is not None


def test_a_word_nobody_knows_on_a_foreign_pod_leaves_the_listing_complete() -> None:
    assert listed(pod(status="CONFUSED", **FOREIGN)).problem is None


@pytest.mark.parametrize(
    "hidden", [{"id": ...}, {"id": None}, {"id": ""}, {"id": "a b"}, {"id": "é"}, {"id": "x" * 257}]
)
def test_an_entry_without_a_readable_id_hides_a_pod_only_if_it_may_be_ours(hidden: dict[str, Any]) -> None:
    assert listed(pod(**hidden)).problem is not None
    assert listed(pod(name="x", **hidden)).problem is not None, "our owner tag is enough"
    assert listed(pod(**FOREIGN | hidden)).problem is None


@pytest.mark.parametrize("entry", [None, 1, "pod", [], {}, {"id": "abc"}, {"id": "abc", "name": 5}])
def test_an_entry_that_shows_nobodys_mark_may_be_ours(entry: Any) -> None:
    assert listed(entry).problem is not None


@pytest.mark.parametrize(
    "content",
    [
        None, [], "x", 1, {}, {"pods": None}, {"pods": {}}, {"pods": []}, [pod()],
        {"pods": [], "pagination": None}, {"pods": [], "pagination": {}},
        {"pods": [], "pagination": {"hasNextPage": None, "nextCursor": None}},
        {"pods": [], "pagination": {"hasNextPage": "false"}},
        {"pods": [], "pagination": {"hasNextPage": True, "nextCursor": None}},
        {"pods": [], "pagination": {"hasNextPage": True}},
        {"pods": [], "pagination": {"hasNextPage": True, "nextCursor": ""}},
        {"pods": [], "pagination": {"hasNextPage": True, "nextCursor": 7}},
        {"pods": [], "pagination": {"hasNextPage": False, "nextCursor": 7}},
        {"pods": [], "pagination": {"hasNextPage": False, "nextCursor": {}}},
        {"pods": [], "pagination": {"hasNextPage": True, "nextCursor": "\ud800"}},
    ],
)  # fmt: skip
def test_a_listing_that_does_not_state_its_end_is_not_complete(content: Any) -> None:
    assert Reader(NAMESPACE).page(raw(content), now=NOW).problem is not None


def test_an_empty_listing_that_states_its_end_is_complete() -> None:
    assert listed() == Page()


def test_what_a_page_shows_is_seen_though_nothing_says_whether_it_goes_on() -> None:
    assert len(listed(pod(), pagination=None).pods) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary() | st.builds(lambda value: json.dumps(value).encode(), json_values))
def test_bytes_that_describe_no_pod_never_raise_and_never_look_like_an_empty_account(body: bytes) -> None:
    reader = Reader(NAMESPACE)
    assert reader.page(body, now=NOW).problem is not None
    assert isinstance(reader.pod(body, now=NOW), Unreadable)
    assert problem_in(400, {"content-type": "application/problem+json"}, body) is None or body.startswith(b"{")


@given(st.dictionaries(st.sampled_from(sorted(pod())), json_values))
def test_a_pod_with_any_fields_spoilt_is_described_or_leaves_the_listing_partial(spoilt: dict[str, Any]) -> None:
    found = listed(pod(**{name: value for name, value in spoilt.items() if name not in {"name", "env"}}))
    assert found.problem is not None or [shown.seen.key.name for shown in found.pods] == [NAME]


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"1e999999999999999999999", b"NaN", b'{"pods": [1e9999999]}', b"9" * 5000, b"\xff{", b""]
)
def test_hostile_numbers_and_depths_are_no_more_than_unreadable(body: bytes) -> None:
    assert Reader(NAMESPACE).page(body, now=NOW).problem is not None


@pytest.mark.parametrize("count", [0, 1, None, ..., "0", False, -1, 0.0])
def test_only_a_count_of_zero_says_that_there_are_no_cards(count: Any) -> None:
    fault = seen(gpu={"id": "x", "count": count} if count is not ... else {"id": "x"}).fault
    assert fault is (StopReason.ZERO_GPU if count == 0 and type(count) is int else None)


@pytest.mark.parametrize("shown", [{"status": "TERMINATED"}, {"cpu": {"vcpuCount": 4}}])
def test_what_is_over_or_was_made_without_cards_is_not_at_fault_for_having_none(shown: dict[str, Any]) -> None:
    assert seen(gpu={"id": "x", "count": 0}, **shown).fault is None


@pytest.mark.parametrize(
    ("runtime", "fault"),
    [
        ({"gpus": []}, StopReason.ZERO_GPU),
        ({"gpus": None}, None),
        ({}, None),
        (None, None),
        ({"gpus": [{}]}, None),
    ],
)
def test_an_empty_list_of_cards_says_that_there_are_none_and_a_missing_one_says_nothing(
    runtime: Any, fault: StopReason | None
) -> None:
    assert seen(runtime=runtime).fault is fault


def test_a_machine_that_is_still_being_made_may_list_no_cards_yet() -> None:
    assert seen(status="PROVISIONING", runtime={"gpus": []}).fault is None


@pytest.mark.parametrize(("word", "pod_id"), [("STARTING", "abc"), ("EXITED", "abc"), ("RUNNING", "a.evil.example/")])
def test_an_endpoint_is_told_for_running_pods_with_a_plain_id_only(word: str, pod_id: str) -> None:
    assert seen(status=word, id=pod_id).endpoint is None
    assert seen(status="RUNNING", id="a" * 48).endpoint is not None
    assert seen(status="RUNNING", id="a" * 49).endpoint is None


def test_an_endpoint_follows_the_configured_proxy() -> None:
    reader = Reader(replace(NAMESPACE, proxy_url="http://127.0.0.1:9/proxy/{pod}/{port}"))
    found = reader.pod(raw(pod()), now=NOW)
    assert isinstance(found, Pod)
    assert found.seen.endpoint == "http://127.0.0.1:9/proxy/5xpma5eg46tqjq/8000/v1/"


@pytest.mark.parametrize("cost", ["0.79", -1, True, None, 1e9, [], float("1e-400")])
def test_a_cost_that_makes_no_sense_is_unknown(cost: Any) -> None:
    assert seen(cost=cost).usd_per_hour in {None, Decimal(0)}


def test_a_cost_is_read_to_the_last_digit() -> None:
    body = raw(pod()).replace(b"0.79", b"0.1000000000000000055")
    found = Reader(NAMESPACE).pod(body, now=NOW)
    assert isinstance(found, Pod)
    assert found.seen.usd_per_hour == Decimal("0.1000000000000000055")


@pytest.mark.parametrize("epoch", ["", "x", "-1", "1.5", "9" * 19, 3, None])
def test_an_epoch_that_is_no_number_is_none_and_the_other_tags_stay(epoch: Any) -> None:
    assert seen(env={**ENV, "GPUWARDEN_EPOCH": epoch}).tags == replace(TAGS, epoch=None)


def test_a_request_id_is_read_from_the_tag_before_the_name() -> None:
    other = "rffffffffffffffff"
    assert seen(env={**ENV, "GPUWARDEN_REQUEST": other}).tags.request == other


@pytest.mark.parametrize("tag", ["r123", "", "R0123456789ABCDEF", 7, None])
def test_a_request_id_is_read_from_the_name_where_the_tag_is_none(tag: Any) -> None:
    assert seen(env={**ENV, "GPUWARDEN_REQUEST": tag}).tags.request == REQUEST


def test_a_name_outside_our_prefix_carries_no_request_id() -> None:
    assert seen(name=f"somebody-{REQUEST}", env={}).tags.request is None


def test_tags_under_a_foreign_prefix_are_not_believed() -> None:
    reader = Reader(replace(NAMESPACE, foreign_prefixes=("gpuwarden-legacy-",)))
    found = reader.pod(raw(pod(name=f"gpuwarden-legacy-{REQUEST}")), now=NOW)
    assert isinstance(found, Pod)
    assert (found.seen.tags, found.seen.namespaced, found.ours) == (Tags(), False, False)


@pytest.mark.parametrize("name", ["my pod", "Jürgens Pod", "x" * 300, "\ud800", "a%20b"])
def test_a_pod_of_any_name_has_an_exact_key(name: str) -> None:
    assert key_name(name).isascii()
    assert len(seen(name=name).key.name) <= IDENTIFIER_BYTES_MAX


def test_two_long_names_have_different_keys() -> None:
    assert key_name("ü" * 300 + "a") != key_name("ü" * 300 + "b")


def test_nothing_of_the_environment_but_our_tags_is_kept() -> None:
    assert "CANARY" not in repr(read(env={**ENV, "HF_TOKEN": "KEY_CANARY_2"}))


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-29T11:50:00",
        "yesterday",
        "",
        1795967143,
        None,
        "9999-12-31T23:59:59-23:59",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
    ],
)
def test_a_time_without_a_zone_or_sense_is_unknown(text: Any) -> None:
    assert seen(createdAt=text).created_at is None


def test_a_cluster_member_is_flagged() -> None:
    assert seen(cluster={"id": "c1", "rank": 0}).cluster


def test_a_container_start_follows_the_uptime_where_no_start_is_said() -> None:
    assert seen(startedAt=None).started_at == NOW - timedelta(seconds=100)


PROBLEM = {"title": "Bad Request", "status": 400, "detail": "no instances", "errors": ["$: x"]}


@pytest.mark.parametrize("kind", ["application/problem+json", "application/problem+json; charset=utf-8"])
def test_a_problem_is_told_in_the_providers_words(kind: str) -> None:
    assert problem_in(400, {"content-type": kind}, raw(PROBLEM)) == Problem(detail="Bad Request: no instances: $: x")


@pytest.mark.parametrize(
    ("code", "kind", "content"),
    [
        (400, "application/json", PROBLEM),
        (400, "text/html", PROBLEM),
        (400, "", PROBLEM),
        (403, "application/problem+json", PROBLEM),
        (400, "application/problem+json", [PROBLEM]),
        (400, "application/problem+json", None),
    ],
)
def test_a_problem_that_is_not_well_formed_or_speaks_of_another_answer_is_none(
    code: int, kind: str, content: Any
) -> None:
    assert problem_in(code, {"content-type": kind}, raw(content)) is None


def test_a_problem_without_its_number_is_one() -> None:
    assert problem_in(400, {"content-type": "application/problem+json"}, b"{}") == Problem(detail="HTTP 400")


@pytest.mark.parametrize(
    ("name", "key"),
    [("ü" * 42 + "a" * 4, "%C3%BC" * 42 + "aaaa"), ("ü" * 42 + "a" * 5, ("%C3%BC" * 42)[:224])],
    ids=["256", "257"],
)
def test_a_name_is_whole_in_its_key_up_to_the_key_s_length(name: str, key: str) -> None:
    found = key_name(name)
    assert (len(found), found[: len(key)]) == (256, key)


@pytest.mark.parametrize(
    ("entrypoint", "arguments", "command"),
    [
        (["vllm"], ["serve", "x"], ("vllm", "serve", "x")),
        ([], [], ()),
        (["vllm"], None, None),
        (None, ["serve"], None),
        ("vllm", ["serve"], None),
        (["vllm"], ["serve", 7], None),
        ([None], ["serve"], None),
    ],
)
def test_a_command_is_known_where_both_of_its_parts_are_lists_of_texts(
    entrypoint: Any, arguments: Any, command: tuple[str, ...] | None
) -> None:
    assert read(entrypoint=entrypoint, cmd=arguments).command == command
