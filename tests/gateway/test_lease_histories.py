"""Whatever requests, clients, machines and the daemon do: is every open request counted, once, where it is, and told?

Random histories of one whole gateway on virtual time. Who is right is the stage: its machines know what was sent to
them under which epoch, its daemon what it granted.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from controller.gateway.proof import PAUSE_MOST
from tests.gateway.lease_stage import Client, GrantingDaemon, Key, Machines
from tests.gateway.world import CONFIG, World, asking, request_of
from tests.support.examples import fewer
from tests.support.fake_daemon import route
from tests.support.virtual_time import VirtualLoop

NAMES = ("d1", "d2")
A_MOMENT_S = 0.01
"""Long enough for whatever needs no time of its own."""
INTERVAL_S = 10.0
numbers = st.integers(0, 20)
names = st.sampled_from(NAMES)


class Histories(RuleBasedStateMachine):
    """One gateway from its first request to the end of its last."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.clients: list[Client] = []
        self.unproven: set[str] = set()
        self.proofs = 0
        """How many had to be begun: each holds a lease like a request, and may wait for it."""
        self.draining = False

    @initialize()
    def begin(self) -> None:
        self._play(self._begin)

    async def _begin(self) -> None:
        self.daemon = GrantingDaemon("m1", "m2")
        self.machines = Machines(self.daemon)
        self.world = World(CONFIG, daemon=self.daemon, machines={name: self.machines.app for name in NAMES})
        self._running = asyncio.ensure_future(self.world.gateway.run())
        self.daemon.epochs = dict.fromkeys(NAMES, 1)
        self._announce()

    def teardown(self) -> None:
        self._play(self._quiet)
        assert not self.world.gateway.leases._leases
        assert (self.world.gateway.live, self.world.upstream.open, self.world.gateway.proxy.open) == (0, 0, 0)
        assert self.world.gateway.rooms.waiting("m1") == 0
        assert self.daemon.listed == {}
        self._running.cancel()
        self._runner.close()

    async def _quiet(self) -> None:
        """The daemon is there and quick, everybody leaves, and three renewals pass."""
        self.daemon.lease_answer_s = 0
        if self.daemon.down:
            self.daemon.return_()
        for name in NAMES:
            self.world.upstream.apps[name] = self.machines.app
        for client in self.clients:
            client.leave()
        await asyncio.sleep(3 * INTERVAL_S + 2)

    def _play(self, scene: Callable[[], Awaitable[None]]) -> None:
        async def played() -> None:
            await scene()
            await asyncio.sleep(A_MOMENT_S)

        self._runner.run(played())

    def _announce(self, *, without: frozenset[str] = frozenset()) -> None:
        routes = [
            route(name, f"https://{name}/{name}/{epoch}/", epoch=epoch, proven=name not in self.unproven)
            for name, epoch in self.daemon.epochs.items()
            if name not in without
        ]
        self.daemon.change("m1", phase="ready" if routes else "off", routes=routes)

    # Requests

    @precondition(lambda self: not self.draining)
    @rule(stream=st.booleans(), word=numbers)
    def a_request_comes(self, stream: bool, word: int) -> None:
        async def scene() -> None:
            messages = [{"role": "user", "content": str(word)}]
            request = request_of(asking(stream=stream, messages=messages))
            self.clients.append(Client(self.world.gateway.app, request))

        self._play(scene)

    @rule(n=numbers, order=st.sampled_from(["speak", "speak", "end", "end", "die"]))
    def a_machine_goes_on_with_a_request(self, n: int, order: str) -> None:
        if self.machines.held:
            held = self.machines.held[n % len(self.machines.held)]
            self._play(lambda: held.orders.put(order))

    @rule(n=numbers)
    def a_client_leaves(self, n: int) -> None:
        if live := self.live():

            async def scene() -> None:
                live[n % len(live)].leave()

            self._play(scene)

    @precondition(lambda self: not self.draining)
    @rule(after_s=st.sampled_from([0.5, 9, 10, 11]), slow=st.booleans())
    def all_leave_and_another_comes(self, after_s: float, slow: bool) -> None:
        """About when it is told that nothing is open."""

        async def scene() -> None:
            self.daemon.lease_answer_s = 3.0 if slow else 0.0
            for client in self.live():
                client.leave()
            await asyncio.sleep(after_s)

        self._play(scene)
        self.a_request_comes(stream=False, word=0)

    @rule(n=numbers)
    def a_request_is_cancelled_twice(self, n: int) -> None:
        if live := self.live():
            self._play(live[n % len(live)].cancel_twice)

    @rule(n=numbers)
    def a_client_leaves_as_its_answer_comes(self, n: int) -> None:
        """In the same turn of the loop."""
        if live := self.live():

            async def scene() -> None:
                for held in self.machines.held:
                    held.orders.put_nowait("end")
                live[n % len(live)].leave()

            self._play(scene)

    def live(self) -> list[Client]:
        return [client for client in self.clients if client.live]

    # Machines

    @rule(name=names)
    def a_machine_takes_no_connections(self, name: str) -> None:
        self.world.upstream.apps[name] = None

    @rule(name=names)
    def a_machine_takes_connections(self, name: str) -> None:
        """For long enough that a proof has been tried again."""
        self.world.upstream.apps[name] = self.machines.app
        self._play(lambda: asyncio.sleep(PAUSE_MOST.total_seconds()))

    # The daemon

    @rule(name=names)
    def it_decides_a_stop(self, name: str) -> None:
        """And its routes are slow to say so."""
        self.daemon.refused.add(name)

    @rule(name=names, proven=st.booleans())
    def a_new_run_raises_the_epoch(self, name: str, proven: bool) -> None:
        async def scene() -> None:
            self.daemon.epochs[name] += 1
            (self.unproven.discard if proven else self.unproven.add)(name)
            self.daemon.refused.discard(name)
            self.proofs += not proven
            self._announce(without=frozenset(self.daemon.refused))

        self._play(scene)

    @rule(slow=st.booleans())
    def it_answers_slowly(self, slow: bool) -> None:
        self.daemon.lease_answer_s = 3.0 if slow else 0.0

    @rule()
    def it_goes_away(self) -> None:
        self._play_now(self.daemon.go_down)

    @precondition(lambda self: self.daemon.down)
    @rule()
    def it_returns(self) -> None:
        self._play_now(self.daemon.return_)

    def _play_now(self, act: Callable[[], Any]) -> None:
        async def scene() -> None:
            act()

        self._play(scene)

    # Time

    @rule(seconds=st.sampled_from([0.5, 5, 10.5, 31]))
    def time_passes(self, seconds: float) -> None:
        self._play(lambda: asyncio.sleep(seconds))
        if not self.daemon.down and not self.daemon.was_away and self.world.gateway.leases.open_requests:
            now = self._runner.get_loop().time()
            assert now - self.daemon.heard_at <= INTERVAL_S + self.daemon.lease_answer_s + 1

    @precondition(lambda self: not self.draining and len(self.live()) > 0)
    @rule()
    def the_gateway_drains(self) -> None:
        self.draining = True
        self._play(self.world.gateway.drain)
        assert not self.world.gateway.live and not self.machines.held

    # What always holds

    @invariant()
    def every_open_request_is_counted_where_it_is(self) -> None:
        placed, counted = Counter(held.key for held in self.machines.held), self.counted()
        assert all(count >= 0 for count in counted.values())
        assert placed <= counted
        beyond = (counted - placed).total()
        if not self.daemon.answering and None not in self.world.upstream.apps.values():
            assert beyond == 0, counted - placed
        assert beyond <= len(self.live()) - placed.total() + self.proofs, counted - placed

    def counted(self) -> Counter[Key]:
        epochs = max(self.daemon.epochs.values()) + 1
        leases = self.world.gateway.leases
        return Counter({(name, epoch): leases.open((name, epoch)) for name in NAMES for epoch in range(epochs)})

    @invariant()
    def no_byte_went_to_a_machine_without_a_lease(self) -> None:
        assert self.machines.ungranted == []

    @invariant()
    def the_daemon_knows_of_every_machine_in_use(self) -> None:
        """Or the gateway knows that it was away, and tells it as it returns."""
        if not self.daemon.was_away:
            assert all(self.daemon.told[held.key] for held in self.machines.held)


def test_whatever_happens_open_requests_are_counted_told_and_given_back() -> None:
    run_state_machine_as_test(Histories, settings=settings(fewer(4), stateful_step_count=40))
