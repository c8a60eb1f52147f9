"""What ended so long ago that the book no longer holds it?"""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.engine import Connection

from controller.core.deployment import SeenResource
from controller.core.identity import DeploymentId
from controller.core.obligation import Obligation
from controller.store import rows, schema
from controller.store.codec import key_to_text


def ended_duties(connection: Connection, *, limit: int) -> list[Obligation]:
    """The obligations that ended last, newest first."""
    table = schema.obligations
    query = select(table).where(table.c.ended_at_ms.is_not(None)).order_by(table.c.ended_at_ms.desc()).limit(limit)
    found = connection.execute(query).mappings()
    return [rows.obligation_from_row({str(name): value for name, value in row.items()}) for row in found]


def unrecorded(connection: Connection, found: Collection[SeenResource]) -> list[SeenResource]:
    """Those whose request was never sent, and whose key was never owed, in all of this store's past."""
    creates, duties = schema.creates, schema.obligations
    requests = select(creates.c.request).where(
        creates.c.request.in_([seen.tags.request for seen in found]), creates.c.submitting_at_ms.is_not(None)
    )
    keys = select(duties.c.resource).where(duties.c.resource.in_([key_to_text(seen.key) for seen in found]))
    sent, owed = set(connection.scalars(requests)), set(connection.scalars(keys))
    return [seen for seen in found if seen.tags.request not in sent and key_to_text(seen.key) not in owed]


def unknown_names(connection: Connection, names: Collection[DeploymentId]) -> set[DeploymentId]:
    """Those under which this store never had a deployment."""
    table = schema.deployments
    known = connection.scalars(select(table.c.id).where(table.c.id.in_(list(names))))
    return set(names) - {DeploymentId(name) for name in known}
