"""Which evidence lines are stored, from which number on?"""

from sqlalchemy import select
from sqlalchemy.engine import Connection

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
