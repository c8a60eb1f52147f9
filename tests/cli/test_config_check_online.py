"""Does a check ask the hub only when told to, keep what it says, and tell what stands in the way of a download?

The hub is a stub on a loopback socket.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from controller.settings import load
from tests.cli.conftest import Run
from tests.test_settings import SHORT

SHARDS = [
    {"rfilename": "model-00001-of-00002.safetensors", "size": 200, "lfs": {"size": 10_000_000_000}},
    {"rfilename": "model-00002-of-00002.safetensors", "size": 200, "lfs": {"size": 6_381_470_720}},
    {"rfilename": "consolidated.safetensors", "size": 200, "lfs": {"size": 16_381_470_720}},
    {"rfilename": "config.json", "size": 728},
]


class Hub:
    """Answers what it was told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: Any = {"id": "Qwen/Qwen3-8B", "gated": False, "siblings": SHARDS}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    def body(self) -> bytes:
        return self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()


@pytest.fixture
def hub() -> Iterator[Hub]:
    stub = Hub()

    class Asked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stub.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            body = stub.body()
            self.send_response(stub.status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Asked)
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield stub
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def keyed(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """With the gateway's keys there, and the provider's for its service alone, so that only the hub is asked."""
    monkeypatch.setenv("GPUWARDEN_RUNPOD__KEY_CREDENTIAL", "runpod")
    (folder / "keys").mkdir()
    for name in ("runpod", "qwen"):
        (folder / "keys" / name).write_text("a-key")
        (folder / "keys" / name).chmod(0o600)
    return run


def write(folder: Path, lines: str) -> None:
    (folder / "config.toml").write_text(SHORT + lines)


def checked(run: Run, hub: Hub) -> tuple[int, str, dict[str, Any]]:
    """Code, what is told to people, and the first model's sizing."""
    told = run("config", "check", "--online", "--hub", hub.url)
    found = json.loads(run("config", "check", "--online", "--hub", hub.url, "--json").out)
    return told.code, told.out + told.err, found["models"][0]["sizing"]


def test_nobody_is_asked_unless_told_to(keyed: Run, hub: Hub) -> None:
    assert keyed("config", "check", "--hub", hub.url).code == 0
    assert hub.asked == []


def test_the_hub_tells_the_size_of_what_is_fetched_and_the_rest_follows_from_it(keyed: Run, hub: Hub) -> None:
    code, told, sizing = checked(keyed, hub)
    assert (code, sizing["weights_bytes"]) == (0, 16_400_000_000)
    assert sizing["disk_gb"] == 52
    assert sizing["startup_longest"] == "34m36s"
    assert "the size of its weights is the hub's, asked on 20" in told


def test_the_hub_is_asked_once_a_model_and_without_any_key(keyed: Run, hub: Hub, folder: Path) -> None:
    write(folder, 'hf_token_secret = "hub"\n')
    keyed("config", "check", "--online", "--hub", hub.url)
    ((path, headers),) = hub.asked
    assert path == "/api/models/Qwen/Qwen3-8B?blobs=true"
    assert "authorization" not in headers


def test_what_the_hub_said_stays_for_checks_and_daemons_that_ask_nobody(keyed: Run, hub: Hub, folder: Path) -> None:
    before = load(folder / "config.toml", {})
    keyed("config", "check", "--online", "--hub", hub.url)
    after = load(folder / "config.toml", {})
    assert (before.disk_gb("qwen"), after.disk_gb("qwen")) == (80, 52)
    assert "16.4 GB" in keyed("config", "check").out
    policies = before.model_policies()["qwen"], after.model_policies()["qwen"]
    assert policies[0].fingerprint == policies[1].fingerprint, "no machine is replaced for it"


def test_a_size_that_the_config_states_stands_above_the_hubs(keyed: Run, hub: Hub, folder: Path) -> None:
    write(folder, "model_size_gb = 40\n")
    code, told, sizing = checked(keyed, hub)
    assert (code, sizing["weights_bytes"]) == (0, 40_000_000_000)
    assert "qwen: model_size_gb = 40, but the hub says 16.4" in told
    write(folder, "model_size_gb = 16.4\n")
    assert "the hub says" not in checked(keyed, hub)[1]


def test_another_repository_is_not_what_was_asked_about(keyed: Run, hub: Hub, folder: Path) -> None:
    keyed("config", "check", "--online", "--hub", hub.url)
    (folder / "config.toml").write_text(SHORT.replace("Qwen/Qwen3-8B", "Qwen/Qwen3-32B"))
    assert load(folder / "config.toml", {}).disk_gb("qwen") == 80


@pytest.mark.parametrize("gated", ["auto", "manual", True])
def test_a_gated_repository_without_a_token_is_a_fault_with_its_mend(
    keyed: Run, hub: Hub, folder: Path, gated: object
) -> None:
    hub.answer["gated"] = gated
    code, told, _ = checked(keyed, hub)
    assert code == 78
    assert "models.qwen.hf_token_secret: missing: Qwen/Qwen3-8B is gated" in told
    assert "name that secret" in told
    write(folder, 'hf_token_secret = "hub"\n')
    assert checked(keyed, hub)[0] == 0


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_repository_that_is_not_shown_is_a_fault_unless_a_token_could_show_it(
    keyed: Run, hub: Hub, folder: Path, status: int
) -> None:
    hub.status = status
    code, told, _ = checked(keyed, hub)
    assert (code, 'models.qwen.model = "Qwen/Qwen3-8B": the hub shows no such repository' in told) == (78, True)
    write(folder, 'hf_token_secret = "hub"\n')
    code, told, _ = checked(keyed, hub)
    assert (code, "qwen: Qwen/Qwen3-8B is private or not there" in told) == (0, True)


@pytest.mark.parametrize(
    ("status", "answer", "why"),
    [
        (500, b"", "it answered 500"),
        (429, b"slow down", "it answered 429"),
        (307, b"", "it has moved"),
        (200, b"<html>", "its answer is no JSON"),
        (200, b"[" * 100_000, "its answer is no JSON"),
        (200, b"[]", "its answer lists no files"),
        (200, {"siblings": {}}, "its answer lists no files"),
        (200, {"siblings": [{}] * 10_001}, "it lists more than 10000 files"),
    ],
)
def test_an_answer_that_is_none_is_told_and_is_no_fault(
    keyed: Run, hub: Hub, folder: Path, status: int, answer: Any, why: str
) -> None:
    hub.status, hub.answer = status, answer
    code, told, sizing = checked(keyed, hub)
    assert (code, sizing["weights_bytes"]) == (0, None)
    assert f"qwen: the hub did not tell about Qwen/Qwen3-8B: {why}" in told


@pytest.mark.parametrize(
    "siblings",
    [
        [],
        [{"rfilename": "model.safetensors"}],
        [{"rfilename": "model.safetensors", "size": True}],
        [{"rfilename": "model.safetensors", "size": -1}],
        [{"rfilename": "model.safetensors", "size": 10**15}],
        [{"rfilename": "model.safetensors", "size": "7"}],
        [{"rfilename": 7, "size": 7}, "text", None],
        [SHARDS[0], {"rfilename": "model-00002-of-00002.safetensors"}],
        [{"rfilename": "original/model.safetensors", "size": 7}],
    ],
)
def test_files_that_do_not_tell_a_size_give_none(keyed: Run, hub: Hub, siblings: list[Any]) -> None:
    hub.answer = {"siblings": siblings}
    code, told, sizing = checked(keyed, hub)
    assert (code, sizing["weights_bytes"]) == (0, None)
    assert "which of the files of Qwen/Qwen3-8B are fetched cannot be told" in told


def test_a_hub_that_cannot_be_reached_is_told_and_is_no_fault(keyed: Run, hub: Hub) -> None:
    ended = keyed("config", "check", "--online", "--hub", "http://127.0.0.1:1")
    assert (ended.code, "qwen: the hub did not tell about Qwen/Qwen3-8B: " in ended.err) == (0, True)


def test_a_name_that_is_none_is_never_asked_for(keyed: Run, hub: Hub, folder: Path) -> None:
    for name in ("/workspace/model", "../../admin", "a/b?c", "../.."):
        (folder / "config.toml").write_text(SHORT.replace("Qwen/Qwen3-8B", name))
        assert "is no repository's name" in keyed("config", "check", "--online", "--hub", hub.url).err
    assert hub.asked == []


@pytest.mark.parametrize(
    ("model", "lines", "size"),
    [
        ("org/m-GGUF:Q8_0", "", 9),
        ("org/m-GGUF", "", 5),
        ("org/m-GGUF", 'model_file = "big/m-Q8_0-00001-of-00002.gguf"\n', 30),
        ("org/m-GGUF:Q2_K", "", None),
    ],
)
def test_of_a_repository_for_llama_cpp_the_one_file_counts_that_is_served(
    keyed: Run, hub: Hub, folder: Path, model: str, lines: str, size: int | None
) -> None:
    sizes = {
        "m-Q8_0.gguf": 9, "m-Q4_K_M.gguf": 5, "mmproj-Q4_K_M.gguf": 1, "README.md": 1,
        "big/m-Q8_0-00001-of-00002.gguf": 10, "big/m-Q8_0-00002-of-00002.gguf": 20,
    }  # fmt: skip
    if "big" not in lines:
        sizes = {name: number for name, number in sizes.items() if not name.startswith("big")}
    hub.answer = {"siblings": [{"rfilename": name, "size": number * 10**9} for name, number in sizes.items()]}
    image = SHORT.replace("vllm/vllm-openai:v0.31.0", "ghcr.io/ggml-org/llama.cpp:server-cuda-b11434")
    (folder / "config.toml").write_text(image.replace("Qwen/Qwen3-8B", model) + 'server = "llama_cpp"\n' + lines)
    assert checked(keyed, hub)[2]["weights_bytes"] == (None if size is None else size * 10**9)
    assert hub.asked[0][0] == "/api/models/org/m-GGUF?blobs=true"


def test_a_size_for_which_there_is_no_disk_does_not_keep_the_config_from_loading(
    keyed: Run, hub: Hub, folder: Path
) -> None:
    hub.answer = {"siblings": [{"rfilename": "model.safetensors", "size": 1_600 * 10**9}]}
    keyed("config", "check", "--online", "--hub", hub.url)
    assert load(folder / "config.toml", {}).disk_gb("qwen") == 80


@pytest.mark.parametrize(
    "kept",
    [
        b"{",
        b"[]",
        b'{"schema": 2, "sizes": {}}',
        b'{"schema": 1, "sizes": []}',
        b'{"schema": 1, "sizes": {"vllm Qwen/Qwen3-8B ": {"bytes": "7", "asked_at": "2026-11-30T00:00:00+00:00"}}}',
        b'{"schema": 1, "sizes": {"vllm Qwen/Qwen3-8B ": {"bytes": 7, "asked_at": "yesterday"}}}',
        b'{"schema": 1, "sizes": {"vllm Qwen/Qwen3-8B ": {"bytes": 7, "asked_at": "2026-11-30T00:00:00"}}}',
        b" " * (1 << 20) + b"{}",
    ],
)
def test_a_memory_of_the_hub_that_is_spoilt_is_none(folder: Path, kept: bytes) -> None:
    (folder / "state" / "hub-sizes.json").write_bytes(kept)
    assert load(folder / "config.toml", {}).disk_gb("qwen") == 80


def test_a_memory_behind_a_link_is_none(keyed: Run, hub: Hub, folder: Path) -> None:
    keyed("config", "check", "--online", "--hub", hub.url)
    kept = folder / "state" / "hub-sizes.json"
    kept.rename(folder / "elsewhere.json")
    kept.symlink_to(folder / "elsewhere.json")
    assert load(folder / "config.toml", {}).disk_gb("qwen") == 80


def test_a_memory_that_cannot_be_kept_is_told(keyed: Run, hub: Hub, folder: Path) -> None:
    (folder / "state").rmdir()
    ended = keyed("config", "check", "--online", "--hub", hub.url)
    assert (ended.code, "sizes are not kept in" in ended.err, "16.4 GB" in ended.out) == (0, True, True)
