"""What may a provider do wrong, and what lies may it tell?

Its calls: outages, lost and late creates, listings, reads and deletes that are not what they seem. What happens to the
pods themselves is in `pod_faults`.
"""

import random
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.stage import Act, Kind, Stage, spread

ANY: Final = {"path": "/[!p]*"}
"""All but the proxy."""
CREATE: Final = {"method": "POST", "path": "/v2/pods"}
LISTING: Final = {"method": "GET", "path": "/v2/pods"}
READ: Final = {"method": "GET", "path": "/v2/pods/*"}
DELETE: Final = {"method": "DELETE", "path": "/v2/pods/*"}
QUEUE: Final = {"method": "GET", "path": "/v2/queued-pods"}
BILL: Final = {"method": "GET", "path": "/v2/billing/pods"}
PROXY: Final = {"path": "/proxy/*"}

MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86400.0
REFUSALS: Final = (400, 401, 402, 403, 404, 409, 413, 422, 429)
ERRORS: Final = (500, 502, 503, 504)
SPOILT: Final = ("truncated", "html", "null", "empty", "wrong-type")
RETRY_AFTER: Final = ("0", "5", "3600", "86400", "Sun, 06 Nov 2095 08:49:37 GMT", "soon", "-1", "")
NO_PODS: Final = {"pods": [], "pagination": {"nextCursor": None, "hasNextPage": False}}

Deed = Callable[[random.Random], dict[str, Any]]


def _lasting(kind: str, match: dict[str, str], deed: Deed, *, least: float, most: float) -> Act:
    """All such calls go wrong for a while."""

    def act(stage: Stage, draw: random.Random) -> bool:
        rule = {"match": match, "do": deed(draw)}
        stage.rules(kind, [rule], lasts=spread(draw, least, most))
        return True

    return act


def _few(kind: str, match: dict[str, str], deed: Deed, *, most: int = 2) -> Act:
    """The next such calls go wrong, within half a day."""

    def act(stage: Stage, draw: random.Random) -> bool:
        done = deed(draw)
        rule = {"match": match, "times": draw.randint(1, most), "do": done}
        stage.rules(kind, [rule], lasts=12 * HOUR, slack=done.get("delay", 0.0) + done.get("queued", 0.0))
        return True

    return act


def _set(kind: str, change: Callable[[random.Random], dict[str, Any]], *, least: float, most: float) -> Act:
    def act(stage: Stage, draw: random.Random) -> bool:
        stage.setting(kind, change(draw), lasts=spread(draw, least, most))
        return True

    return act


def _is(**deed: Any) -> Deed:
    return lambda draw: dict(deed)


def _error(draw: random.Random) -> dict[str, Any]:
    """Some gateways answer for a server that did what it was asked."""
    return {"answer": draw.choice(ERRORS), "effect": draw.random() < 0.3}


def _spoilt(draw: random.Random) -> dict[str, Any]:
    return {"malformed": draw.choice(SPOILT)}


def _rate_limit(draw: random.Random) -> dict[str, Any]:
    return {"answer": 429, "headers": {"Retry-After": draw.choice(RETRY_AFTER)}}


def _refusal(draw: random.Random) -> dict[str, Any]:
    status = draw.choice(REFUSALS)
    return _rate_limit(draw) if status == 429 else {"answer": status}


def _queued(draw: random.Random) -> dict[str, Any]:
    """How such a create is answered was never seen: as accepted, or in any way that does not say."""
    wait = {"queued": spread(draw, 30, 4 * HOUR)}
    return draw.choice(
        [
            wait,
            wait | {"drop": "after"},
            wait | {"answer": draw.choice(ERRORS), "effect": True},
            wait | {"malformed": draw.choice(SPOILT)},
        ]
    )


def _no_bill(draw: random.Random) -> dict[str, Any]:
    return {"answer": draw.choice((*ERRORS, 401, 403))} if draw.random() < 0.5 else _spoilt(draw)


def _partial(stage: Stage, draw: random.Random) -> bool:
    ours = [pod.id for pod in stage.ours()]
    if not ours:
        return False
    omitted = draw.sample(ours, draw.randint(1, len(ours)))
    rule = {"match": LISTING, "do": {"omit": omitted}}
    stage.rules("listing-partial", [rule], *omitted, lasts=spread(draw, 20, HOUR))
    return True


