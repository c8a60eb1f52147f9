"""What was made to go wrong, when, and with what?

The record of everything that a campaign stages. The audit asks it what excuses an otherwise forbidden outcome (a
provider that lied for longer than `settle`), and what justifies a stop (a pod that was told to exit); the report counts
it by kind.
"""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from tests.simulation.kernel import Kernel


@dataclass(slots=True)
class Span:
    """One trouble. `ends` is None while it lasts; `subject`: a pod's id, a machine's name, a model, or nothing."""

    kind: str
    subject: str | None
    begins: float
    ends: float | None = None

    def touches(self, begins: float, ends: float) -> bool:
        return self.begins <= ends and (self.ends is None or self.ends >= begins)


@dataclass
class Staged:
    """All troubles of a run."""

    kernel: Kernel
    spans: list[Span] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _open: list[Span] = field(default_factory=list)

    def begin(self, kind: str, subject: str | None = None, *, text: str = "") -> Span:
        span = Span(kind, subject, self.kernel.time)
        self.spans.append(span)
        self._open.append(span)
        self.counts[kind] += 1
        self.kernel.tell("staged", f"{kind} begins {subject or ''} {text}".rstrip())
        return span

    def end(self, span: Span) -> None:
        if span.ends is None:
            span.ends = self.kernel.time
            self._open.remove(span)
            self.kernel.tell("staged", f"{span.kind} ends {span.subject or ''}".rstrip())

    def once(self, kind: str, subject: str | None = None, *, text: str = "") -> None:
        """Something that happens in one instant."""
        span = Span(kind, subject, self.kernel.time, self.kernel.time)
        self.spans.append(span)
        self.counts[kind] += 1
        self.kernel.tell("staged", f"{kind} {subject or ''} {text}".rstrip())

    def now(self, kind: str, subject: str | None = None) -> bool:
        """Is such a trouble going on?"""
        return any(span.kind == kind and subject in {None, span.subject} for span in self._open)

    def any_now(self, kinds: Container[str]) -> bool:
        """Is a trouble of any of these kinds going on?"""
        return any(span.kind in kinds for span in self._open)

    def more_than_one(self, kind: str, subject: str) -> bool:
        """Does another such trouble go on beside one that is about to end?"""
        return sum(span.kind == kind and span.subject == subject for span in self._open) > 1

    def touching(self, kinds: Iterable[str], begins: float, ends: float, *, subject: str | None = None) -> list[Span]:
        wanted = set(kinds)
        return [
            span
            for span in self.spans
            if span.kind in wanted and subject in {None, span.subject} and span.touches(begins, ends)
        ]

    def of(self, subject: str) -> set[str]:
        """The kinds of everything that was ever done to a pod, a machine or a model."""
        return {span.kind for span in self.spans if span.subject == subject}
