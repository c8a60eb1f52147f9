"""How does a test of the emulator get one, with a clock it moves by hand?"""

import random
from typing import Any

import httpx

from controller.emulators.runpod import Emulator, Settings, build_app
from tests.emulators.document import faults_in
from tests.support.asgi_transport import AsgiTransport

START = 1_800_000_000.0
STREAM_LIMIT_S = 1.0
"""Of real time. A log that is open for ever is read with `flow`, or a test waits for ever for its end."""
A40 = {"id": "NVIDIA A40", "count": 1}
VLLM_BODY: dict[str, Any] = {
    "name": "a-vllm",
    "image": "vllm/vllm-openai:v0.32.0",
    "gpu": A40,
    "ports": ["8000/http"],
    "args": "org/model --served-model-name tiny",
    "env": {"VLLM_API_KEY": "{{ RUNPOD_SECRET_key }}"},
}
CHAT: dict[str, Any] = {"model": "tiny", "messages": [{"role": "user", "content": "say it"}], "max_tokens": 3}


class World:
    """An emulator, a client of its API, and the time. The model server's key is `open-sesame`."""

    def __init__(self, *, unheard_of: bool = False, **settings: Any) -> None:
        """`unheard_of`: what the test orders is in no document."""
        self.unheard_of = unheard_of
        self.now = START
        chosen = Settings(**({"secrets": {"key": "open-sesame"}} | settings))
        self.emulator = Emulator(clock=lambda: self.now, rng=random.Random(1), settings=chosen)
        self.app = build_app(self.emulator)
        self.client = httpx.AsyncClient(
            transport=AsgiTransport(self.app, stream_limit_s=STREAM_LIMIT_S),
            base_url="http://emulator",
            headers={"authorization": "Bearer account-key", "user-agent": "tests"},
            event_hooks={"response": [self._hold_to_document]},
        )

    async def _hold_to_document(self, answer: httpx.Response) -> None:
        """Whatever a test asks the API for, the answer has to be one of the document's, unless it was ordered wrong."""
        request, kind = answer.request, answer.headers.get("content-type", "")
        made_up = self.unheard_of or self.emulator.faults.given or self.emulator.settings.echo_errors
        if made_up or kind == "text/event-stream" or not request.url.path.startswith("/v"):
            return
        faults = faults_in(request.method, request.url.path, answer.status_code, kind, await answer.aread())
        assert faults == [], (request.method, request.url.path, answer.status_code, faults)

    async def create(self, **body: Any) -> str:
        answer = await self.client.post("/v2/pods", json=VLLM_BODY | body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def ready_pod(self, **body: Any) -> str:
        pod = await self.create(**body)
        self.now += 60
        return pod

    async def read(self, pod: str) -> dict[str, Any]:
        answer = await self.client.get(f"/v2/pods/{pod}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def listed(self) -> list[str]:
        return [entry["id"] for entry in (await self.client.get("/v2/pods")).json()["pods"]]

    async def ask(self, pod: str, path: str, *, key: str | None = None, **options: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"} if key else {"authorization": ""}
        method = "POST" if "json" in options else "GET"
        return await self.client.request(method, f"/proxy/{pod}/8000{path}", headers=headers, **options)

    def truth_of(self, pod: str) -> dict[str, Any]:
        found: dict[str, Any] = next(entry for entry in self.emulator.truth()["pods"] if entry["id"] == pod)
        return found

    def effects(self) -> list[str]:
        return [call["effect"] for call in self.emulator.truth()["calls"]]
