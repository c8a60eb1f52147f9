"""Is what a store owes saved from one that may not be used, without a byte of it changed?"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from controller.core.evidence import StopReason
from controller.core.obligation import Obligation
from controller.ids import SeededRandomness
from controller.store import deployments, restoring
from controller.store.salvage import EPOCHS_ABOVE, UNREAD, salvage
from controller.store.store import Store
from tests.store.samples import HOLDER, POLICY, accept, lose, opened, proof
from tests.support.clocks import NOON, HandClock
from tests.support.stores import IDENTITY


async def owing(folder: Path, *, ended: bool = False) -> Path:
    """A store with a stop that is owed, one that is not due yet, and a lost create; or, `ended`, with nothing."""
    async with opened(folder, HandClock()) as store:
        record = await store.write(accept)
        await store.write(lambda tx: deployments.require_stop(tx, record, StopReason.IDLE))
        if ended:
            (duty,) = store.book.owed()
            await store.write(lambda tx: deployments.discharge(tx, duty.id, proof("listing 7")))
        else:
            await store.write(lambda tx: accept(tx, "q2", "p2", slot=1))
            await store.write(lambda tx: lose(tx, "q3", slot=2))
    return folder / "store.db"


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


NEWER = (
    "UPDATE alembic_version SET version_num = '0099'",
    "ALTER TABLE obligations ADD COLUMN region VARCHAR NOT NULL DEFAULT 'eu'",
    "ALTER TABLE deployments DROP COLUMN observed_served_model",
    "DROP TABLE memories",
)


def saved(path: Path) -> str | None:
    return salvage(path, identity=IDENTITY, now=NOON, randomness=SeededRandomness(3))


async def taken_over(path: Path) -> Store:
    store = await Store.open(path, identity=IDENTITY, clock=HandClock(), randomness=SeededRandomness(4))
    await store.write(lambda tx: restoring.restore(tx, policy=POLICY, holder=HOLDER))
    return store


def identity_of(duty: Obligation) -> tuple[object, ...]:
    return duty.id, duty.key, duty.request, duty.due_at, duty.reason, duty.deployment


async def test_every_duty_of_a_newer_store_is_kept_with_its_key_under_epochs_far_above(tmp_path: Path) -> None:
    path = await owing(tmp_path)
    async with opened(tmp_path, HandClock()) as store:
        before = store.book
    change(path, *NEWER)
    content = path.read_bytes()
    suffix = f"{UNREAD}-{before.seq_latest}"
    assert (saved(path), path.read_bytes()) == (suffix, content)
    store = await taken_over(path.with_name(path.name + suffix))
    after = store.book
    await store.close()
    assert {identity_of(duty) for duty in after.obligations.values()} == {
        identity_of(duty) for duty in before.obligations.values()
    }
    assert (after.owner, {name: record.phase for name, record in after.records.items()}) == (
        before.owner,
        {name: record.phase for name, record in before.records.items()},
    )
    assert min(lease.epoch for lease in after.leases.values()) > before.epoch_latest + EPOCHS_ABOVE


async def test_with_nothing_owed_nothing_is_to_be_done(tmp_path: Path) -> None:
    path = await owing(tmp_path, ended=True)
    change(path, *NEWER)
    assert saved(path) is None


async def test_what_was_proven_beside_it_is_not_owed_again_until_the_file_itself_went_on(tmp_path: Path) -> None:
    path = await owing(tmp_path)
    change(path, *NEWER)
    suffix = saved(path)
    assert suffix is not None
    store = await taken_over(path.with_name(path.name + suffix))
    for duty in list(store.book.obligations.values()):
        await store.write(partial(deployments.discharge, obligation=duty.id, evidence=proof("listing 8")))
    await store.close()
    assert saved(path) is None
    change(path, "INSERT INTO evidence VALUES (4711, 0, 'daemon.started', '{}', 'h')")
    assert saved(path) == f"{UNREAD}-4711"


async def test_a_draft_that_a_crash_left_is_made_anew(tmp_path: Path) -> None:
    path = await owing(tmp_path)
    change(path, *NEWER)
    suffix = saved(path)
    assert suffix is not None
    beside = path.with_name(path.name + suffix)
    beside.rename(beside.with_name(beside.name + ".draft"))
    assert saved(path) == suffix
    assert beside.exists()


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database, by any means" * 400)


def unknown_phase(path: Path) -> None:
    change(path, "PRAGMA ignore_check_constraints=ON", "UPDATE deployments SET phase = 'hibernating'")


def unknown_reason(path: Path) -> None:
    change(path, "UPDATE obligations SET reason = 'bored'")


def without_duties(path: Path) -> None:
    change(path, "ALTER TABLE obligations RENAME TO duties")


def short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize("harm", [garbage, unknown_phase, unknown_reason, without_duties, short])
async def test_what_cannot_be_read_is_not_guessed_and_leaves_the_file_as_it_is(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = await owing(tmp_path)
    harm(path)
    content = path.read_bytes()
    assert saved(path) == UNREAD
    assert path.read_bytes() == content
    store = await taken_over(path.with_name(path.name + UNREAD))
    await store.close()
    assert store.book.obligations == {}


async def test_another_owner_s_store_is_no_matter_of_ours(tmp_path: Path) -> None:
    path = await owing(tmp_path)
    with pytest.raises(Exception, match="belongs to acme"):
        salvage(path, identity=("other", *IDENTITY[1:]), now=NOON, randomness=SeededRandomness(3))
