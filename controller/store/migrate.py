"""How does an older file get today's schema?

Alembic's numbered scripts, forward only, shipped in the wheel. One transaction for all of them: one that fails leaves
nothing. A copy of the file is kept beside it before the first change.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, event
from sqlalchemy.engine import Connection


def scripts() -> Path:
    """Where the migration scripts are: in the installed package, else in the checkout."""
    shipped = Path(__file__).with_name("_migrations")
    return shipped if shipped.is_dir() else Path(__file__).parents[2] / "migrations"


def upgrade(path: Path) -> None:
    """Bring the file at `path` to the newest schema; makes it if it is not there."""
    if path.exists() and path.stat().st_size > 0:
        _copy(path, path.with_name(path.name + ".before-upgrade"))
    engine = create_engine(f"sqlite:///{path}", connect_args={"isolation_level": None})
    event.listen(engine, "begin", _begin_immediate)
    try:
        with engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(scripts()))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()


def _copy(path: Path, to: Path) -> None:
    """By SQLite itself: what a crash left in the write-ahead log is not in the file alone."""
    to.unlink(missing_ok=True)
    to.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
