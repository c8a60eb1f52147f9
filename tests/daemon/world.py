"""Which config do the tests of the daemon's building start from, and how does something come to be owed?"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from controller.core.evidence import StopReason
from controller.core.hosting import Authorization, Wish
from controller.daemon.build import build
from controller.daemon.built import Daemon, Mode, Seams
from controller.ids import SeededRandomness
from controller.settings import Settings
from controller.store import deployments
from controller.store.transaction import Tx
from tests.core.samples import spec
from tests.support.loop_clock import HandClock
from tests.support.stores import open_store

CONFIG: Final = """
name = "acme"
state_dir = "{state}"

[models.qwen]
model = "Qwen/Qwen3-8B"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S", "NVIDIA A40"]
context = 32768
{extra}
"""


def write_config(folder: Path, *, extra: str = "", keys: tuple[str, ...] = ("runpod", "qwen")) -> Path:
    """A config in `folder`, with these keys beside it."""
    (folder / "keys").mkdir(exist_ok=True, mode=0o700)
    for name in keys:
        key = folder / "keys" / name
        key.write_text(f"{name}-key")
        key.chmod(0o600)
    config = folder / "config.toml"
    config.write_text(CONFIG.format(state=folder / "state", extra=extra))
    config.chmod(0o600)
    return config


async def _at_once(work: Any) -> Any:
    return work()


@asynccontextmanager
async def built(
    settings: Settings, *, mode: Mode | None = None, clock: HandClock | None = None
) -> AsyncIterator[Daemon]:
    """A built daemon that is not run."""
    clock = clock or HandClock()
    store = settings.places.store
    if not store.exists():
        store.parent.mkdir(parents=True, exist_ok=True)
        made = await open_store(store.parent, clock)
        await made.close()
        (store.parent / "store.db").rename(store)
        # The file is only wanted for its schema: whose it is is written when the daemon opens it.
        _forget_identity(store)
    daemon = await build(
        settings, Seams(clock=clock, randomness=SeededRandomness(1), blocking=_at_once), mode=mode or Mode()
    )
    try:
        yield daemon
    finally:
        await daemon.close()


def _forget_identity(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("DELETE FROM meta")
        connection.commit()


async def owe(daemon: Daemon, *, due: bool = True) -> None:
    """Let something be owed: a create whose answer was lost, and if `due` its stop."""
    asked = Wish(
        spec=replace(spec(), provider=daemon.policy.provider, account=daemon.policy.account),
        slot=0,
        fingerprint=daemon.models["qwen"].fingerprint,
        authorization=Authorization(ledger=daemon.policy.ledger, reservation="r"),
        now=daemon.clock.now(),
    )
    declaration = deployments.Declaration(wish=asked, offer="NVIDIA L40S", ceiling=Decimal(1), holder=daemon.run_id)

    def write(tx: Tx) -> None:
        planned = deployments.declare(tx, declaration, policy=daemon.policy)
        create = deployments.mark_submitting(tx, planned.create.request, holder=daemon.run_id)
        record = deployments.record_unknown(tx, create, detail="lost")
        if due:
            deployments.require_stop(tx, record, StopReason.OPERATOR_REQUEST)

    await daemon.store.write(write)
