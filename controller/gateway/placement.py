"""Which deployment takes this request?

The proven one with the fewest requests of ours open, once its stream lease is granted. A deployment that is not
proven yet is left out while its proof runs; one that the daemon refuses is passed over.
"""

from dataclasses import dataclass

from controller.gateway.proof import Proofs
from controller.gateway.routes import Key, Route, RouteTable, View
from controller.gateway.stream_leases import StreamLeases, Use


@dataclass(frozen=True, slots=True)
class Place:
    """A deployment and the right to send it one request. Whoever got it releases it."""

    view: View
    route: Route
    use: Use


class Placement:
    def __init__(self, table: RouteTable, leases: StreamLeases, proofs: Proofs) -> None:
        self._table = table
        self._leases = leases
        self._proofs = proofs

    def prove(self, view: View) -> None:
        """Begin the proofs that are missing."""
        for route in view.routes:
            if not self._proofs.stands(route):
                self._proofs.begin(view, route)

    async def find(self, alias: str, *, avoid: frozenset[Key] = frozenset()) -> Place | None:
        """None if no deployment can take it now. Begins the proofs that are missing."""
        view = self._table.views.get(alias)
        if view is None:
            return None
        self.prove(view)
        proven = [route for route in view.routes if self._proofs.stands(route)]
        if len(proven) > 1:
            proven.sort(key=lambda route: self._leases.open(route.key))
        for route in proven:
            if route.key in avoid:
                continue
            use = self._leases.hold_granted(route.key) or await self._leases.hold(route.key)
            if use is not None:
                return Place(view, route, use)
        return None
