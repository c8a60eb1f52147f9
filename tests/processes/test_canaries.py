"""Is a secret ever in anything that is written, shown or sent for others (invariant 7, case B30)?

Five secrets and a prompt are planted. The provider quotes requests in its refusals and shows environments with their
secrets resolved; the model server prints its environment, and quotes keys; all is logged at debug; a pass fails with
a traceback that quotes what it held, and the daemon is killed in the middle.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes.box import Box, box
from tests.processes.canaries import ACCOUNT, CLIENT, HUB, PROMPT, SERVER, WEBHOOK, found_below, found_in
from tests.processes.children import parent_of

pytestmark = pytest.mark.process

# As a slip in our own code would be: an exception that nobody expects, with what was at hand in its words.
SLIP = """
import controller.tasks.observer as observer

passes = []
run_pass = observer.Observer.run_pass


def held(thing, depth=5):
    if isinstance(thing, (str, bytes)) or depth == 0:
        return repr(thing)
    if isinstance(thing, dict):
        return " ".join(f"{name}={held(value, depth - 1)}" for name, value in thing.items())
    return held(vars(thing), depth - 1) if hasattr(thing, "__dict__") else repr(thing)


async def slipping(self):
    passes.append(self)
    if len(passes) == 3:
        raise RuntimeError("a slip of ours: " + held(self._reading) + held(self._prober))
    return await run_pass(self)

observer.Observer.run_pass = slipping
"""
SECRETS_OF_THE_ACCOUNT = {"vllm_m1": SERVER, "hub": HUB}
CHAT: dict[str, Any] = {"model": "m1", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4}
READING = (
    ("status", "--json"),
    ("status", "m1"),
    ("explain", "m1"),
    ("owed",),
    ("evidence",),
    ("doctor",),
    ("doctor", "--json"),
    ("config", "check"),
)
"""Whoever adds a command that tells something adds it here."""


def plant(world: Box) -> None:
    digest = hashlib.sha256(CLIENT.encode()).hexdigest()
    world.configure(model='hf_token_secret = "hub"\nprobe_key_file = "keys/m1"', gateway=f'keys = ["sha256:{digest}"]')
    text = world.config.read_text().replace('log_level = "info"', 'log_level = "debug"')
    world.config.write_text(text + '\n[alarms]\nwebhook_file = "keys/webhook"\n')
    for name, secret in (("runpod", ACCOUNT), ("m1", SERVER), ("webhook", WEBHOOK)):
        path = world.folder / "keys" / name
        path.write_text(secret)
        path.chmod(0o600)


class Gathered:
    """What others were told or could have read, each under a name."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}

    def add(self, name: str, content: bytes | str) -> None:
        self.texts[name] = self.texts.get(name, b"") + (content if isinstance(content, bytes) else content.encode())

    def leaks(self) -> dict[str, dict[str, str]]:
        """Whoever asked may be told what it asked."""
        return {
            name: leaks
            for name, content in self.texts.items()
            if (leaks := found_in(content, but=("prompt",) if name.startswith("gateway ") else ()))
        }


async def ask_the_gateway(world: Box, gathered: Gathered) -> list[int]:
    """A good request; one with no key; one whose key stands in its address; one that the model server refuses."""
    good = {"authorization": f"Bearer {CLIENT}"}
    codes = []
    async with httpx.AsyncClient(base_url=world.address, timeout=30, trust_env=False) as client:
        for headers, path, body in (
            (good, "/chat/completions", CHAT),
            ({}, "/chat/completions", CHAT),
            ({}, f"/chat/completions?api_key={CLIENT}", CHAT),
            (good, "/chat/completions", CHAT | {"messages": []}),
            (good, "/messages", CHAT),
        ):
            answer = await client.post(path, json=body, headers=headers)
            codes.append(answer.status_code)
            gathered.add(f"gateway {path.partition('?')[0]}", f"{dict(answer.headers)} {answer.text}")
        for address in (f"{world.address}/models", f"{world.address.removesuffix('/v1')}/metrics"):
            shown = await client.get(address, headers=good)
            assert shown.status_code == 200
            gathered.add(f"gateway {shown.url.path}", shown.content)
    return codes


