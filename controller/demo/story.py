"""Does the main job work, end to end?

Plays it with the `openai` client against the running demo: told that it is cold, then waiting and streaming real
tokens, then idle, stopped and proven gone. Checks what the provider really had, that nothing is owed, and that the
evidence verifies. The last line is JSON.
"""

import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import anyio

from controller.api.client import DaemonClient, Problem, Unreachable

ALIAS: Final = "tiny"
GONE_LIMIT_S: Final = 60.0
WORDS: Final = 24


class Scene(Protocol):
    """What the story is played on."""

    setup_seconds: float
    lines: list[str]

    @property
    def address(self) -> str: ...

    @property
    def config(self) -> Path: ...

    @property
    def evidence(self) -> Path: ...

    @property
    def daemon(self) -> DaemonClient: ...

    async def truth(self) -> dict[str, Any]: ...


class Failed(Exception):
    """A step of the story did not come out as it must."""


async def play(scene: Scene) -> int:
    """Play and check; returns the exit code. Says on stdout what happens, and ends with one line of JSON."""
    began = time.perf_counter()
    result: dict[str, Any] = {"schema": 1, "ok": False}
    try:
        result |= await _acts(scene)
        result["ok"] = True
    except (Failed, Unreachable, Problem, TimeoutError) as problem:
        result["problem"] = str(problem) or type(problem).__name__
        sys.stderr.write("\n".join(scene.lines[-40:]) + "\n")
    result["setup_seconds"] = scene.setup_seconds
    result["story_seconds"] = round(time.perf_counter() - began, 1)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    return 0 if result["ok"] else 1


async def _acts(scene: Scene) -> dict[str, Any]:
    told = await anyio.to_thread.run_sync(_be_told, scene.address)
    _say(f"told: 503 {told['code']}, phase {told['phase']}, retry after {told['retry_after']} s")
    asked = time.perf_counter()
    tokens, text, first_s = await anyio.to_thread.run_sync(_stream, scene.address, asked)
    _say(f"streamed {tokens} chunks, the first after {first_s:.1f} s: {text[:60]!r}")
    due_at = await _until_gone(scene)
    truth = await scene.truth()
    deleted = [call for call in truth["calls"] if call["effect"] == "deleted"]
    _say("the pod is stopped and its end is proven")
    owed = (await scene.daemon.get("/v1/status"))["owed"]
    result = {
        "created": len(truth["pods"]),
        "stopped": len([made for made in truth["pods"] if made["deleted_at"] is not None]),
        "owed": owed,
        "tokens": tokens,
        "first_token_seconds": round(first_s, 2),
        "seconds_after_due": round(deleted[0]["at"] - due_at, 2) if deleted else None,
        "billed_usd": round(sum(made["billed_usd"] for made in truth["pods"]), 4),
        "evidence_lines": await _evidence(scene),
    }
    _require(result["created"] == 1 and result["stopped"] == 1, f"one pod, made and stopped: {result}")
    _require(owed == 0 and tokens > 0, f"nothing owed, some tokens: {result}")
    return result


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise Failed(words)


def _client(address: str) -> Any:
    from openai import OpenAI  # only the demo has it

    return OpenAI(base_url=address, api_key="none-needed-on-loopback", max_retries=0)


def _be_told(address: str) -> dict[str, Any]:
    """Ask a cold model without waiting."""
    from openai import InternalServerError

    messages = [{"role": "user", "content": "hello"}]
    try:
        _client(address).chat.completions.create(model=ALIAS, messages=messages, extra_headers={"Prefer": "wait=0"})
    except InternalServerError as told:
        body = told.body if isinstance(told.body, dict) else {}
        retry_after = told.response.headers.get("retry-after")
        _require(told.status_code == 503 and body.get("code") == "model_starting", f"told {told.status_code} {body}")
        _require(retry_after is not None and 1 <= int(retry_after) <= 60, f"retry-after is {retry_after}")
        return {"code": body["code"], "phase": body.get("phase"), "retry_after": retry_after}
    raise Failed("a cold model answered a caller that would not wait")


def _stream(address: str, asked: float) -> tuple[int, str, float]:
    """Wait for the model and take its answer piece by piece: pieces, text, seconds to the first."""
    messages = [{"role": "user", "content": "tell me something"}]
    pieces: list[str] = []
    first_s = 0.0
    stream = _client(address).chat.completions.create(model=ALIAS, messages=messages, stream=True, max_tokens=WORDS)
    for chunk in stream:
        content = chunk.choices[0].delta.content if chunk.choices else None
        if content:
            first_s = first_s or time.perf_counter() - asked
            pieces.append(content)
    return len(pieces), "".join(pieces), first_s


async def _until_gone(scene: Scene) -> float:
    """Wait for the idle stop and its proof; returns the instant at which the stop fell due, in seconds since 1970."""
    due_at: float | None = None

    def over(status: dict[str, Any]) -> bool:
        return status["obligations_open"] == 0 and due_at is not None

    with anyio.fail_after(GONE_LIMIT_S):
        while True:
            status = await scene.daemon.get("/v1/status")
            stated = status["models"][0]["idle_stop_at"]
            if stated is not None:
                due_at = datetime.fromisoformat(stated).timestamp()
            if over(status) and due_at is not None:
                return due_at
            await anyio.sleep(0.1)


async def _evidence(scene: Scene) -> int:
    """Let the command verify the file; returns how many lines it has."""
    verified = await _command(scene, ["evidence", "verify"])
    _require(verified.returncode == 0, f"evidence verify: {verified.stderr.decode()}")
    lines = scene.evidence.read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    for event in ("obligation.opened", "obligation.discharged"):
        _require(event in events, f"no {event} in the evidence")
    return len(lines)


async def _command(scene: Scene, words: list[str]) -> subprocess.CompletedProcess[bytes]:
    program = [sys.executable, "-m", "controller", *words, "--config", str(scene.config)]
    return await anyio.run_process(program, check=False)
