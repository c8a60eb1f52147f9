"""Can a stop for idleness and a stream lease for the same machine both be decided?

Random histories of two gateways, the reaper and an operator on the real store and API. What they do at once is played
in a drawn order, with a turn of the loop between a decision and its commit. Beside it stands what each gateway was
last granted, and for how long.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from controller.core.evidence import StopReason
from controller.core.lifecycle import Phase
from controller.store import deployments
from controller.tasks.idle_reaper import IdleReaper
from tests.api.world import POLICY, World, world
from tests.core.samples import model_policy
from tests.support.examples import fewer
from tests.support.stores import unwritable
from tests.support.virtual_time import VirtualLoop, run_virtual

LIFE = POLICY.stream_lease
IDLE = model_policy().idle_after
gateways = st.sampled_from(["g-1", "g-2"])
counts = st.sampled_from([None, 0, 1, 1, 3])
"""Open requests; None: it does not name the machine."""
TURNS = 16
"""More turns of the loop than a statement takes from its arrival to its transaction."""


class Histories(RuleBasedStateMachine):
    """One machine, from when it serves to when its stop is decided, and on."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._stack = AsyncExitStack()
        self.held: dict[str, tuple[int, datetime]] = {}
        """What each gateway has open by its latest word, and until when that counts."""

    @initialize()
    def begin(self) -> None:
        self._runner.run(self._begin())

    async def _begin(self) -> None:
        folder = Path(self._folder.name)
        self.house: World = await self._stack.enter_async_context(world(folder))
        await self.house.serve()
        self.reaper = reaper_of(self.house)

    def teardown(self) -> None:
        self._runner.run(self._stack.aclose())
        self._runner.close()
        self._folder.cleanup()

    @property
    def stops(self) -> bool:
        return self.house.record().phase is Phase.STOP_REQUIRED

    # What each of them does

    async def _state(self, gateway: str, count: int | None) -> bool:
        """Whether it was granted."""
        house, stopped_before = self.house, self.stops
        said = [] if count is None else [house.streams(open=count)]
        before = self._live(gateway)
        granted, refused = await house.lease(*said, gateway=gateway)
        assert not (stopped_before and granted)
        assert len(granted | refused) == len(said)
        if granted or (count and before):
            self.held[gateway] = (count or 0, house.store.now + LIFE)
        else:
            self.held.pop(gateway, None)
        return bool(granted)

    def _live(self, gateway: str) -> int:
        count, until = self.held.get(gateway, (0, self.house.store.now))
        return count if self.house.store.now <= until else 0

    def _held_now(self) -> set[str]:
        return {name for name, (_, until) in self.held.items() if self.house.store.now <= until}

    # Alone

    @rule(gateway=gateways, count=counts)
    def a_gateway_speaks(self, gateway: str, count: int | None) -> None:
        self._runner.run(self._state(gateway, count))

    @rule(span=st.sampled_from([timedelta(seconds=9), LIFE, LIFE + timedelta(milliseconds=1), IDLE]))
    def time_passes(self, span: timedelta) -> None:
        self.house.clock.advance(span)

    @rule()
    def an_operator_stops_it(self) -> None:
        if not self.stops:
            record = self.house.record()
            drain = self.house.store.now + timedelta(minutes=10)
            reason = StopReason.OPERATOR_REQUEST
            self._runner.run(
                self.house.store.write(lambda tx: deployments.require_stop(tx, record, reason, drain_until=drain))
            )

    # At once

    @rule(
        gateway=gateways,
        count=st.sampled_from([0, 1, 1]),
        ahead=st.integers(-TURNS, TURNS),
        lapse=st.booleans(),
        full=st.booleans(),
    )
    def the_reaper_looks_while_a_gateway_speaks(
        self, gateway: str, count: int, ahead: int, lapse: bool, full: bool
    ) -> None:
        """The deadline is past, and where `lapse` says so no lease lives any more."""
        if lapse:
            self.house.clock.advance(max(IDLE, LIFE) + timedelta(seconds=1))
        stopped_before, held_before = self.stops, self._held_now()

        async def at_once() -> bool:
            with unwritable(Path(self._folder.name)) if full else nullcontext():
                return await at_the_same_time(self.reaper.run_pass, lambda: self._state(gateway, count), ahead=ahead)

        granted = self._runner.run(at_once())
        if self.stops and not stopped_before:
            assert not granted
            assert not held_before

    # What always holds

    @invariant()
    def the_daemon_counts_what_gateways_have_open(self) -> None:
        assert self.house.open_requests() == sum(self._live(name) for name in self.held)


def reaper_of(house: World) -> IdleReaper:
    return IdleReaper(
        store=house.store,
        view=house.panel.view,
        stream_leases=house.panel.stream_leases,
        policy=POLICY,
        models=house.panel.models,
    )


async def at_the_same_time(
    reap: Callable[[], Awaitable[object]], speak: Callable[[], Awaitable[bool]], *, ahead: int
) -> bool:
    """The reaper so many turns of the loop before the gateway; what that one was told."""

    async def after(turns: int, act: Callable[[], Awaitable[Any]]) -> Any:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await act()

    speaking = asyncio.ensure_future(after(max(ahead, 0), speak))
    await after(max(-ahead, 0), reap)
    return bool(await speaking)


def test_a_stop_for_idleness_and_a_lease_are_never_both_decided() -> None:
    run_state_machine_as_test(Histories, settings=settings(fewer(8), stateful_step_count=12))


def test_whichever_comes_first_by_however_little_the_other_is_decided_after_it(tmp_path: Path) -> None:
    async def scene(home: Path, ahead: int) -> tuple[bool, Phase]:
        async with world(home) as house:
            await house.serve()
            reaper = reaper_of(house)
            house.clock.advance(IDLE)

            async def speak() -> bool:
                return bool((await house.lease(house.streams()))[0])

            granted = await at_the_same_time(reaper.run_pass, speak, ahead=ahead)
            return granted, house.record().phase

    outcomes = set()
    for number in range(12):
        home = tmp_path / str(number)
        home.mkdir()
        outcomes.add(run_virtual(partial(scene, home, -(number % 6)), seed=number))
    assert outcomes == {(True, Phase.ACTIVE), (False, Phase.STOP_REQUIRED)}
