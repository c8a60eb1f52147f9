"""Would this config stop everything that runs, and did an operator say that it may?

The daemon is asked, or its store while it is down. The word is kept for exactly this config, in the store, until the
daemon takes a config at a start; where nothing needs it, none is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import anyio

from controller.cli.exits import Exit, Failure
from controller.cli.link import Daemon, asked
from controller.clock import SystemClock
from controller.core.removal import RUNNING, Machine, Removal, removal
from controller.ids import SystemRandomness
from controller.settings import Settings
from controller.store import confirming
from controller.store.errors import StoreError, StoreInUse
from controller.store.standing import standing
from controller.store.store import Store

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the next start with this config would stop, if that is all that runs."""

    removes: Removal | None
    confirmed: bool = False
    problem: str | None = None
    """Why nobody could tell."""

    @property
    def refused(self) -> bool:
        return self.removes is not None and not self.confirmed

    @property
    def words(self) -> str | None:
        if self.problem is not None:
            return f"whether this config would stop everything that runs is not known: {self.problem}"
        if self.removes is None:
            return None
        if self.confirmed:
            return (
                "confirmed: the next start of the daemon takes this config and stops all that runs"
                f" ({self.removes.text}); restart the daemon"
            )
        return (
            f"this config would stop all that runs ({self.removes.text}): no start of the daemon takes it, the former"
            " one stays in force. If that is meant, run `gpuwarden config check --confirm` and restart the daemon"
        )

    def as_json(self) -> Body | None:
        found = self.removes
        if found is None:
            return None
        return {
            "models": list(found.models),
            "machines": found.machines,
            "usd_per_hour": f"{found.usd_per_hour.normalize():f}",
            "unpriced": found.unpriced,
            "confirmed": self.confirmed,
        }


def look(settings: Settings) -> Outlook:
    """What would be stopped, and whether that was confirmed before. Changes nothing."""

    async def ask(daemon: Daemon) -> tuple[Body, Body]:
        return await daemon.get("/v1/deployments"), await daemon.get("/v1/status")

    try:
        deployments, status = asked(settings, ask)
    except Failure as failure:
        if failure.code is Exit.UNREACHABLE:
            return _recorded(settings)
        return Outlook(removes=None, problem=failure.words)
    machines = [_machine(found) for found in deployments["deployments"] if found["phase"] in RUNNING]
    confirmed = (status.get("config") or {}).get("confirmed") or {}
    return Outlook(removes=removal(machines, settings.models), confirmed=confirmed.get("digest") == settings.digest())


def _machine(found: Mapping[str, Any]) -> Machine:
    rate = found.get("usd_per_hour")
    return Machine(model=str(found["model"]), usd_per_hour=None if rate is None else Decimal(rate))


def _recorded(settings: Settings) -> Outlook:
    store = settings.places.store
    found = standing(store)
    if found is None:
        problem = f"the daemon is down, and its store cannot be read: {store}" if store.exists() else None
        return Outlook(removes=None, problem=problem)
    confirmed = None if found.confirmed is None else found.confirmed.digest
    return Outlook(removes=removal(found.machines, settings.models), confirmed=confirmed == settings.digest())


def confirm(settings: Settings) -> Outlook:
    """Keep the operator's word that this config may stop everything that runs. Raises Failure."""
    before = look(settings)
    if before.problem is not None:
        raise Failure(Exit.UNREACHABLE, f"not confirmed: {before.words}")
    if before.removes is None:
        return before
    body = {"digest": settings.digest(), "models": sorted(settings.models)}

    async def ask(daemon: Daemon) -> Body:
        return await daemon.post("/v1/config/confirm", body)

    try:
        kept = bool(asked(settings, ask).get("confirmed"))
    except Failure as failure:
        if failure.code is not Exit.UNREACHABLE:
            raise
        kept = anyio.run(_confirm_in_store, settings)
    return Outlook(removes=before.removes, confirmed=True) if kept else look(settings)


async def _confirm_in_store(settings: Settings) -> bool:
    """Raises Failure; so where a daemon holds the store and does not answer."""
    policy = settings.hosting_policy()
    try:
        store = await Store.open(
            settings.places.store,
            identity=(policy.owner, policy.provider, policy.account),
            clock=SystemClock(),
            randomness=SystemRandomness(),
        )
        try:
            found = await store.write(
                lambda tx: confirming.confirm(tx, digest=settings.digest(), configured=settings.models)
            )
        finally:
            await store.close()
    except StoreInUse as refused:
        raise Failure(Exit.REFUSED, f"not confirmed: {refused}; its daemon does not answer") from refused
    except StoreError as problem:
        raise Failure(Exit.FAILED, f"not confirmed: {problem}") from problem
    return found is not None
