"""What ended so long ago that the book no longer holds it?"""

from sqlalchemy import select
from sqlalchemy.engine import Connection

from controller.core.obligation import Obligation
from controller.store import rows, schema


def ended_duties(connection: Connection, *, limit: int) -> list[Obligation]:
    """The obligations that ended last, newest first."""
    table = schema.obligations
    query = select(table).where(table.c.ended_at_ms.is_not(None)).order_by(table.c.ended_at_ms.desc()).limit(limit)
    found = connection.execute(query).mappings()
    return [rows.obligation_from_row({str(name): value for name, value in row.items()}) for row in found]
