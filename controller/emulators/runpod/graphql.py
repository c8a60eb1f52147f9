"""What does Runpod's old GraphQL door still answer?

The account's balance, which v2 does not show. Errors come with status 200, as they do there; everything else is
refused.
"""

from __future__ import annotations

import json

from controller.emulators.exchange import Answer, in_json
from controller.emulators.runpod import api
from controller.emulators.runpod.api_call import Ask

_SPEND_LIMIT_USD = 80


def answer_graphql(ask: Ask) -> Answer:
    if ask.request.method != "POST":
        return api.problem(405, "method not allowed")
    try:
        query = str(json.loads(ask.request.body)["query"])
    except (ValueError, KeyError, TypeError):
        return api.problem(400, "request could not be processed")
    if "myself" not in query or "mutation" in query:
        return in_json(
            200, {"errors": [{"message": "Something went wrong. Please try again later or contact support."}]}
        )
    if ask.request.bearer() is None and "api_key" not in ask.request.parameters():
        return in_json(200, {"data": {"myself": None}})
    shown = {
        "clientBalance": round(ask.emulator.balance(ask.now), 6),
        "currentSpendPerHr": round(ask.emulator.spend_per_hour(), 6),
        "spendLimit": _SPEND_LIMIT_USD,
        "id": f"user_{ask.account}",
    }
    return in_json(200, {"data": {"myself": {name: value for name, value in shown.items() if name in query}}})
