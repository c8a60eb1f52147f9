"""Which policies does the config make?

The one way from sections to `core.policy`. Defaults that need another key (a gateway's queue, the sum of all replicas)
are filled in here; the fingerprint says when two configs would make different resources.
"""

import hashlib
import json
from decimal import Decimal
from typing import Final

from controller.core.offer import offer_of
from controller.core.policy import HostingPolicy, ModelPolicy, Volume
from controller.core.schedule import Schedule
from controller.settings.models import ModelSection
from controller.settings.sizes import container_disk_gb, disk_usd_per_hour, startup_deadline
from controller.settings.windows import window, zone
from controller.settings.written import Written

PROVIDER: Final = "runpod"
LEDGER: Final = "default"

SHAPING: Final = frozenset({
    "model", "image", "gpus", "context", "server", "model_file", "served_name", "gpu_count", "cloud_type",
    "data_center_ids", "disk_gb", "volumes", "volume_mount_path", "model_size_gb", "max_num_seqs",
    "max_num_batched_tokens", "long_prefill_token_threshold", "gpu_util", "thinking", "reasoning_effort", "sampling",
    "extra_args", "environment", "api_key_secret", "hf_token_secret", "registry", "min_cuda", "adapters",
    "adapter_rank", "custom_all_reduce", "tool_calling", "tool_call_parser",
})  # fmt: skip
"""Keys of a model that shape its resources: a change means a new one (PF-6)."""

GUIDING: Final = frozenset({
    "replicas", "key_credential", "key_file", "probe_key_credential", "probe_key_file", "wires", "allow_unpinned",
    "merge_system", "stream_plain",
    "max_usd_per_hour", "idle_after", "startup_deadline", "max_lifetime", "wait", "queue", "crash_restart_limit",
    "abandon_after", "crash_window", "drain_limit", "keep_warm", "off", "zone",
})  # fmt: skip
"""Keys that are obeyed at once, by whatever runs."""


def hosting_policy(written: Written) -> HostingPolicy:
    policy = written.policy
    replicas = sum(section.replicas for section in written.models.values())
    chosen = policy.model_dump(exclude={"max_active"})
    return HostingPolicy(
        owner=written.name,
        provider=PROVIDER,
        account=written.runpod.account,
        ledger=LEDGER,
        max_active=policy.max_active or min(replicas + 1, 4096),
        usd_per_day=written.usd_per_day,
        **chosen,
    )


def model_policies(written: Written) -> dict[str, ModelPolicy]:
    return {alias: _model_policy(written, alias, section) for alias, section in written.models.items()}


def _model_policy(written: Written, alias: str, section: ModelSection) -> ModelPolicy:
    policy, gateway = written.policy, written.gateway
    return ModelPolicy(
        alias=alias,
        model=section.model,
        image=section.image,
        served_name=section.served_name or section.model,
        server=section.server,
        slots=section.replicas,
        offers=offers(section),
        cards=section.gpu_count,
        idle_after=section.idle_after,
        startup_deadline=section.startup_deadline
        or startup_deadline(section.model_size_gb, hf_token=section.hf_token_secret is not None),
        max_lifetime=min(section.max_lifetime or policy.max_lifetime, policy.max_lifetime),
        crash_restart_limit=section.crash_restart_limit,
        crash_window=section.crash_window,
        drain_limit=policy.drain_limit if section.drain_limit is None else section.drain_limit,
        usd_per_hour_max=section.max_usd_per_hour,
        usd_per_hour_beside=_disks_usd_per_hour(section),
        abandon_after=section.abandon_after,
        wait=gateway.wait if section.wait is None else section.wait,
        queue=gateway.queue if section.queue is None else section.queue,
        wires=section.wires,
        tools=section.tool_calling == "parsed",
        adapters=tuple(section.adapters),
        merge_system=section.merge_system,
        stream_plain=section.stream_plain,
        volumes=volumes(section),
        schedule=_schedule(section),
        fingerprint=fingerprint(section),
    )


def offers(section: ModelSection) -> tuple[str, ...]:
    """Everything that may be asked for, in order: beside each volume, and then a machine that fetches the weights."""
    beside = tuple(offer for volume in volumes(section) for offer in volume.offers)
    return beside if fetching_disk_gb(section) is None else beside + section.gpus


def volumes(section: ModelSection) -> tuple[Volume, ...]:
    """Where the weights may lie, and what may be asked for there."""
    return tuple(
        Volume(place=place, offers=tuple(offer_of(gpu, place) for gpu in section.gpus)) for place in section.volumes
    )


def volume_disk_gb(section: ModelSection) -> int:
    """Container disk of a machine beside a volume, which holds the weights."""
    return section.disk_gb or container_disk_gb(section.model_size_gb, on_volume=True) or 0


def fetching_disk_gb(section: ModelSection) -> int | None:
    """Container disk of a machine that holds the weights itself; None if no machine has as much. What is declared for
    machines beside a volume may be too small for that."""
    needed = container_disk_gb(section.model_size_gb, on_volume=False)
    if not section.volumes:
        return section.disk_gb or needed
    return None if needed is None else max(section.disk_gb or 0, needed)


def _disks_usd_per_hour(section: ModelSection) -> Decimal:
    sizes = [fetching_disk_gb(section) or 0, volume_disk_gb(section) if section.volumes else 0]
    return disk_usd_per_hour(max(sizes))


def _schedule(section: ModelSection) -> Schedule:
    return Schedule(
        warm=tuple(map(window, section.keep_warm)), off=tuple(map(window, section.off)), zone=zone(section.zone)
    )


def fingerprint(section: ModelSection) -> str:
    """Digest of what shapes the resource. Keys at their defaults are left out, so that a new key changes nothing."""
    # Of what is written only: a size that the hub told later makes no other machine of one that runs.
    shape = section.model_dump(mode="json", include=set(SHAPING) & section.model_fields_set, exclude_defaults=True)
    if section.reads_only:
        # Of the wires only these two are a server of another kind.
        shape["reads"] = sorted(section.wires)
    return hashlib.sha256(json.dumps(shape, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]


def key_secret(alias: str, section: ModelSection) -> str:
    """Name of the provider's secret that holds the model server's key."""
    return section.api_key_secret or "vllm_" + alias.replace("-", "_").replace(".", "_")