async def ask_the_daemon(world: Box, gathered: Gathered) -> None:
    """Everything that the operators' socket shows."""
    transport = httpx.AsyncHTTPTransport(uds=str(world.state / "api.sock"))
    async with httpx.AsyncClient(transport=transport, base_url="http://daemon", timeout=20) as client:
        document = (await client.get("/openapi.json")).json()
        (deployment, *_) = [entry["id"] for entry in await world.deployments()]
        known = {"alias": "m1", "id": deployment, "deployment": deployment}
        for path, operations in document["paths"].items():
            if "get" not in operations:
                continue
            filled = path
            for name, value in known.items():
                filled = filled.replace(f"{{{name}}}", value)
            answer = await client.get(filled)
            assert answer.status_code in (200, 404, 503), (filled, answer.text)
            gathered.add(f"api {filled}", answer.content)
    assert {"api /metrics", "api /v1/status", "api /v1/evidence", "api /openapi.json"} <= set(gathered.texts)


async def run_commands(world: Box, gathered: Gathered, *, copy: str = "copy.db") -> None:
    for words in READING:
        ran = await world.cli(*words)
        assert "Traceback" not in ran.err
        gathered.add(f"command {' '.join(words)}", ran.out + ran.err)
    kept = world.folder / copy
    ran = await world.cli("backup", str(kept))
    assert kept.exists(), ran.err


def look_at_processes(world: Box, gathered: Gathered) -> int:
    """Arguments and environment of what runs, and of whatever it started."""
    ours = {child.pid for child in world.children if child.running}
    others = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    seen = 0
    for pid in {*ours, *(pid for pid in others if parent_of(pid) in ours)}:
        for name in ("cmdline", "environ"):
            gathered.add(f"process {name}", (Path("/proc") / str(pid) / name).read_bytes())
        seen += 1
    return seen


async def live(world: Box, gathered: Gathered) -> None:
    """A life with every kind of refusal in it, a slip and a crash."""
    (world.folder / "slip").mkdir()
    (world.folder / "slip" / "sitecustomize.py").write_text(SLIP)
    await world.fault({"answer": 400}, method="POST", path="/v2/pods", times=1)
    for number in (401, 500, 429):
        await world.fault({"answer": number}, method="GET", path="/v2/pods", times=1)
    daemon = await world.run_daemon(PYTHONPATH=str(world.folder / "slip"))
    await world.run_gateway()
    codes = await ask_the_gateway(world, gathered)
    assert codes == [200, 401, 401, 400, codes[-1]]
    await daemon.kill()
    await world.run_daemon()
    await world.phase("ready")
    await ask_the_gateway(world, gathered)
    await world.fault({"answer": 500}, method="POST", path="/proxy/*/completions", times=1)
    await ask_the_gateway(world, gathered)
    assert look_at_processes(world, gathered) >= 3
    await ask_the_daemon(world, gathered)
    await run_commands(world, gathered)
    (pod,) = await world.alive()
    await world.change(pod["id"], {"upstream": {"state": "refusing-key"}})
    await ask_the_gateway(world, gathered)
    await world.fault({"answer": 500}, method="DELETE", times=1)
    await world.daemon.post("/v1/models/m1/stop", {"now": True})
    await world.all_ended()
    # The whole order comes back as what is wrong with it, and is kept for operators: alarm, `explain`, evidence.
    await world.fault({"answer": 422}, method="POST", path="/v2/pods", times=1)
    await ask_the_gateway(world, gathered)
    assert "model-blocked" in str((await world.daemon.get("/v1/status"))["alarms"])
    await ask_the_daemon(world, gathered)
    await run_commands(world, gathered, copy="copy-after.db")


async def test_no_planted_secret_is_in_anything_written_shown_or_sent() -> None:
    careless: dict[str, Any] = {
        "echo_env": "resolved",
        "echo_errors": True,
        "secrets": SECRETS_OF_THE_ACCOUNT,
        "api_key": ACCOUNT,
    }
    gathered = Gathered()
    async with box(limit=150, anew=True, **careless) as world:
        plant(world)
        await live(world, gathered)
        for call in await world.creates():
            gathered.add("create bodies", call["body"])
        told = json.dumps((await world.truth())["calls"])
        gathered.add("calls to the provider", told)
        await world.close()
        logs = "".join(child.text() for child in world.children)
        assert "a slip of ours: " in logs and "Bearer [redacted]" in logs
        assert gathered.leaks() == {}
        assert found_below(world.folder, but=frozenset({world.folder / "keys"})) == {}
