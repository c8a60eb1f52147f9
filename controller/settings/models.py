"""What can be said about one model?

The keys are those of requirements, App. D, each with its bounds. What two keys may not say together is ruled by
`model_rules`.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BaseModel

from controller.settings.sections import CLOSED, CredentialName, FilePath, Gigabytes, UsdPerHour
from controller.settings.values import (
    FLAG,
    JSON_OBJECT,
    arguments,
    fraction,
    one_of,
    span,
    text,
    texts_by_name,
    whole,
    words,
)
from controller.settings.windows import WINDOWS, ZONE

WRITES: Final = ("chat", "completions", "responses", "messages")
READS: Final = ("embeddings", "rerank")
"""A server that only reads texts, to place or to rate them, writes none: a model has wires of one kind."""
WIRES: Final = (*WRITES, *READS)

_DATA_CENTER = r"[A-Z0-9-]{2,32}"
_SECRET_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,127}"


class ModelSection(BaseModel):
    """One model: what to serve, on what, and for how long."""

    model_config = CLOSED

    model: Annotated[str, text(r"[!-~]{1,200}", 'write the Hugging Face repository, as in "Qwen/Qwen3-8B"')]
    """The Hugging Face repository."""
    image: Annotated[str, text(r"[!-~]{1,200}", 'write image and tag, as in "vllm/vllm-openai:v0.31.0"')]
    """The container image, pinned by tag or digest."""
    gpus: Annotated[
        tuple[str, ...], words(r"[ -~]{1,64}", 'list GPU types in order, as in ["NVIDIA L40S"]', least=1, most=16)
    ]
    """GPU types in the order to ask for them, never another. Too few: no capacity. Too dear: the day ends early."""
    context: Annotated[int, whole(128, 2_000_000)]
    """Tokens of context for one request. Too low: long prompts are refused. Too high: does not fit and never starts."""
    server: Annotated[str, one_of("vllm", "llama_cpp")] = "vllm"
    """The model server that the image holds: "vllm" or "llama_cpp"."""
    model_file: Annotated[str, text(r"[!-~]{1,200}", "write a file of the repository")] | None = None
    """llama_cpp only: the GGUF file in the repository; default: the server's own choice."""
    served_name: Annotated[str, text(r"[!-~]{1,200}", "write a name without spaces")] | None = None
    """The name that the model server knows the model by; default: the repository."""
    replicas: Annotated[int, whole(1, 64)] = 1
    """Machines of this model at once. Each is paid for."""
    gpu_count: Annotated[int, whole(1, 16)] = 1
    """Cards a machine. Too low: does not fit. Too high: each card is paid for."""
    custom_all_reduce: Annotated[bool, FLAG] = False
    """vLLM on several cards: true leaves its own all-reduce on: faster where it works; elsewhere it hangs and bills."""
    cloud_type: Annotated[str, one_of("SECURE", "COMMUNITY")] = "SECURE"
    """SECURE or COMMUNITY; the latter is cheaper, on strangers' machines, and needs allow_community in [runpod]."""
    data_center_ids: Annotated[
        tuple[str, ...], words(_DATA_CENTER, 'list data centres, as in ["EU-RO-1"]', least=0, most=16)
    ] = ()
    """Only these; empty: any. Few: less capacity."""
    disk_gb: Annotated[int, whole(10, 2000)] | None = None
    """Container disk in GB; default: from the size. Too low: the download fails after it was paid. Too high: cost."""
    volumes: Annotated[
        dict[str, str],
        texts_by_name(
            _DATA_CENTER, r"[A-Za-z0-9]{1,64}", 'write { "EU-RO-1" = "volume id" }, at most 16 entries', most=16
        ),
    ] = {}
    """Network volumes that hold the weights: data centre to volume id. Every GPU type is asked for beside the first,
    then beside the next; where none is left, a machine elsewhere downloads. Each bills day and night."""
    volume_mount_path: Annotated[
        str, text(r"(/[A-Za-z0-9._-]+){1,16}", "write an absolute path without a slash at its end")
    ] = "/workspace"
    """Where a volume is mounted; caches go there."""
    model_size_gb: Gigabytes | None = None
    """Size of the weights in GB; default: as the hub last told `config check --online`, else unknown. Too low: starts
    cut off, disks too small. Too high: a hung start is paid longer."""
    max_num_seqs: Annotated[int, whole(1, 1024)] = 8
    """Requests at once. Too low: they queue in the server. Too high: does not fit in memory."""
    max_num_batched_tokens: Annotated[int, whole(1, 2_000_000)] | None = None
    """vLLM only: tokens a step. Too high: memory. Default: the server's own."""
    long_prefill_token_threshold: Annotated[int, whole(1, 2_000_000)] | None = None
    """vLLM only: prompts beyond it are cut into pieces, so that short ones get in between."""
    gpu_util: Annotated[Decimal, fraction("0.1", "1.0")] = Decimal("0.90")
    """vLLM only: share of the card's memory. Too low: small cache. Too high: out of memory while starting."""
    thinking: Annotated[str, one_of("on", "off")] = "off"
    """Whether the chat template lets the model think first: "on" or "off". On: longer, dearer answers."""
    reasoning_effort: Annotated[str, one_of("low", "medium", "high", "xhigh")] | None = None
    """For templates that know it: low, medium, high or xhigh. Higher: longer, dearer answers."""
    sampling: Annotated[dict[str, Any], JSON_OBJECT] | None = None
    """Sampling where a request says nothing, as a table or JSON; default: the server's own, for vLLM without thinking
    what suits it. llama_cpp takes numbers of a few names."""
    extra_args: Annotated[tuple[str, ...], arguments(64)] = ()
    """Further arguments for the model server, last. A wrong one: the server never starts, and the start was paid."""
    environment: Annotated[
        dict[str, str],
        texts_by_name(r"[A-Z_][A-Z0-9_]{0,63}", r"[ -~]{0,512}", 'write { NAME = "text" }, at most 32', most=32),
    ] = {}
    """Further environment of the container. Secrets only as "{{ RUNPOD_SECRET_name }}"."""
    api_key_secret: Annotated[str, text(_SECRET_NAME, "write letters, digits and _, no digit first")] | None = None
    """Name of the secret at the provider that holds the model server's key; default: vllm_ and the alias."""
    key_credential: CredentialName | None = None
    """Gateway: systemd credential with the same key."""
    key_file: FilePath | None = None
    """Gateway: file (0600) with the same key; default: keys/ALIAS beside the config."""
    probe_key_credential: CredentialName | None = None
    """Daemon: systemd credential with the same key, so that it can ask for the served name. Without: unknown."""
    probe_key_file: FilePath | None = None
    """Daemon: file (0600) with the same key, for the same."""
    hf_token_secret: Annotated[str, text(_SECRET_NAME, "write letters, digits and _, no digit first")] | None = None
    """Name of the secret at the provider that holds a Hugging Face token: gated models, faster downloads."""
    registry: Annotated[str, text(r"[A-Za-z0-9_-]{1,64}", "write the id of the registry credential")] | None = None
    """The provider's id of a registry credential, for private images."""
    min_cuda: Annotated[str, text(r"[0-9]{1,2}\.[0-9]{1,2}", 'write a version, as in "12.8"')] | None = None
    """Oldest CUDA version of the machine. Too low: the image does not run there. Too high: less capacity."""
    adapters: Annotated[
        dict[str, str],
        texts_by_name(
            r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}",
            r"[A-Za-z0-9._/-]{1,200}",
            'write { name = "org/repository" }, or a path on a volume; at most 64 entries',
            most=64,
        ),
    ] = {}
    """LoRA adapters, loaded beside the model and asked for as ALIAS:NAME: name to Hugging Face repository, or to a path
    on a volume (llama_cpp: to a GGUF file there). Each takes memory of the card."""
    adapter_rank: Annotated[int, whole(1, 512)] | None = None
    """vLLM only: highest rank of an adapter; default: 16. Too low: the server never starts. Too high: memory."""
    tool_calling: Annotated[str, one_of("parsed", "absent")] = "absent"
    """"absent": requests with tools are refused before anything starts. "parsed" needs tool_call_parser for vLLM."""
    tool_call_parser: Annotated[str, text(r"[A-Za-z0-9_.-]{1,64}", "write the parser's name")] | None = None
    """vLLM's parser for this model family. A wrong one: tool calls arrive as text."""
    merge_system: Annotated[bool, FLAG] = False
    """llama_cpp only, which gets system messages first: true makes them one, for templates that take no more."""
    stream_plain: Annotated[bool, FLAG] = False
    """True: plain chats and completions are asked as streams and put together by the gateway, because the provider's
    proxy cuts an answer of which no byte comes for some 100 s. False: such a request is a 504, upstream_timeout."""
    wires: Annotated[tuple[str, ...], words("|".join(WIRES), f"choose from {', '.join(WIRES)}", least=1, most=6)] = (
        "chat",
        "completions",
        "responses",
        "messages",
    )
    """APIs that this model serves, of chat, completions, responses, messages, embeddings and rerank; others are refused
    before anything starts. With embeddings or rerank the model writes no texts: its server is started for those."""
    allow_unpinned: Annotated[bool, FLAG] = False
    """True: an image without tag, or "latest". What runs may then change with each start."""
    max_usd_per_hour: UsdPerHour | None = None
    """Dearest machine that is taken; default: the dearest listed GPU's price × gpu_count. Too low: nothing starts."""
    idle_after: Annotated[timedelta, span("1s", "24h")] = timedelta(minutes=30)
    """Stopped after so long without a request. Too low: a start after each pause. Too high: idle cost."""
    startup_deadline: Annotated[timedelta, span("10s", "6h")] | None = None
    """Longest start; default: from the size. Too low: paid and cut off. Too high: a hung one is paid longer."""
    abandon_after: Annotated[timedelta, span("2m", "6h")] | None = None
    """A start is given up when nobody has waited for it for so long, counted from the last one who left or may still
    come back as told; default: never. Too low: who comes back pays for a start from its beginning. Too high or never: a
    machine that nobody wants becomes ready and bills until it is idle."""
    max_lifetime: Annotated[timedelta, span("1s", "365d")] | None = None
    """A machine of this model lives at most so long; default, and never more than: the policy's."""
    wait: Annotated[timedelta, span("0s", "30m")] | None = None
    """How long a caller is held; default: the gateway's."""
    queue: Annotated[int, whole(1, 4096)] | None = None
    """Callers that wait; default: the gateway's."""
    crash_restart_limit: Annotated[int, whole(1, 100)] = 2
    """Restarts of the container within crash_window that end it. Too low: one hiccup does. Too high: a loop is paid."""
    crash_window: Annotated[timedelta, span("10s", "24h")] = timedelta(seconds=600)
    """Restarts further apart than this do not add up."""
    drain_limit: Annotated[timedelta, span("0s", "6h")] | None = None
    """Open requests may end so long before a stop; default: the policy's. Too low: cut answers. Too high: cost."""
    keep_warm: Annotated[tuple[str, ...], WINDOWS] = ()
    """Windows in which it serves whether asked or not, as in ["Mon-Fri 08:00-18:00"]; it is started early by what a
    start took. Too wide: an empty GPU bills. Money, holds and limits of starts count as ever."""
    off: Annotated[tuple[str, ...], WINDOWS] = ()
    """Windows in which nothing starts and what runs is drained and stopped, as in ["Sat,Sun", "22:00-06:00"]. They
    outweigh keep_warm. Too wide: callers are refused."""
    zone: Annotated[str, ZONE] = "UTC"
    """Whose clock the windows are read by, as in "Europe/Berlin". Another one: they begin hours early or late."""

    @property
    def reads_only(self) -> bool:
        """It places or rates texts, and writes none."""
        return not set(self.wires).isdisjoint(READS)
