"""What is counted and written down when a request has ended?

Each request of an inference path, and each refusal, exactly once: in the counts of its model and of its client, and as
a line of the access log where that is wanted. Other reads that were answered leave no trace: probes and scrapes would
drown what matters.
"""

from controller.core.errors import Code
from controller.gateway.access_log import AccessLog
from controller.gateway.reply import Reply
from controller.gateway.tally import Tally

GONE = "client_gone"
STOPPED = "gateway_stopped"
"""Ended by us, at the end of a drain."""
BY_UPSTREAM = frozenset({Code.UPSTREAM_DISCONNECTED.value, Code.UPSTREAM_TIMEOUT.value})


class Closing:
    def __init__(self, tally: Tally, access_log: AccessLog | None) -> None:
        self._tally = tally
        self._access_log = access_log

    def end(self, reply: Reply, now: float) -> None:
        passage = reply.passage
        passage.outcome = passage.outcome or _outcome(reply)
        self._count(reply, now)
        if self._access_log is not None:
            self._access_log.add(passage, answer=reply.status, now=now)

    def _count(self, reply: Reply, now: float) -> None:
        passage, outcome = reply.passage, reply.passage.outcome
        numbers = self._tally.models[passage.alias]
        numbers.ended[passage.wire, outcome] += 1
        numbers.durations.observe(now - passage.arrived_at)
        numbers.bytes_in += passage.bytes_in
        numbers.bytes_out += passage.bytes_out
        if (first_byte := passage.first_byte) is not None:
            numbers.first_bytes.observe(first_byte)
        if reply.events and outcome != "served":
            numbers.aborted[_by(outcome)] += 1
        if passage.client.name:
            how = outcome if outcome in ("served", GONE) else "refused"
            self._tally.clients[self._tally.named(passage.client.name)][how] += 1


def _outcome(reply: Reply) -> str:
    """Of one that no refusal ended: the model's own complaints are told apart from its answers."""
    if reply.status is None or not reply.done:
        return "cut"
    return "served" if reply.status < 400 else f"answered_{reply.status // 100}xx"


def _by(outcome: str) -> str:
    if outcome == GONE:
        return "client"
    return "upstream" if outcome in BY_UPSTREAM else "gateway"
