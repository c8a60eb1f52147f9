"""Does the database itself refuse what the rules forbid, and do the scripts make what the code declares?"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import Engine

from controller.clock import to_ms
from controller.store import schema
from controller.store.migrate import scripts, upgrade
from tests.support.clocks import NOON, HandClock
from tests.support.stores import open_store


@pytest.fixture
def migrated(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    upgrade(tmp_path / "store.db")
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        yield connection


def deployment(connection: sqlite3.Connection, **changes: Any) -> None:
    row = {"id": "d1", "provider": "runpod", "account": "main", "model": "qwen", "slot": 0, "image": "i"}
    row |= {"resource_name": "n", "requested_lifetime_ms": 1, "fingerprint": "f", "phase": "declared"}
    insert(connection, "deployments", row | {"declared_at_ms": 1, "epoch": 1, "version": 1} | changes)


def obligation(connection: sqlite3.Connection, **changes: Any) -> None:
    row: dict[str, Any] = {"id": "o1", "opened_at_ms": 1, "epoch": 1, "stop_attempts": 0, "version": 1}
    insert(connection, "obligations", row | changes)


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


@pytest.mark.parametrize("phase", ["declared", "requested", "active", "uncertain", "stop-required"])
def test_a_second_live_deployment_of_a_slot_is_refused(migrated: sqlite3.Connection, phase: str) -> None:
    deployment(migrated, phase=phase)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        deployment(migrated, id="d2")


def test_a_slot_holds_one_more_for_each_that_it_replaces(migrated: sqlite3.Connection) -> None:
    deployment(migrated)
    deployment(migrated, id="d2", replaces="d1")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        deployment(migrated, id="d3", replaces="d1")


@pytest.mark.parametrize("phase", ["stopped", "cancelled", "disowned"])
def test_an_ended_one_leaves_its_slot_free(migrated: sqlite3.Connection, phase: str) -> None:
    deployment(migrated, phase=phase)
    deployment(migrated, id="d2")
    deployment(migrated, id="d3", slot=1)


def test_an_unknown_phase_is_refused(migrated: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="phase_known"):
        deployment(migrated, phase="sleeping")


def test_a_second_open_obligation_on_a_resource_is_refused(migrated: sqlite3.Connection) -> None:
    obligation(migrated, resource="p1")
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        obligation(migrated, id="o2", resource="p1")


def test_a_resource_may_be_owed_again_after_its_end_and_many_without_a_key_are_open(
    migrated: sqlite3.Connection,
) -> None:
    obligation(migrated, resource="p1", ended_at_ms=2, ending="transferred")
    for name in ("o2", "o3"):
        obligation(migrated, id=name)
    obligation(migrated, id="o4", resource="p1")


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"ended_at_ms": 2, "ending": "discharged"}, "discharged_by_evidence"),
        ({"ended_at_ms": 2, "ending": "forgotten", "evidence": "{}"}, "ending_known"),
        ({"ended_at_ms": 2}, "ended_with_an_ending"),
        ({"ending": "void"}, "ended_with_an_ending"),
    ],
)
def test_no_obligation_ends_in_any_other_way(
    migrated: sqlite3.Connection, changes: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=constraint):
        obligation(migrated, **changes)


def test_a_create_or_duty_of_no_deployment_is_refused(migrated: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        insert(migrated, "creates", {"request": "r1", "deployment": "nobody", "offer": "x"})
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        obligation(migrated, deployment="nobody")


def test_no_epoch_is_granted_twice(migrated: sqlite3.Connection) -> None:
    insert(migrated, "leases", {"deployment": "d1", "holder": "h", "epoch": 1})
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        insert(migrated, "leases", {"deployment": "d2", "holder": "h", "epoch": 1})


def test_a_second_reservation_of_a_day_and_an_unknown_hold_are_refused(migrated: sqlite3.Connection) -> None:
    row = {"id": "a", "deployment": "d1", "day": "2026-03-01", "hold": "reserved", "opened_at_ms": 1, "version": 1}
    row |= {"ceiling_usd_micros_per_hour": 1, "reserved_usd_micros": 1}
    insert(migrated, "reservations", row)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        insert(migrated, "reservations", row | {"id": "b"})
    with pytest.raises(sqlite3.IntegrityError, match="hold_known"):
        insert(migrated, "reservations", row | {"id": "c", "day": "2026-03-02", "hold": "perhaps"})


def test_there_is_one_identity(migrated: sqlite3.Connection) -> None:
    row = {"id": 2, "owner": "a", "installation": "i", "provider": "p", "account": "m", "made_at_ms": 1}
    with pytest.raises(sqlite3.IntegrityError, match="one_row"):
        insert(migrated, "meta", row | {"epoch_latest": 0, "account_trusted": 1})


# Migrations


def test_the_code_is_written_for_the_newest_script() -> None:
    config = Config()
    config.set_main_option("script_location", str(scripts()))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD


def shape(engine: Engine) -> dict[str, Any]:
    """Everything about each table, CHECKs and partial indexes included, as text in a fixed order."""
    found = inspect(engine)
    with engine.connect() as connection:
        indexes = connection.exec_driver_sql(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql NOT NULL"
        )
        partial = {name: " ".join(sql.split()) for name, sql in indexes}
    tables = {
        name: {
            "columns": sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)),
            "primary": found.get_pk_constraint(name)["constrained_columns"],
            "checks": sorted((c["name"], c["sqltext"]) for c in found.get_check_constraints(name)),
            "unique": sorted(c["column_names"] for c in found.get_unique_constraints(name)),
            "foreign": sorted((c["constrained_columns"], c["referred_table"]) for c in found.get_foreign_keys(name)),
        }
        for name in found.get_table_names()
        if name != "alembic_version"
    }
    return {"tables": tables, "indexes": partial}


def test_the_scripts_make_exactly_the_declared_tables(tmp_path: Path) -> None:
    upgrade(tmp_path / "migrated.db")
    migrated = create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    declared = create_engine(f"sqlite:///{tmp_path / 'declared.db'}")
    schema.metadata.create_all(declared)
    try:
        assert shape(migrated) == shape(declared)
        with migrated.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    finally:
        migrated.dispose()
        declared.dispose()


async def test_a_store_of_the_first_schema_is_brought_up_and_its_mark_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "scripts"
    (older / "versions").mkdir(parents=True)
    for name in ("env.py", "versions/0001_first.py"):
        (older / name).write_text((scripts() / name).read_text())
    path = tmp_path / "store.db"
    with monkeypatch.context() as patched:
        patched.setattr("controller.store.migrate.scripts", lambda: older)
        upgrade(path)
    with closing(sqlite3.connect(path)) as connection:
        row = {"id": 1, "owner": "acme", "installation": "i", "provider": "runpod", "account": "main"}
        row |= {"made_at_ms": 1, "epoch_latest": 7, "account_trusted": 1, "mark_ms": to_ms(NOON)}
        insert(connection, "meta", row)
        connection.commit()
    clock = HandClock(NOON + timedelta(hours=1))
    store = await open_store(tmp_path, clock)
    assert (store.book.epoch_latest, store.book.mark, store.now) == (7, NOON, NOON)
    store.clock.hear(clock.wall(), round_trip=timedelta(seconds=1))
    assert store.now == clock.wall()
    await store.close()


def test_an_upgrade_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "scripts"
    (broken / "versions").mkdir(parents=True)
    (broken / "env.py").write_text((scripts() / "env.py").read_text())
    first = (scripts() / "versions" / "0001_first.py").read_text()
    (broken / "versions" / "0001_first.py").write_text(first + '\n    raise RuntimeError("half way")\n')
    monkeypatch.setattr("controller.store.migrate.scripts", lambda: broken)
    with pytest.raises(RuntimeError, match="half way"):
        upgrade(tmp_path / "store.db")
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
