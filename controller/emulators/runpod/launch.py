"""What would the program in this container be, and with which name, key and port?

Reads a pod's entrypoint, command and environment as vLLM 0.33 and llama.cpp b11434 read theirs. Another program may
stand in front (a guard, a shell): then the model server's words are looked for among its arguments, and the front
passes requests on from any exposed port while the model server itself listens on loopback only.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from controller.emulators.runpod.pods import Pod

Kind = Literal["vllm", "llama"]
Runner = Literal["generate", "pooling", "embeddings", "rerank"]
Front = Literal["nothing", "shell", "program"]

_REFERENCE: Final = re.compile(r"\{\{\s*RUNPOD_SECRET_([A-Za-z0-9_.\-/]+)\s*\}\}")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_SHELLS: Final = ("sh", "bash", "dash")
_DEFAULT_CONTEXT: Final = 4096
_DEFAULT_SLOTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """`keys` empty: nothing is guarded. `fronted`: another program listens and passes on."""

    kind: Kind
    model: str
    names: tuple[str, ...]
    keys: tuple[str, ...]
    port: int
    loopback: bool
    fronted: bool
    context: int
    """Of one request."""
    runner: Runner = "generate"
    adapters: tuple[tuple[str, str], ...] = ()
    """LoRA: name and place; only of vLLM, which has names for them."""
    keep_alive_seconds: float = 0.0
    usage_always: bool = False
    metrics: bool = True
    slots: int = 1
    """Of llama.cpp: so many requests it works on at once. Four that share the whole context, if it is not told."""

    def listens_on(self, port: int) -> bool:
        return self.fronted or (port == self.port and not self.loopback)


def resolve(env: Mapping[str, str], secrets: Mapping[str, str] | None) -> dict[str, str]:
    """The environment a container gets. A reference to a secret that does not exist stays as written."""
    if secrets is None:
        return dict(env)
    known = secrets

    def value(match: re.Match[str]) -> str:
        return known.get(match.group(1), match.group(0))

    return {name: _REFERENCE.sub(value, text) for name, text in env.items()}


def command(pod: Pod) -> tuple[list[str], list[str]]:
    """The entrypoint (empty: the image's own) and the command; `args` may hold either form."""
    entrypoint, cmd = _from_args(pod.args.strip())
    return (pod.entrypoint or entrypoint), (pod.cmd or cmd)


def _from_args(args: str) -> tuple[list[str], list[str]]:
    if not args.startswith("{"):
        return [], _split(args)
    try:
        stored = json.loads(args)
    except ValueError:
        return [], _split(args)
    return [str(word) for word in stored.get("entrypoint", [])], [str(word) for word in stored.get("cmd", [])]


def read_launch(pod: Pod, secrets: Mapping[str, str] | None) -> Launch | None:
    """The model server this pod runs, or None if it runs none that we know."""
    entrypoint, cmd = command(pod)
    known = None if secrets is None else tuple(secrets.items())
    return _read(pod.image, tuple(entrypoint), tuple(cmd), tuple(pod.env.items()), known)


Pairs = tuple[tuple[str, str], ...]


@lru_cache(maxsize=64)
def _read(
    image: str, entrypoint: tuple[str, ...], cmd: tuple[str, ...], variables: Pairs, secrets: Pairs | None
) -> Launch | None:
    """Asked at every request, and a container is what it was."""
    words = [part for word in (*entrypoint, *cmd) for part in _parts(word)]
    env = resolve(dict(variables), None if secrets is None else dict(secrets))
    kind = _kind(image, words)
    if kind == "vllm":
        return _vllm(_after(words, "serve"), env, front=_front(list(entrypoint), list(cmd), "vllm"))
    if kind == "llama":
        return _llama(words, env, front=_front(list(entrypoint), list(cmd), "llama"))
    return None


def _kind(image: str, words: list[str]) -> Kind | None:
    """By the program that is named, else by the image; a model's name may hold either word and says nothing."""
    programs = {word.rsplit("/", 1)[-1] for word in words}
    if "llama-server" in programs:
        return "llama"
    if "vllm" in programs or any(word.startswith("vllm.") for word in words):
        return "vllm"
    if "llama" in image:
        return "llama"
    return "vllm" if "vllm" in image or "--served-model-name" in words else None


def _vllm(words: list[str], env: Mapping[str, str], *, front: Front) -> Launch:
    options = _Options(words)
    model = options.one("--model") or (words[0] if words and not words[0].startswith("-") else "facebook/opt-125m")
    loopback = options.one("--host") in _LOOPBACK
    own_key = env.get("VLLM_API_KEY", "")
    return Launch(
        kind="vllm",
        model=model,
        names=tuple(options.several("--served-model-name")) or (model,),
        keys=tuple(options.several("--api-key")) or ((own_key,) if own_key else ()),
        port=_number(options.one("--port"), 8000),
        loopback=loopback,
        fronted=front == "program" or (front == "shell" and loopback),
        context=_number(options.one("--max-model-len"), _DEFAULT_CONTEXT),
        runner="pooling" if options.one("--runner") == "pooling" else "generate",
        adapters=_adapters(options),
        keep_alive_seconds=float(_number(options.one("--sse-keep-alive-interval"), 0)),
        usage_always=options.has("--enable-force-include-usage"),
    )


def _llama(words: list[str], env: Mapping[str, str], *, front: Front) -> Launch:
    options = _Options(words)
    model = options.one("-m", "--model", "-hf", "--hf-repo") or env.get("LLAMA_ARG_MODEL") or "model.gguf"
    alias = options.one("-a", "--alias") or env.get("LLAMA_ARG_ALIAS") or model
    keys = options.one("--api-key") or env.get("LLAMA_API_KEY", "")
    loopback = (options.one("--host") or env.get("LLAMA_ARG_HOST")) in _LOOPBACK
    pool = _number(options.one("-c", "--ctx-size") or env.get("LLAMA_ARG_CTX_SIZE"), _DEFAULT_CONTEXT)
    slots = _number(options.one("-np", "--parallel") or env.get("LLAMA_ARG_N_PARALLEL"), 0)
    return Launch(
        kind="llama",
        model=model,
        names=tuple(alias.split(",")),
        keys=tuple(key for key in keys.split(",") if key),
        port=_number(options.one("--port") or env.get("LLAMA_ARG_PORT"), 8080),
        loopback=loopback,
        fronted=front == "program" or (front == "shell" and loopback),
        context=max(1, pool // max(1, slots)),
        slots=slots if slots > 0 else _DEFAULT_SLOTS,
        runner=_llama_runner(options),
        metrics=options.has("--metrics") or env.get("LLAMA_ARG_ENDPOINT_METRICS", "0") not in ("", "0", "false"),
    )


def _adapters(options: _Options) -> tuple[tuple[str, str], ...]:
    if not options.has("--enable-lora"):
        return ()
    pairs = (word.partition("=") for word in options.several("--lora-modules"))
    return tuple((name, place) for name, _, place in pairs)


def _llama_runner(options: _Options) -> Runner:
    if options.has("--embeddings") or options.has("--embedding"):
        return "embeddings"
    return "rerank" if options.has("--reranking") or options.has("--rerank") else "generate"


class _Options:
    """Options of a command line: `--name value`, `--name=value`, or several values up to the next option."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def several(self, *names: str) -> list[str]:
        for at, word in enumerate(self._words):
            name, equals, value = word.partition("=")
            if name in names:
                return [value] if equals else self._values(at + 1)
        return []

    def one(self, *names: str) -> str | None:
        return next(iter(self.several(*names)), None)

    def has(self, name: str) -> bool:
        return name in self._words

    def _values(self, at: int) -> list[str]:
        found: list[str] = []
        for word in self._words[at:]:
            if word.startswith("-") and not word[1:].isdigit():
                break
            found.append(word)
        return found


def _parts(word: str) -> list[str]:
    """A shell's command line, given as one word, is several."""
    return _split(word) if " " in word and ("vllm" in word or "llama" in word) else [word]


def _split(text: str) -> list[str]:
    return list(_words(text))


@lru_cache(maxsize=64)
def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def _after(words: list[str], word: str) -> list[str]:
    return words[words.index(word) + 1 :] if word in words else words


def _front(entrypoint: list[str], cmd: list[str], name: str) -> Front:
    """What comes before the model server: an entrypoint of another program listens and passes on."""
    if not entrypoint or any(name in word for word in entrypoint):
        return "nothing" if entrypoint or not cmd or cmd[0] not in _SHELLS else "shell"
    return "shell" if entrypoint[0].rsplit("/", 1)[-1] in _SHELLS else "program"


def _number(text: str | None, default: int) -> int:
    """Whole numbers as vLLM takes them: 32k is 32,000, 32K is 32,768; -1 and `auto` mean that it picks one."""
    if not text or text in ("auto", "-1"):
        return default
    scale = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}.get(text[-1], 1)
    digits = text[:-1] if scale > 1 else text
    try:
        return int(float(digits) * scale)
    except ValueError:
        return default
