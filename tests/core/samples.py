"""What do the tests of the rules speak of? One key, resource, record and duty, each varied by what a test is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from controller.core.deployment import Create, DeploymentSpec, ProviderState, Record, SeenResource
from controller.core.hosting import Authorization, Claim, Wish
from controller.core.identity import DeploymentId, ObligationId, Owner, RequestId, ResourceKey, Scope, Tags
from controller.core.lease import Lease
from controller.core.lifecycle import Phase
from controller.core.obligation import Obligation
from controller.core.policy import HostingPolicy, ModelPolicy

T0: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
MS: Final = timedelta(milliseconds=1)
S: Final = timedelta(seconds=1)
OWNER: Final = Owner(name="acme", installation="i1")
SCOPE: Final = Scope(provider="runpod", account="main")
DEPLOYMENT: Final = DeploymentId("qwen-1")
REQUEST: Final = RequestId("r1")


def key(incarnation: str = "p1", *, name: str = "gpuwarden-qwen", account: str = "main") -> ResourceKey:
    return ResourceKey(provider="runpod", account=account, name=name, incarnation=incarnation)


OURS: Final = Tags(owner="acme", installation="i1", epoch=1, request=REQUEST)


def resource(**changes: Any) -> SeenResource:
    seen = SeenResource(
        key=key(), tags=OURS, namespaced=True, state=ProviderState.RUNNING, word="RUNNING", usd_per_hour=Decimal("0.79")
    )
    return replace(seen, **changes)


def spec(**changes: Any) -> DeploymentSpec:
    asked = DeploymentSpec(
        id=DEPLOYMENT,
        provider="runpod",
        account="main",
        model="qwen",
        image="vllm/vllm-openai:v0.31.0",
        resource_name="gpuwarden-qwen",
        requested_lifetime=timedelta(days=7),
    )
    return replace(asked, **changes)


def record(phase: Phase = Phase.DECLARED, **changes: Any) -> Record:
    held = Record(spec=spec(), slot=0, fingerprint="f1", phase=phase, declared_at=T0, epoch=1)
    return replace(held, **changes)


def serving(phase: Phase = Phase.ACTIVE, **changes: Any) -> Record:
    return replace(record(phase), key=key(), started_at=T0, **changes)


def create(**changes: Any) -> Create:
    return replace(Create(request=REQUEST, deployment=DEPLOYMENT, offer="L40S"), **changes)


def duty(**changes: Any) -> Obligation:
    owed = Obligation(
        id=ObligationId("o1"), opened_at=T0, deployment=DEPLOYMENT, model="qwen", slot=0, request=REQUEST, epoch=1
    )
    return replace(owed, **changes)


def lease(**changes: Any) -> Lease:
    return replace(Lease(deployment=DEPLOYMENT, holder="d1", epoch=1, expires_at=T0 + 300 * S), **changes)


def claim(**changes: Any) -> Claim:
    return replace(Claim(lease=lease(), epoch=1, holder="d1", now=T0), **changes)


def wish(**changes: Any) -> Wish:
    asked = Wish(
        spec=spec(),
        slot=0,
        fingerprint="f1",
        authorization=Authorization(ledger="budget", reservation="qwen-1.2026-03-01"),
        now=T0,
    )
    return replace(asked, **changes)


def hosting_policy(**changes: Any) -> HostingPolicy:
    policy = HostingPolicy(
        owner="acme",
        provider="runpod",
        account="main",
        ledger="budget",
        max_active=2,
        max_lifetime=timedelta(days=7),
        usd_per_day=Decimal(40),
    )
    return replace(policy, **changes)


def model_policy(**changes: Any) -> ModelPolicy:
    policy = ModelPolicy(
        alias="qwen",
        model="Qwen/Qwen3-8B",
        image="vllm/vllm-openai:v0.31.0",
        served_name="Qwen/Qwen3-8B",
        server="vllm",
        slots=1,
        offers=("L40S", "A40"),
        cards=1,
        idle_after=timedelta(minutes=30),
        startup_deadline=timedelta(seconds=900),
        max_lifetime=timedelta(days=7),
        crash_restart_limit=2,
        crash_window=timedelta(seconds=600),
        drain_limit=timedelta(minutes=10),
        usd_per_hour_max=None,
        wait=timedelta(seconds=570),
        queue=64,
        wires=("chat",),
        tools=False,
        adapters=(),
        merge_system=False,
        stream_plain=False,
        fingerprint="f1",
    )
    return replace(policy, **changes)
