"""What does each model look like to the provider, to its machine and to the probe?

Joins the operator's section with the provider's model type and the model server's arguments: the one place that knows
all three.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller.providers.runpod.order import Cloud, NetworkVolume, RunpodModel, secret_reference
from controller.providers.writing import Launch
from controller.settings import Settings
from controller.settings.model_rules import vllm_version
from controller.settings.models import ModelSection
from controller.tasks.observer import Watched
from controller.upstreams import llama_cpp, vllm
from controller.upstreams.launch import Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Every configured model, in the three shapes that are needed."""

    ordered: Mapping[str, RunpodModel]
    launches: Mapping[str, Launch]
    watched: Mapping[str, Watched]


def fleet(settings: Settings, *, probe_keys: bool = True) -> Fleet:
    """Raises ConfigProblems where a probe key is named and cannot be read."""
    ordered = {alias: _ordered(settings, alias) for alias in settings.models}
    launches = {alias: _launch(settings, alias, ordered[alias]) for alias in settings.models}
    watched = {alias: _watched(settings, alias, ordered[alias], probe_keys=probe_keys) for alias in settings.models}
    return Fleet(ordered=ordered, launches=launches, watched=watched)


def _ordered(settings: Settings, alias: str) -> RunpodModel:
    section = settings.models[alias]
    volumes = tuple(
        NetworkVolume(id=volume, data_center=place, path=section.volume_mount_path)
        for place, volume in section.volumes.items()
    )
    return RunpodModel(
        alias=alias,
        image=section.image,
        gpus=section.gpus,
        key_secret=settings.key_secret(alias),
        disk_gb=settings.fetching_disk_gb(alias),
        gpu_count=section.gpu_count,
        cloud=Cloud(section.cloud_type),
        data_center_ids=section.data_center_ids,
        volumes=volumes,
        volume_disk_gb=settings.disk_gb(alias),
        registry=section.registry,
        min_cuda=section.min_cuda,
        hub_token_secret=section.hf_token_secret,
        environment=section.environment,
    )


def _launch(settings: Settings, alias: str, ordered: RunpodModel) -> Launch:
    section = settings.models[alias]
    argv, plain = _server(section, ordered, volume_path=None)
    if not section.volumes:
        return Launch(argv=argv, environment=plain)
    _, beside = _server(section, ordered, volume_path=section.volume_mount_path)
    return Launch(argv=argv, environment=plain, beside_volume=dict(beside.items() - plain.items()))


def _server(
    section: ModelSection, ordered: RunpodModel, *, volume_path: str | None
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command and its environment; where a volume is mounted, what is fetched is kept on it."""
    if section.server == "llama_cpp":
        server = replace(_llama_cpp(section, ordered), volume_path=volume_path)
        return llama_cpp.argv(server), llama_cpp.environment(server)
    engine = replace(_vllm(section, ordered), volume_path=volume_path)
    return vllm.argv(engine), vllm.environment(engine)


def _vllm(section: ModelSection, ordered: RunpodModel) -> vllm.VllmModel:
    return vllm.VllmModel(
        repository=section.model,
        served_name=section.served_name or section.model,
        context=section.context,
        max_num_seqs=section.max_num_seqs,
        gpu_memory_share=section.gpu_util,
        gpu_count=section.gpu_count,
        thinking=section.thinking == "on",
        reasoning_effort=_effort(section),
        sampling=section.sampling,
        tool_call_parser=section.tool_call_parser,
        max_num_batched_tokens=section.max_num_batched_tokens,
        long_prefill_token_threshold=section.long_prefill_token_threshold,
        reads_only=section.reads_only,
        adapters=section.adapters,
        adapter_rank=section.adapter_rank or vllm.ADAPTER_RANK,
        custom_all_reduce=section.custom_all_reduce,
        extra_args=section.extra_args,
        key_reference=ordered.key_reference,
        hub_token_reference=ordered.hub_token_reference,
    )


def _llama_cpp(section: ModelSection, ordered: RunpodModel) -> llama_cpp.LlamaCppModel:
    return llama_cpp.LlamaCppModel(
        repository=section.model,
        served_name=section.served_name or section.model,
        context=section.context,
        slots=section.max_num_seqs,
        file=section.model_file,
        tools=section.tool_calling == "parsed",
        thinking=section.thinking == "on",
        reasoning_effort=_effort(section),
        sampling=section.sampling,
        embeddings="embeddings" in section.wires,
        reranking="rerank" in section.wires,
        adapters=section.adapters,
        extra_args=section.extra_args,
        key_reference=ordered.key_reference,
        hub_token_reference=ordered.hub_token_reference,
    )


def _effort(section: ModelSection) -> Effort | None:
    return None if section.reasoning_effort is None else Effort(section.reasoning_effort)


def _watched(settings: Settings, alias: str, ordered: RunpodModel, *, probe_keys: bool) -> Watched:
    key = settings.probe_key(alias) if probe_keys else None
    return Watched(
        server=settings.models[alias].server,
        secret_reference=secret_reference(ordered.key_secret),
        credential=None if key is None else key.get_secret_value(),
        ask_version=settings.models[alias].server == "vllm" and vllm_version(settings.models[alias]) is None,
        cards=settings.models[alias].gpu_count,
        volumes=bool(settings.models[alias].volumes),
    )
