"""Who says that a deployment has open requests?

Gateways state it, for a limited time, for a deployment and an epoch; a count of another epoch means nothing here. Held
in memory and read inside the transaction that decides an idle stop, so that a request and a stop cannot miss each
other. Only the last byte is stored, when it moved by enough to matter or when use ended.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from controller.core.identity import DeploymentId

KEPT: Final = timedelta(hours=1)
"""What a gateway that is gone said of the last byte is kept so long; longer than any record of it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLease:
    """One gateway's word about one deployment."""

    deployment: DeploymentId
    epoch: int
    open_requests: int
    last_byte_at: datetime


@dataclass(slots=True)
class StreamLeases:
    """All that is stated at present."""

    lifetime: timedelta
    _stated: dict[tuple[str, DeploymentId], tuple[StreamLease, datetime]] = field(default_factory=dict)
    _strange: dict[tuple[str, DeploymentId], tuple[StreamLease, datetime]] = field(default_factory=dict)
    """Of deployments or epochs that this store never gave: a later run did, and the store is an old copy."""
    unsaved: dict[DeploymentId, datetime] = field(default_factory=dict)
    """Last bytes that the store, which took no writes, has yet to learn: their gateway tells of them once."""

    def put(self, gateway: str, leases: Iterable[StreamLease], *, now: datetime) -> None:
        """Replace everything that this gateway stated before."""
        forgotten = now - KEPT
        for key in [key for key, (_, until) in self._stated.items() if key[0] == gateway or until < forgotten]:
            del self._stated[key]
        for lease in leases:
            self._stated[gateway, lease.deployment] = (lease, now + self.lifetime)

    def put_strange(self, gateway: str, leases: Iterable[StreamLease], *, now: datetime) -> bool:
        """Replace what this gateway stated before and nobody here gave; says whether anything is new."""
        before = {key for key in self._strange if key[0] == gateway}
        for key in before:
            del self._strange[key]
        self._strange |= {(gateway, lease.deployment): (lease, now + self.lifetime) for lease in leases}
        return not {key for key in self._strange if key[0] == gateway} <= before

    def strange(self, *, now: datetime) -> list[StreamLease]:
        """What is stated at present and nobody here gave."""
        return [lease for lease, until in self._strange.values() if now <= until]

    def of(self, gateway: str, *, now: datetime) -> dict[DeploymentId, StreamLease]:
        """What this gateway stated and what still counts at `now`."""
        stated = self._stated.items()
        return {held: lease for (name, held), (lease, until) in stated if name == gateway and now <= until}

    def live(self, deployment: DeploymentId, *, now: datetime) -> int:
        """How many gateways hold it open at `now`."""
        return sum(1 for (_, held), (_, until) in self._stated.items() if held == deployment and now <= until)

    def open_requests(self, deployment: DeploymentId, *, now: datetime) -> int:
        return sum(
            lease.open_requests
            for (_, held), (lease, until) in self._stated.items()
            if held == deployment and now <= until
        )

    def others_streaming(self, gateway: str, deployment: DeploymentId, *, now: datetime) -> bool:
        """Does another gateway have open requests there?"""
        return any(
            lease.open_requests > 0
            for (name, held), (lease, until) in self._stated.items()
            if held == deployment and name != gateway and now <= until
        )

    def last_byte_at(self, deployment: DeploymentId) -> datetime | None:
        stated = [lease.last_byte_at for (_, held), (lease, _) in self._stated.items() if held == deployment]
        kept = self.unsaved.get(deployment)
        return max(stated if kept is None else [*stated, kept], default=None)

    def keep(self, last_bytes: Mapping[DeploymentId, datetime]) -> None:
        """These could not be stored."""
        for deployment, at in last_bytes.items():
            self.unsaved[deployment] = max(at, self.unsaved.get(deployment, at))

    def lapses_at(self, deployment: DeploymentId, *, now: datetime) -> datetime | None:
        """When the last live statement about it runs out, if nobody renews it."""
        untils = [until for (_, held), (_, until) in self._stated.items() if held == deployment and now <= until]
        return max(untils, default=None)