def _denied(stage: Stage, draw: random.Random) -> bool:
    pod = stage.one_of_ours(draw)
    if pod is None:
        return False
    rule = {"match": READ | {"pod": pod.id}, "do": {"answer": 404}}
    stage.rules("read-denied", [rule], pod.id, lasts=spread(draw, 20, HOUR))
    return True


OUTAGE: Final = {"least": 2 * MINUTE, "most": 2 * DAY}
WHILE: Final = {"least": 30.0, "most": 2 * HOUR}

KINDS: Final[dict[str, Kind]] = {
    "outage-refused": Kind(
        "no call gets an answer", _lasting("outage-refused", ANY, _is(drop="before"), **OUTAGE), 0.06, 0.15
    ),
    "outage-hang": Kind(
        "calls hang; some have their effect",
        _lasting("outage-hang", ANY, lambda draw: {"hang": 3600.0, "effect": draw.random() < 0.5}, **OUTAGE),
        0.06,
        0.15,
    ),
    "outage-error": Kind(
        "every call is a 5xx; some have their effect", _lasting("outage-error", ANY, _error, **OUTAGE), 0.06, 0.15
    ),
    "outage-html": Kind(
        "every call is answered with a page",
        _lasting("outage-html", ANY, lambda draw: {"malformed": "html", "effect": draw.random() < 0.3}, **OUTAGE),
        0.06,
        0.15,
    ),
    "proxy-out": Kind(
        "no model server can be reached",
        _lasting(
            "proxy-out",
            PROXY,
            lambda draw: draw.choice([{"answer": 502}, {"answer": 524}, {"drop": "before"}, {"hang": 120.0}]),
            least=10,
            most=HOUR,
        ),
        0.3,
        1.0,
    ),
    "rate-limited": Kind(
        "429 for everything, whatever it says to wait",
        _lasting("rate-limited", ANY, _rate_limit, least=20, most=HOUR),
        0.4,
        1.0,
    ),
    "create-lost": Kind(
        "a create is not made, and its answer does not say so",
        _few("create-lost", CREATE, lambda draw: draw.choice([{"drop": "before"}, {"answer": draw.choice(ERRORS)}])),
        0.5,
        1.5,
    ),
    "create-lost-made": Kind(
        "a create is made, and its answer does not say so",
        _few(
            "create-lost-made",
            CREATE,
            lambda draw: draw.choice(
                [{"drop": "after"}, {"answer": draw.choice(ERRORS), "effect": True}, {"hang": 3600.0, "effect": True}]
            ),
        ),
        0.7,
        2.0,
    ),
    "create-error-made": Kind(
        "a create is made, and its answer is a 5xx",
        _few("create-error-made", CREATE, lambda draw: {"answer": draw.choice(ERRORS), "effect": True}, most=3),
        0.5,
        1.5,
    ),
    "create-late": Kind(
        "a create is made after its caller gave up",
        _few("create-late", CREATE, lambda draw: {"delay": spread(draw, 5, 900)}),
        0.5,
        1.5,
    ),
    "create-queued": Kind(
        "a create comes to a pod that waits, and becomes one that bills", _few("create-queued", CREATE, _queued), 0.4, 1
    ),
    "create-refused": Kind(
        "a create is refused, for any reason that there is", _few("create-refused", CREATE, _refusal, most=4), 0.7, 2.0
    ),
    "create-malformed": Kind(
        "a create is made and its answer cannot be read", _few("create-malformed", CREATE, _spoilt), 0.4, 1.0
    ),
    "create-ignored": Kind(
        "a create is accepted and nothing is made", _few("create-ignored", CREATE, _is(ignore=True)), 0.3, 1.0
    ),
    "listing-lags": Kind(
        "new pods are missing from listings for a while",
        _set("listing-lags", lambda draw: {"list_lag_seconds": spread(draw, 5, 600)}, least=HOUR, most=DAY),
        0.4,
        1.0,
    ),
    "listing-partial": Kind("listings leave pods of ours out", _partial, 0.5, 2.0),
    "listing-paged": Kind(
        "listings come in small pages",
        _set("listing-paged", lambda draw: {"page_size": draw.randint(1, 3)}, least=HOUR, most=DAY),
        0.3,
        0.6,
    ),
    "listing-empty": Kind(
        "listings say that there is nothing",
        _lasting("listing-empty", LISTING, _is(answer=200, body=NO_PODS), least=15, most=HOUR),
        0.4,
        1.0,
    ),
    "listing-doubled": Kind(
        "listings show each pod twice", _lasting("listing-doubled", LISTING, _is(twice=True), **WHILE), 0.3, 1.0
    ),
    "listing-spoilt": Kind("listings cannot be read", _lasting("listing-spoilt", LISTING, _spoilt, **WHILE), 0.4, 1.0),
    "listing-error": Kind(
        "listings fail",
        _lasting("listing-error", LISTING, lambda draw: {"answer": draw.choice((*ERRORS, 401, 403, 404))}, **WHILE),
        0.3,
        1.0,
    ),
    "queue-unread": Kind(
        "what waits for a machine cannot be read",
        _lasting(
            "queue-unread",
            QUEUE,
            lambda draw: draw.choice([{"answer": draw.choice(ERRORS)}, _spoilt(draw), {"hang": 60.0}]),
            **WHILE,
        ),
        0.2,
        0.7,
    ),
    "bill-unread": Kind(
        "the bill cannot be read", _lasting("bill-unread", BILL, _no_bill, least=HOUR, most=12 * HOUR), 0.2, 0.5
    ),
    "read-lags": Kind(
        "a new pod cannot be read for a while",
        _set("read-lags", lambda draw: {"get_lag_seconds": spread(draw, 5, 600)}, least=HOUR, most=DAY),
        0.3,
        1.0,
    ),
    "read-denied": Kind("a pod that lives is said not to be found", _denied, 0.5, 1.5),
    "read-spoilt": Kind("a pod's answer cannot be read", _lasting("read-spoilt", READ, _spoilt, **WHILE), 0.3, 1.0),
    "delete-ignored": Kind(
        "deletes are accepted and not done", _few("delete-ignored", DELETE, _is(ignore=True), most=4), 0.6, 1.5
    ),
    "delete-conflict": Kind(
        "deletes are refused with a conflict", _lasting("delete-conflict", DELETE, _is(answer=409), **WHILE), 0.4, 1.0
    ),
    "delete-refused": Kind(
        "deletes are refused, for any reason that there is",
        _lasting("delete-refused", DELETE, _refusal, **WHILE),
        0.3,
        1.0,
    ),
    "delete-lost": Kind(
        "a delete's answer is lost, whether it was done or not",
        _few(
            "delete-lost",
            DELETE,
            lambda draw: draw.choice(
                [{"drop": "before"}, {"drop": "after"}, {"hang": 3600.0}, {"hang": 3600.0, "effect": True}]
            ),
            most=5,
        ),
        0.6,
        2.0,
    ),
    "delete-late": Kind(
        "a delete is done after its caller gave up",
        _few("delete-late", DELETE, lambda draw: {"delay": spread(draw, 5, 900)}),
        0.4,
        1.0,
    ),
    "delete-error": Kind(
        "deletes fail with a 5xx; some are done all the same", _lasting("delete-error", DELETE, _error, **WHILE), 0.4, 1
    ),
    "delete-spoilt": Kind(
        "deletes are done, and their answers odd", _lasting("delete-spoilt", DELETE, _spoilt, **WHILE), 0.3, 1.0
    ),
    "stop-lags": Kind(
        "what was deleted is still shown for a while",
        _set("stop-lags", lambda draw: {"stop_lag_seconds": spread(draw, 10, 1800)}, least=HOUR, most=DAY),
        0.4,
        1.0,
    ),
    "env-hidden": Kind(
        "environments are not shown",
        _set("env-hidden", lambda draw: {"echo_env": "none"}, least=10 * MINUTE, most=DAY),
        0.2,
        0.5,
    ),
    "env-resolved": Kind(
        "environments are shown with the secrets in them",
        _set("env-resolved", lambda draw: {"echo_env": "resolved"}, least=10 * MINUTE, most=DAY),
        0.2,
        0.5,
    ),
    "provider-clock-off": Kind(
        "the provider's clock is wrong",
        _set(
            "provider-clock-off",
            lambda draw: {"clock_offset_seconds": draw.choice((-1, 1)) * spread(draw, 2, 30 * DAY)},
            least=10 * MINUTE,
            most=DAY,
        ),
        0.2,
        0.5,
    ),
}
