"""What can be made of a file that cannot be opened as a store?

Locked, full and forbidden pass: such a file is read as it stands, for who knows what is owed can stop it. What cannot
be read as what was written does not pass, and is damaged.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from sqlalchemy import StaticPool, create_engine
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from controller.store.errors import StoreDamaged, StoreError, StoreUnwritable
from controller.store.read_only import read_only

T = TypeVar("T")


def read_aside(path: Path, work: Callable[[Connection], T], *, otherwise: Exception) -> T:
    """Let `work` read it. Raises `otherwise` where that does not go either."""
    try:
        with closing(read_only(path)) as rows:
            engine = create_engine("sqlite://", creator=lambda: rows, poolclass=StaticPool)
            with engine.connect() as connection:
                return work(connection)
    except (DBAPIError, sqlite3.Error, OSError):
        raise otherwise from None


def passes(problem: Exception) -> bool:
    return isinstance(_cause_of(problem), sqlite3.OperationalError | OSError)


def refusal_to_open(path: Path, problem: Exception) -> StoreError:
    cause = _cause_of(problem)
    return StoreUnwritable(f"{path}: {cause}") if passes(problem) else StoreDamaged(path, str(cause))


def _cause_of(problem: Exception) -> BaseException | None:
    return problem.orig if isinstance(problem, DBAPIError) else problem
