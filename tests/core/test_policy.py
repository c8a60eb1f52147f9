"""Is every bound of a policy held at the literal, and refused one past it?"""

from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from controller.core.errors import Refusal, RefusalCode
from controller.core.policy import HostingPolicy, LeaseExpiry, ModelPolicy, StopEvidence, Volume

MS = timedelta(milliseconds=1)
US = timedelta(microseconds=1)
S = timedelta(seconds=1)


def hosting(**changes: Any) -> HostingPolicy:
    policy = HostingPolicy(
        owner="acme-prod",
        provider="runpod",
        account="main",
        ledger="default",
        max_active=4,
        max_lifetime=timedelta(days=7),
        usd_per_day=Decimal(40),
    )
    return replace(policy, **changes)


def model(**changes: Any) -> ModelPolicy:
    policy = ModelPolicy(
        alias="qwen",
        model="Qwen/Qwen3-8B",
        image="vllm/vllm-openai:v0.31.0",
        served_name="Qwen/Qwen3-8B",
        server="vllm",
        slots=1,
        offers=("NVIDIA L40S", "NVIDIA A40"),
        cards=1,
        idle_after=timedelta(minutes=30),
        startup_deadline=timedelta(seconds=1800),
        max_lifetime=timedelta(days=7),
        crash_restart_limit=2,
        crash_window=timedelta(seconds=600),
        drain_limit=timedelta(minutes=10),
        usd_per_hour_max=None,
        wait=timedelta(seconds=570),
        queue=64,
        wires=("chat", "completions"),
        tools=False,
        adapters=(),
        merge_system=False,
        stream_plain=False,
        fingerprint="f" * 16,
    )
    return replace(policy, **changes)


# A lease as short as the contract allows needs calls that are shorter still.
TINY = {"lease": MS, "call_limit": 499 * US, "lease_renewal": 499 * US}

HELD = [
    {"max_active": 1},
    {"max_active": 4096},
    {"max_lifetime": MS},
    TINY,
    {"lease": 60 * S + US, "call_limit": 30 * S, "lease_renewal": 30 * S},
    {"usd_per_day": Decimal("0.01")},
    {"listing_fast": 60 * S, "listing_steady": 60 * S, "listing_idle": 60 * S},
    {"hold_first": 6 * 3600 * S},
    {"drain_limit": 0 * S},
    {"starts_per_hour": 1, "starts_per_day": 1, "failed_starts_limit": 1},
    {"stream_lease": 20 * S + US},
    {"owner": "x" * 256},
    {"max_lifetime": timedelta(days=3650)},
    {"probe_bytes_max": 1},
    {"listing_idle": timedelta(days=3650)},
    {"hold_max": timedelta(days=3650)},
    {"settle": timedelta(days=3650)},
]

REFUSED = [
    {"max_active": 0},
    {"max_active": 4097},
    {"max_active": -1},
    {"max_lifetime": 999 * US},
    {"max_lifetime": timedelta(0)},
    {"max_lifetime": timedelta(days=3650) + US},
    {"max_lifetime": timedelta.max},
    {**TINY, "lease": 998 * US},
    {"lease": 60 * S, "call_limit": 30 * S, "lease_renewal": 29 * S},
    {"lease": 300 * S, "lease_renewal": 150 * S},
    {"lease_renewal": timedelta(0)},
    {"call_limit": timedelta(0)},
    {"probe_limit": timedelta(0)},
    {"probe_bytes_max": 0},
    {"usd_per_day": Decimal(0)},
    {"usd_per_day": Decimal(-1)},
    {"usd_per_day": Decimal("NaN")},
    {"usd_per_day": Decimal("Infinity")},
    {"settle": timedelta(0)},
    {"orphan_grace": timedelta(0)},
    {"listing_fast": timedelta(0)},
    {"listing_fast": 61 * S},
    {"listing_steady": 301 * S},
    {"listing_idle": timedelta.max},
    {"listing_fast_for": timedelta(0)},
    {"stop_again_after": timedelta(0)},
    {"stop_alarm_after": timedelta(0)},
    {"stop_backoff_max": timedelta(0)},
    {"stop_retry_after_max": timedelta(0)},
    {"drain_limit": -US},
    {"stream_lease": 20 * S},
    {"stream_lease_renewal": timedelta(0)},
    {"claim_silence": timedelta(0)},
    {"round_gap": timedelta(0)},
    {"hold_first": timedelta(0)},
    {"hold_first": 6 * 3600 * S + US},
    {"hold_max": timedelta.max},
    {"starts_per_hour": 0},
    {"starts_per_day": 0},
    {"failed_starts_limit": 0},
    {"owner": ""},
    {"owner": "two words"},
    {"owner": "x" * 257},
    {"provider": ""},
    {"account": ""},
    {"ledger": ""},
]


@pytest.mark.parametrize("changes", HELD, ids=str)
def test_a_hosting_policy_at_its_bound_is_taken(changes: dict[str, Any]) -> None:
    assert all(getattr(hosting(**changes), name) == value for name, value in changes.items())


@pytest.mark.parametrize("changes", REFUSED, ids=str)
def test_a_hosting_policy_past_its_bound_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        hosting(**changes)
    assert refusal.value.code is RefusalCode.INVALID_POLICY


