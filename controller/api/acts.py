"""What may an operator do through the socket?

Each act is one transaction that writes what is owed or ended, and a wake-up; nothing here calls a provider. Stops have
a file of their own, `stopping`: they are taken also where nothing can be written.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from controller.api.panel import Panel
from controller.api.problems import (
    Problem,
    bad_field,
    flag_in,
    not_found,
    read_body,
    refused,
    text_in,
    texts_in,
    unknown_model,
)
from controller.api.starting import ask_as_operator
from controller.core.errors import Code
from controller.core.identity import ObligationId
from controller.core.inventory import NotFound, Present
from controller.core.obligation import Obligation
from controller.core.orphans import ended
from controller.store import claims, confirming, duties, holds, replacing
from controller.store.transaction import Tx, stamp

DIGEST: Final = re.compile("[0-9a-f]{64}")


async def start(panel: Panel, request: Request) -> Response:
    await read_body(request)
    return JSONResponse(await ask_as_operator(panel, request.path_params["alias"]), status_code=202)


async def restart(panel: Panel, request: Request) -> Response:
    """Let what serves make way for successors; accepted when the wish is on record. Nothing that starts is asked."""
    await read_body(request)
    alias: str = request.path_params["alias"]
    if alias not in panel.models:
        raise unknown_model(alias)
    if panel.barred is not None:
        raise refused(panel.barred)
    names = [record.id for record in panel.live(alias)]
    replaced = await panel.store.write(lambda tx: replacing.ask_restart(tx, names))
    panel.ring()
    return JSONResponse({"schema": 1, "replaced": replaced}, status_code=202)


async def confirm(panel: Panel, request: Request) -> Response:
    """An operator vouches for the end of what is owed; refused while it is seen alive, unless forced."""
    body = await read_body(request)
    reference, force = text_in(body, "reference"), flag_in(body, "force")
    obligation = ObligationId(request.path_params["id"])
    duty = panel.book.obligations.get(obligation)
    if duty is None:
        raise not_found(f"obligation {obligation!r}")
    if not duty.open:
        raise refused(f"obligation {obligation} has ended: {duty.ending}")
    alive_at = seen_alive(panel, duty)
    if alive_at is not None and not force:
        raise refused(f"the last look, at {stamp(alive_at)}, shows it alive; stop it, or confirm with force")
    forced = force and alive_at is not None
    await panel.store.write(lambda tx: duties.confirm(tx, obligation, reference=reference, forced=forced))
    panel.ring()
    return JSONResponse({"schema": 1, "obligation": obligation})


def seen_alive(panel: Panel, duty: Obligation) -> datetime | None:
    """When the latest look showed its resource alive; `None` if the latest look did not."""
    looks = [*_in_listings(panel, duty), *_in_reads(panel, duty)]
    at, alive = max(looks, default=(None, False))
    return at if alive else None


def _in_listings(panel: Panel, duty: Obligation) -> Iterable[tuple[datetime, bool]]:
    listing = panel.view.value.listing
    if listing is None:
        return
    found = [
        seen
        for seen in listing.resources
        if seen.key == duty.key or (duty.key is None and duty.request is not None and seen.tags.request == duty.request)
    ]
    if found:
        yield listing.ended_at, any(not ended(seen) for seen in found)
    elif listing.complete:
        yield listing.ended_at, False


def _in_reads(panel: Panel, duty: Obligation) -> Iterable[tuple[datetime, bool]]:
    read = None if duty.key is None else panel.view.value.reads.get(duty.key)
    if isinstance(read, Present):
        yield read.observed_at, not ended(read.resource)
        return
    if isinstance(read, NotFound):
        yield read.began_at, False
    sighted = None if duty.key is None else panel.view.value.sighted.get(duty.key)
    if sighted is not None:
        yield sighted, True


async def claim_installation(panel: Panel, request: Request) -> Response:
    """Take over what another installation of our owner left: adopted where a model is free for it, else stopped."""
    installation: str = request.path_params["id"]
    listing, owner = panel.view.value.listing, panel.book.owner
    if listing is None:
        raise Problem(503, Code.PROVIDER_UNAVAILABLE, "the provider's account was not looked at yet")
    seen = {found.tags.installation for found in listing.resources if owner.copied(found.tags)}
    known = {found.installation for found in panel.book.sightings.values()}
    if installation not in seen | known or installation == owner.installation:
        raise not_found(f"resource of an installation {installation!r}")
    claim = claims.Claim(
        installation=installation,
        resources=listing.resources,
        models=panel.models,
        holder=panel.run_id,
        policy=panel.policy,
    )
    claimed = await panel.store.write(lambda tx: claims.claim(tx, claim))
    panel.ring()
    return JSONResponse({"schema": 1, "claimed": claimed})


async def claim_account(panel: Panel, request: Request) -> Response:
    """An operator says that the account is still the one that holds what we made."""

    def trust(tx: Tx) -> bool:
        if tx.book.account.trusted:
            return False
        why = tx.book.account.why
        tx.put_account(replace(tx.book.account, trusted=True, why=None))
        tx.line("account.confirmed", detail={"by": "operator", "text": why})
        tx.clear_alarm("account-changed", subject=panel.policy.account)
        return True

    confirmed = await panel.store.write(trust)
    panel.ring()
    return JSONResponse({"schema": 1, "confirmed": confirmed})


async def confirm_config(panel: Panel, request: Request) -> Response:
    """The config of this digest, which has these models, may stop everything that runs: the next start takes it."""
    body = await read_body(request)
    digest, models = text_in(body, "digest"), texts_in(body, "models")
    if DIGEST.fullmatch(digest) is None:
        raise bad_field("digest", "a SHA-256 in hexadecimal is wanted")
    found = await panel.store.write(lambda tx: confirming.confirm(tx, digest=digest, configured=models))
    removes = None
    if found is not None:
        removes = {"models": list(found.models), "machines": found.machines, "unpriced": found.unpriced}
        removes["usd_per_hour"] = format(found.usd_per_hour.normalize(), "f")
    return JSONResponse({"schema": 1, "confirmed": found is not None, "removes": removes})


async def unblock(panel: Panel, request: Request) -> Response:
    alias: str = request.path_params["alias"]
    if alias not in panel.models:
        raise unknown_model(alias)
    return await _unblock(panel, [alias])


async def unblock_all(panel: Panel, request: Request) -> Response:
    return await _unblock(panel, list(panel.models))


async def _unblock(panel: Panel, aliases: list[str]) -> Response:
    def unblock(tx: Tx) -> list[str]:
        return [alias for alias in aliases if holds.unblock(tx, alias, why="an operator's command")]

    unblocked = await panel.store.write(unblock)
    panel.ring()
    return JSONResponse({"schema": 1, "unblocked": unblocked})
