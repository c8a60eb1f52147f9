"""Which evidence lines are stored, from which number on?"""

import json

from sqlalchemy import select
from sqlalchemy.engine import Connection

from controller.core.evidence_chain import RESTORED, follows
from controller.store import schema


def lines_after(connection: Connection, seq: int, *, limit: int) -> list[tuple[int, str]]:
    """Up to `limit` lines after number `seq`, in order, each with its number."""
    table = schema.evidence
    query = select(table.c.seq, table.c.line).where(table.c.seq > seq).order_by(table.c.seq).limit(limit)
    return [(row.seq, row.line) for row in connection.execute(query)]


def hash_of(connection: Connection, *, seq: int) -> str | None:
    """The hash of line number `seq`; `None` if there is no such line."""
    found: str | None = connection.execute(select(schema.evidence.c.hash).where(schema.evidence.c.seq == seq)).scalar()
    return found


def declared_after(connection: Connection, *, last: str | None) -> int | None:
    """The number of the line that declares to go on after the line with this hash, which this store never held."""
    table = schema.evidence
    query = select(table.c.seq, table.c.line).where(table.c.event == RESTORED).order_by(table.c.seq.desc())
    found = ((row.seq, json.loads(row.line)) for row in connection.execute(query))
    return next((seq for seq, line in found if last is not None and follows(line) == last), None)
