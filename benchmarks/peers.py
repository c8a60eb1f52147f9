"""What stands beside the gateway when it is compared, and how is each begun?

nginx as it would be set up in front of a model server, which looks at nothing; LiteLLM's proxy, which does much of
what the gateway does, as its own command starts it. Each has one worker and one way in, on loopback, in front of the
same model server. Both belong to somebody else, so they are ended by their group.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import Process

from benchmarks.processes import fetched, free_port
from controller.http1 import WireError

ROOT: Final = Path(__file__).parents[1]
LITELLM: Final = ROOT / ".venv" / "litellm" / "bin" / "litellm"
NGINX_PLACES: Final = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
BEGIN_LIMIT_S: Final = 120.0
LOOK_EVERY_S: Final = 0.1
END_LIMIT_S: Final = 10.0

NGINX_CONFIG: Final = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; keepalive_requests 100000000; server_tokens off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; scgi_temp_path {folder}/s; uwsgi_temp_path {folder}/u;
    upstream model {{ server 127.0.0.1:{model}; keepalive 512; keepalive_requests 100000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=2048;
        location = /healthz {{ return 200; }}
        location / {{
            proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }}
    }}
}}
"""

LITELLM_CONFIG: Final = """
model_list:
  - model_name: {alias}
    litellm_params: {{model: openai/{alias}, api_base: "http://127.0.0.1:{model}/v1", api_key: model-key}}
general_settings: {{master_key: {key}}}
litellm_settings: {{telemetry: false, num_retries: 0}}
"""


class NotHere(Exception):
    """A program that the comparison needs is not installed; the words say how it is."""


def nginx_program() -> str:
    found = shutil.which("nginx", path=f"{NGINX_PLACES}:{os.environ.get('PATH', '')}")
    if found is None:
        raise NotHere("nginx is missing; on Debian or Ubuntu: sudo apt install --no-install-recommends nginx-light")
    return found


def litellm_program() -> str:
    if not LITELLM.is_file():
        raise NotHere("LiteLLM is missing; `make bench-gateway` installs it from requirements/litellm.txt")
    return str(LITELLM)


@asynccontextmanager
async def nginx(folder: Path, *, model_port: int) -> AsyncIterator[tuple[int, int]]:
    """Port and process."""
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(folder=folder, model=model_port, port=port))
    command = [nginx_program(), "-p", str(folder), "-c", str(config), "-e", str(folder / "nginx-error.log")]
    async with _begun(command, folder / "nginx.log", f"http://127.0.0.1:{port}/healthz", {}) as process:
        yield port, process.pid


@asynccontextmanager
async def litellm(folder: Path, *, alias: str, key: str, model_port: int) -> AsyncIterator[tuple[int, int]]:
    """Port and process."""
    port = free_port()
    config = folder / "litellm.yaml"
    config.write_text(LITELLM_CONFIG.format(alias=alias, key=key, model=model_port))
    command = [litellm_program(), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    told = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    url = f"http://127.0.0.1:{port}/health/liveliness"
    async with _begun([*command, "--num_workers", "1"], folder / "litellm.log", url, told) as process:
        yield port, process.pid


@asynccontextmanager
async def _begun(command: list[str], said: Path, url: str, told: Mapping[str, str]) -> AsyncIterator[Process]:
    """Runs until the block ends. Raises RuntimeError with its last words if it does not come to answer."""
    with said.open("wb") as words:
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **told},
        )
    try:
        if not await _answers(process, url):
            raise RuntimeError(f"{command[0]} does not answer:\n{_last_words(said)}")
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


def _last_words(said: Path) -> str:
    return said.read_text(errors="replace")[-2000:]


async def _answers(process: Process, url: str) -> bool:
    with anyio.move_on_after(BEGIN_LIMIT_S):
        while process.returncode is None:
            try:
                await fetched(url)
            except WireError:
                await anyio.sleep(LOOK_EVERY_S)
            else:
                return True
    return False


async def _end(process: Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        with anyio.move_on_after(END_LIMIT_S):
            await process.wait()
            continue
    await process.wait()
