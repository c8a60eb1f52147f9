"""Which deployment takes this request?

A proven one, in the order that `rotation` rules where there are several, once its stream lease is granted. A deployment
that is not proven yet is left out while its proof runs; one that the daemon refuses is passed over. What is no
inference takes no lease and waits for no proof, as both would be use; that a listed deployment is up and refuses
strangers the daemon has seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.gateway.admission import Demand
from controller.gateway.proof import Proofs
from controller.gateway.rotation import beginning, in_order
from controller.gateway.routes import Key, Route, RouteTable, View
from controller.gateway.stream_leases import NoUse, StreamLeases, Use
from controller.gateway.trust import Trust


@dataclass(slots=True)
class Place:
    """A deployment and the right to send it one request. Whoever got it releases it."""

    view: View
    route: Route
    use: Use | NoUse


class Placement:
    def __init__(self, table: RouteTable, leases: StreamLeases, proofs: Proofs, trust: Trust) -> None:
        self._table = table
        self._leases = leases
        self._proofs = proofs
        self._trust = trust

    def prove(self, view: View) -> None:
        """Begin the proofs that are missing."""
        for route in view.routes:
            if not self._proofs.stands(route):
                self._proofs.begin(view, route)

    async def find(self, demand: Demand, *, avoid: frozenset[Key] = frozenset()) -> Place | None:
        """None if no deployment can take it now. Begins the proofs that are missing."""
        view = self._table.views.get(demand.alias)
        if view is None:
            return None
        for route in self._proven(view, demand):
            if route.key in avoid:
                continue
            use = self._leases.hold_granted(route.key) or await self._leases.hold(route.key)
            if use is not None:
                return Place(view, route, use)
        return None

    def at_once(self, demand: Demand) -> Place | None:
        """What `find` gives, where it need not wait for the daemon's word; else None."""
        view = self._table.views.get(demand.alias)
        proven = None if view is None else self._proven(view, demand)
        if not proven or view is None:
            return None
        use = self._leases.hold_granted(proven[0].key)
        return None if use is None else Place(view, proven[0], use)

    def _proven(self, view: View, demand: Demand) -> list[Route]:
        """In order. Begins the proofs that are missing."""
        proven = [route for route in view.routes if route.proven or self._proofs.stands(route)]
        if len(proven) < len(view.routes):
            self.prove(view)
        return self._in_order(proven, demand) if len(proven) > 1 else proven

    def aside(self, alias: str, *, avoid: frozenset[Key]) -> Place | None:
        """For what is no inference. None if nothing runs."""
        view = self._table.views.get(alias)
        routes = [] if view is None else [route for route in view.routes if route.key not in avoid]
        if view is None or not routes:
            return None
        best = min(routes, key=lambda route: (route.key in self._trust.failed, not self._proofs.stands(route)))
        return Place(view, best, NoUse())

    def _in_order(self, routes: Sequence[Route], demand: Demand) -> list[Route]:
        by_key = {route.key: route for route in routes}
        order = in_order(
            list(by_key),
            open_requests={key: self._leases.open(key) for key in by_key},
            failed=self._trust.failed,
            begins=beginning(demand.shape, demand.document.members),
        )
        return [by_key[key] for key in order]
