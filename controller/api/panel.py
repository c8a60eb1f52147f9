"""What may the API look at, and what may it ring?

The daemon fills one `Panel` and hands it to both apps: the store and the cells to read, the rules' answers it cannot
compute itself as callables, and one way to wake the tasks. Nothing here reaches a provider, and nothing decides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controller.api.board import Board, Closing
from controller.clock import Clock
from controller.core import abandonment, idle, start
from controller.core.book import Book
from controller.core.deployment import Record
from controller.core.obligation import Obligation
from controller.core.policy import HostingPolicy, ModelPolicy
from controller.core.view import View
from controller.store.doubts import Doubts
from controller.store.store import Store
from controller.store.stream_leases import StreamLeases
from controller.store.waits import Waits
from controller.store.wants import Wants
from controller.supervision import Cell, Pulse

Ring = Callable[..., None]
IdleDecision = idle.Decision | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Make it inside the event loop: it takes the store's bell. The view's is not for those who wait here: what they
    are told of it is what the tasks made of it, and that is committed, or rung for."""

    store: Store
    view: Cell[View]
    wants: Wants
    waits: Waits
    stream_leases: StreamLeases
    doubts: Doubts
    policy: HostingPolicy
    models: Mapping[str, ModelPolicy]
    run_id: str
    """This run of the daemon; leases are held under it."""
    version: str
    stop_only: bool
    barred: str | None
    """Why nothing is started, if nothing is."""
    mode: str
    """One word for how it works."""
    problems: Sequence[str]
    pulses: Sequence[Pulse]
    started_at: datetime
    clock: Clock
    ring: Ring
    """Let the named tasks pass now, or all."""
    refusal: Callable[[str], start.Refuse | None]
    """Why a wanted model is not started."""
    prefetch_refusal: Callable[[tuple[str, str]], start.Refuse | None]
    """Why the volume of a model in a place is not being filled."""
    idle: Callable[[Record], IdleDecision]
    abandonment: Callable[[Record], abandonment.Decision | None]
    """Whether a start has nobody left who waits for it; None where that ends nothing."""
    waiting_for: Callable[[Obligation], str]
    """What proof an obligation still lacks."""
    closing: Closing
    """Set when the daemon ends: whoever waits is answered at once."""
    board: Board = field(default_factory=Board)

    def __post_init__(self) -> None:
        self.board.counted_to = self.book.seq_latest
        self.store.on_change(self.board.ring)
        self.doubts.on_change(self.board.ring)
        self.closing.on_set(self.board.ring)

    @property
    def book(self) -> Book:
        return self.store.book

    @property
    def now(self) -> datetime:
        return self.store.now

    def live(self, alias: str) -> Sequence[Record]:
        """The model's deployments that occupy a slot, in order of declaration."""
        return self.board.live(self.book, alias)