def test_every_number_and_span_of_a_hosting_policy_is_refused_at_minus_one() -> None:
    for entry in fields(HostingPolicy):
        held = getattr(hosting(), entry.name)
        if isinstance(held, int | timedelta | Decimal):
            with pytest.raises(Refusal):
                hosting(**{entry.name: -S if isinstance(held, timedelta) else type(held)(-1)})


MODEL_HELD = [
    {"slots": 64},
    {"cards": 64},
    {"queue": 1},
    {"queue": 4096},
    {"idle_after": S},
    {"startup_deadline": 6 * 3600 * S},
    {"max_lifetime": MS},
    {"crash_restart_limit": 1},
    {"drain_limit": timedelta(0)},
    {"wait": timedelta(0)},
    {"usd_per_hour_max": Decimal("0.5")},
]

MODEL_REFUSED = [
    {"slots": 0},
    {"slots": 65},
    {"cards": 0},
    {"cards": 65},
    {"queue": 0},
    {"queue": 4097},
    {"idle_after": S - US},
    {"startup_deadline": timedelta(0)},
    {"startup_deadline": 6 * 3600 * S + US},
    {"max_lifetime": 999 * US},
    {"crash_restart_limit": 0},
    {"crash_window": timedelta(0)},
    {"drain_limit": -US},
    {"wait": -US},
    {"usd_per_hour_max": Decimal(0)},
    {"usd_per_hour_max": Decimal("NaN")},
    {"offers": ()},
    {"offers": ("A40", "A40")},
    {"offers": ("",)},
    {"offers": ("A40", "")},
    {"wires": ()},
    {"wires": ("chat", "chat")},
    {"alias": ""},
    {"image": "an image"},
    {"model": ""},
    {"served_name": ""},
    {"server": ""},
    {"fingerprint": ""},
]


@pytest.mark.parametrize("changes", MODEL_HELD, ids=str)
def test_a_model_policy_at_its_bound_is_taken(changes: dict[str, Any]) -> None:
    assert all(getattr(model(**changes), name) == value for name, value in changes.items())


@pytest.mark.parametrize("changes", MODEL_REFUSED, ids=str)
def test_a_model_policy_past_its_bound_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refusal:
        model(**changes)
    assert refusal.value.code is RefusalCode.INVALID_POLICY


def test_the_lower_of_requested_and_allowed_lifetime_counts() -> None:
    policy = hosting(max_lifetime=timedelta(hours=2))
    assert policy.lifetime(timedelta(hours=1)) == timedelta(hours=1)
    assert policy.lifetime(timedelta(hours=2)) == timedelta(hours=2)
    assert policy.lifetime(timedelta(hours=3)) == timedelta(hours=2)


def test_a_listing_is_fresh_for_three_intervals_and_never_longer_than_900_seconds() -> None:
    assert hosting().listing_fresh(15 * S) == 45 * S
    assert hosting().listing_fresh(300 * S) == 900 * S
    assert hosting().listing_fresh(301 * S) == 900 * S


def test_a_start_with_progress_gets_twice_its_deadline_and_never_more_than_six_hours() -> None:
    assert model(startup_deadline=timedelta(hours=1)).startup_deadline_extended == timedelta(hours=2)
    assert model(startup_deadline=timedelta(hours=3, seconds=1)).startup_deadline_extended == timedelta(hours=6)


def test_a_foreign_installation_is_claimable_an_hour_past_the_longest_lifetime() -> None:
    assert hosting(max_lifetime=timedelta(days=1)).claim_age == timedelta(days=1, hours=1)


def test_defaults_are_the_designs_numbers() -> None:
    policy = hosting()
    assert (policy.lease, policy.lease_renewal, policy.call_limit) == (300 * S, 60 * S, 30 * S)
    assert (policy.listing_fast, policy.listing_steady, policy.listing_idle) == (15 * S, 60 * S, 300 * S)
    assert (policy.settle, policy.orphan_grace, policy.listing_fast_for) == (120 * S, 180 * S, 600 * S)
    assert (policy.stop_again_after, policy.stop_alarm_after, policy.stop_backoff_max) == (60 * S, 300 * S, 60 * S)
    assert (policy.hold_first, policy.hold_max, policy.failed_starts_limit) == (600 * S, 6 * 3600 * S, 2)
    assert (policy.probe_limit, policy.probe_bytes_max, policy.drain_limit) == (10 * S, 1_048_576, 600 * S)
    assert (policy.stream_lease, policy.stream_lease_renewal, policy.claim_silence) == (30 * S, 10 * S, 900 * S)
    assert policy.stop_retry_after_max == 300 * S
    assert (policy.starts_per_hour, policy.starts_per_day, policy.round_gap) == (4, 12, 30 * S)
    assert policy.stop_evidence is StopEvidence.VERIFIED
    assert policy.lease_expiry is LeaseExpiry.REACQUIRE


def test_to_fill_a_volume_only_what_stands_beside_it_may_be_asked_for() -> None:
    beside = (Volume(place="EU-RO-1", offers=("L40S@EU-RO-1",)), Volume(place="US-TX-3", offers=("A40@US-TX-3",)))
    both = model(volumes=beside)
    assert both.offers_for(None) == both.offers
    assert both.offers_for("US-TX-3") == ("A40@US-TX-3",)
    assert both.offers_for("EU-SE-1") == ()
