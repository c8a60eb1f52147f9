"""Does the emulator read a container's command as the model server in it would?"""

import json
from typing import Any

import pytest

from controller.emulators.runpod.launch import Launch, read_launch
from tests.emulators.world import World


def launch(secrets: dict[str, str] | None = None, **given: Any) -> Launch:
    world = World()
    pod = world.emulator.put_pod({"image": "vllm/vllm-openai:v0.32.0"} | given)
    found = read_launch(world.emulator.pods[pod], secrets)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "given",
    [
        {"args": "org/model --served-model-name tiny --port 8001"},
        {"args": "org/model --served-model-name=tiny --port=8001"},
        {"args": "--model org/model --served-model-name tiny --port 8001"},
        {"cmd": ["org/model", "--served-model-name", "tiny", "--port", "8001"]},
        {"entrypoint": ["vllm", "serve"], "cmd": ["org/model", "--served-model-name", "tiny", "--port", "8001"]},
        {"entrypoint": ["bash", "-c"], "cmd": ["exec vllm serve org/model --served-model-name tiny --port 8001"]},
        {
            "entrypoint": ["python3", "-c", "import guard"],
            "cmd": ["vllm", "serve", "org/model", "--served-model-name", "tiny", "--port", "8001"],
        },
        {
            "args": json.dumps(
                {"entrypoint": ["vllm", "serve"], "cmd": ["org/model", "--served-model-name", "tiny", "--port", "8001"]}
            )
        },
    ],
)
def test_every_way_to_write_a_vllm_command_is_the_same(given: dict[str, Any]) -> None:
    read = launch(**given)
    assert (read.kind, read.model, read.names, read.port) == ("vllm", "org/model", ("tiny",), 8001)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"image": "own/image:1", "entrypoint": ["vllm"], "cmd": ["serve", "meta-llama/Llama-3"]}, "vllm"),
        ({"image": "own/image:1", "entrypoint": ["/app/llama-server"], "cmd": ["-hf", "org/for-vllm"]}, "llama"),
        ({"args": "meta-llama/Llama-3"}, "vllm"),
        ({"image": "own/image:1", "args": "org/model --served-model-name tiny"}, "vllm"),
    ],
)
def test_the_program_decides_and_not_the_models_name(given: dict[str, Any], kind: str) -> None:
    assert launch(**given).kind == kind


def test_vllm_without_a_served_name_says_the_models() -> None:
    assert launch(args="org/model").names == ("org/model",)


def test_several_served_names_are_all_served() -> None:
    assert launch(args="org/model --served-model-name a b --port 1").names == ("a", "b")


@pytest.mark.parametrize(("said", "tokens"), [("4096", 4096), ("32k", 32_000), ("32K", 32_768), ("auto", 4096)])
def test_a_context_is_read_in_vllms_short_forms(said: str, tokens: int) -> None:
    assert launch(args=f"org/model --max-model-len {said}").context == tokens


def test_a_key_on_the_command_line_wins_over_the_environment() -> None:
    env = {"VLLM_API_KEY": "from-env"}
    assert launch(args="m --api-key a b", env=env).keys == ("a", "b")
    assert launch(args="m", env=env).keys == ("from-env",)


def test_a_key_given_as_a_secret_is_the_secrets_value() -> None:
    env = {"VLLM_API_KEY": "{{ RUNPOD_SECRET_key }}"}
    assert launch({"key": "value"}, args="m", env=env).keys == ("value",)
    assert launch({}, args="m", env=env).keys == ("{{ RUNPOD_SECRET_key }}",)
    assert launch(None, args="m", env=env).keys == ("{{ RUNPOD_SECRET_key }}",)


def test_llama_shares_its_context_among_its_slots() -> None:
    read = launch(image="ghcr.io/ggml-org/llama.cpp:server", args="-m /m.gguf -a tiny -c 4096 -np 4 --api-key a,b")
    assert (read.kind, read.names, read.context, read.keys) == ("llama", ("tiny",), 1024, ("a", "b"))


def test_llama_reads_its_options_from_the_environment_too() -> None:
    env = {"LLAMA_ARG_ALIAS": "tiny", "LLAMA_ARG_PORT": "8001", "LLAMA_API_KEY": "k", "LLAMA_ARG_ENDPOINT_METRICS": "1"}
    read = launch(image="ghcr.io/ggml-org/llama.cpp:server", args="-m /m.gguf", env=env)
    assert (read.names, read.port, read.keys, read.metrics) == (("tiny",), 8001, ("k",), True)


@pytest.mark.parametrize(
    ("given", "listens"),
    [
        ({"args": "m"}, [8000]),
        ({"args": "m --host 127.0.0.1"}, []),
        ({"entrypoint": ["vllm", "serve"], "cmd": ["m", "--host", "127.0.0.1"]}, []),
        ({"entrypoint": ["python3", "/guard.py"], "cmd": ["vllm", "serve", "m", "--host", "127.0.0.1"]}, [8000, 9000]),
        ({"entrypoint": ["bash", "-c"], "cmd": ["guard & vllm serve m --host 127.0.0.1"]}, [8000, 9000]),
        ({"entrypoint": ["bash", "-c"], "cmd": ["vllm serve m"]}, [8000]),
    ],
)
def test_the_port_answers_where_the_server_or_its_front_listens(given: dict[str, Any], listens: list[int]) -> None:
    read = launch(**given)
    assert [port for port in (8000, 9000) if read.listens_on(port)] == listens
