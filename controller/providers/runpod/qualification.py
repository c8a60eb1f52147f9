"""What does Runpod do with one pod that we rent only to find out?

Answers the port of the qualification run. A pod's environment is looked at here and nowhere kept.
"""

import json
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from controller.core.identity import ResourceKey
from controller.providers.errors import HeldBack
from controller.providers.inspecting import Failed
from controller.providers.qualifying import Echo, Inside
from controller.providers.runpod import wire
from controller.providers.runpod.account import Account
from controller.providers.runpod.document import document
from controller.providers.runpod.inspection import failed, odd, unanswered
from controller.providers.runpod.pace import Kind
from controller.providers.runpod.paths import resource_path
from controller.transport import Answer, TransportError

KEY_VARIABLES: Final = frozenset({"VLLM_API_KEY", "LLAMA_API_KEY"})
RESTART: Final = json.dumps({"action": "restart"}).encode()


class RunpodQualification:
    def __init__(self, account: Account) -> None:
        self._account = account

    async def read_inside(self, key: ResourceKey, *, reference: str) -> Inside | Failed:
        answer = await self._call("GET", resource_path(key))
        if isinstance(answer, Failed):
            return answer
        shown = document(answer.body)
        if not isinstance(shown, dict) or shown.get("id") != key.incarnation:
            return odd("the answer does not describe it")
        runtime = shown.get("runtime")
        inside = runtime if isinstance(runtime, dict) else {}
        cards = inside.get("gpus")
        return Inside(
            echo=_echo(shown.get("env"), reference),
            started_at=wire.instant(shown.get("startedAt")),
            uptime=wire.span(inside.get("uptime")),
            cards=len(cards) if isinstance(cards, list) else None,
        )

    async def restart(self, key: ResourceKey) -> Failed | None:
        answer = await self._call("POST", f"{resource_path(key)}/action", body=RESTART)
        return answer if isinstance(answer, Failed) else None

    async def read_billed(self, key: ResourceKey) -> Decimal | Failed:
        path = f"/billing/pods?bucketSize=hour&lastN=48&podId={quote(key.incarnation, safe='')}"
        answer = await self._call("GET", path)
        if isinstance(answer, Failed):
            return answer
        shown = document(answer.body)
        records = shown.get("records") if isinstance(shown, dict) else None
        if not isinstance(records, list):
            return odd("the answer has no records")
        ours = [record for record in records if isinstance(record, dict) and record.get("podId") == key.incarnation]
        amounts = [wire.usd(record.get("totalAmount")) for record in ours]
        known = [amount for amount in amounts if amount is not None]
        return sum(known, Decimal()) if len(known) == len(amounts) else odd("a record has no amount")

    async def _call(self, method: str, path: str, *, body: bytes | None = None) -> Answer | Failed:
        try:
            answer = await self._account.call(Kind.READ, method, path, body=body)
        except (HeldBack, TransportError) as error:
            return unanswered(error)
        return answer if answer.code == 200 else failed(answer)


def _echo(shown: Any, reference: str) -> Echo:
    """By the one variable that holds our reference; another value in its place is the secret's own."""
    values = [value for name, value in shown.items() if name in KEY_VARIABLES] if isinstance(shown, dict) else []
    if not values:
        return Echo.HIDDEN
    return Echo.REFERENCE if reference in values else Echo.VALUE
