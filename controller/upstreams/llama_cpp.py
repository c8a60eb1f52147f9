"""With which command does a machine serve a model with llama.cpp's server?

The context given to the server is a pool that its slots share, so it is one request's context times the slots. Key,
cache and hub token come by environment, never as arguments. Flags as of b11434; the port is always said, since its
default is about to change.
"""

from dataclasses import dataclass, field
from typing import Final

from controller.upstreams.vllm import BadLaunch

PORT: Final = 8000
PROGRAM: Final = "/app/llama-server"
"""The official image's own entrypoint, by its path: the directory is not on the image's PATH."""
KEY_ARGUMENTS: Final = ("--api-key", "--api-key-file", "-hft", "--hf-token")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppModel:
    """One model as llama.cpp is told of it. Raises BadLaunch for values that cannot be."""

    repository: str
    """On the hub, with an optional `:quant`."""
    served_name: str
    context: int
    """Of one request."""
    slots: int = 8
    file: str | None = None
    """The GGUF file in the repository; None: the server chooses by the quant."""
    tools: bool = False
    extra_args: tuple[str, ...] = ()
    key_reference: str = field(default="", repr=False)
    hub_token_reference: str | None = field(default=None, repr=False)
    volume_path: str | None = None

    def __post_init__(self) -> None:
        if min(self.context, self.slots) < 1:
            raise BadLaunch("context and slots are at least 1")
        if any(word.partition("=")[0] in KEY_ARGUMENTS for word in self.extra_args):
            raise BadLaunch("extra_args holds a key, which everybody can read there")


def argv(model: LlamaCppModel) -> tuple[str, ...]:
    """The whole command, which replaces whatever the image would start (MS-10)."""
    return (
        *(PROGRAM, "--hf-repo", model.repository),
        *(() if model.file is None else ("--hf-file", model.file)),
        *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - in its container; the key guards it
        *("--alias", model.served_name),
        *("--ctx-size", str(model.context * model.slots)),
        *("--parallel", str(model.slots)),
        "--metrics",
        *(("--jinja",) if model.tools else ()),
        *model.extra_args,
    )


def environment(model: LlamaCppModel) -> dict[str, str]:
    """What the server reads from its environment; secrets as references only."""
    variables: dict[str, str] = {}
    if model.key_reference:
        variables["LLAMA_API_KEY"] = model.key_reference
    if model.hub_token_reference:
        variables["HF_TOKEN"] = model.hub_token_reference
    if model.volume_path:
        variables["LLAMA_CACHE"] = f"{model.volume_path}/llama"
    return variables
