"""What holds of every rule, whatever it is asked: does time only ever ripen a decision, does more knowledge never make
a proof of less, is what is unknown never a reason to start or stop, and does no order of telling matter?
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.core import idle, start
from controller.core.backoff import Holding, hold_span, round_gap
from controller.core.book import ModelMemory
from controller.core.crash_loop import Starts, looping, notice
from controller.core.deployment import Record
from controller.core.errors import Code, Refusal
from controller.core.evidence_chain import BEFORE_THE_FIRST, link, verify
from controller.core.identity import Owner, RequestId, Tags
from controller.core.inventory import Absence, Absences, Listing, NotFound, follow
from controller.core.lease import Lease, fence
from controller.core.lifecycle import Phase
from controller.core.obligation import Discharge, Sight, StopAnswer, StopTimes, SubmitStop, settle, submit
from controller.core.orphans import Claimable, Sighting, StopOrphan, Whose, decide_copied, decide_orphan, whose
from controller.core.readiness import Assessment, Verdict, assess
from controller.core.reconcile import Bounds, Look, Nothing, RequireStop, decide
from tests.core.samples import MS, OURS, OWNER, T0, S, duty, key, lease, model_policy, resource, serving

seconds = st.integers(-5_000, 5_000)
moments = seconds.map(lambda at: T0 + at * S)
waits = st.integers(0, 10**7).map(lambda ms: ms * MS)
SETTLE = 120 * S


# Time


@given(st.integers(0, 2), moments, st.none() | moments, st.none() | moments, moments, waits)
def test_what_idled_out_stays_so(
    leases: int, ready: datetime, byte: datetime | None, grace: datetime | None, now: datetime, wait: timedelta
) -> None:
    activity = idle.Activity(stream_leases=leases, ready_at=ready, last_byte_at=byte, not_before=grace)
    first, later = (idle.decide(activity, idle_after=600 * S, now=at) for at in (now, now + wait))
    if isinstance(first, idle.IdleOut):
        assert later == first
    if isinstance(first, idle.KeepUntil):
        assert first.until > now
        assert isinstance(later, idle.IdleOut) is (now + wait >= first.until)
    assert isinstance(first, idle.KeepBusy) is (leases > 0)


held_records = st.builds(
    lambda phase, **times: replace(serving(phase), **times),
    st.sampled_from([Phase.REQUESTED, Phase.ACTIVE]),
    started_at=st.none() | moments,
    unready_since=st.none() | moments,
)
bounds = st.builds(
    lambda lifetime, startup, configured: Bounds(
        owner=OWNER,
        lifetime=lifetime * S,
        model=model_policy(startup_deadline=timedelta(seconds=startup)) if configured else None,
    ),
    st.integers(1, 5_000),
    st.integers(10, 5_000),
    st.booleans(),
)


@given(held_records, bounds, moments, waits)
def test_a_deadline_once_passed_stays_passed_and_the_next_one_is_told_to_the_millisecond(
    record: Record, bound: Bounds, now: datetime, wait: timedelta
) -> None:
    first = decide(record, Look(), bound, now=now)
    if isinstance(first, RequireStop):
        assert isinstance(decide(record, Look(), bound, now=now + wait), RequireStop)
    elif isinstance(first, Nothing) and first.until is not None:
        assert isinstance(decide(record, Look(), bound, now=first.until - MS), Nothing)
        assert isinstance(decide(record, Look(), bound, now=first.until), RequireStop)


sightings = st.builds(
    Sighting,
    key=st.just(key()),
    whose=st.sampled_from([Whose.OURS, Whose.COPIED]),
    installation=st.just("i2"),
    first_at=moments,
    last_at=moments,
    times=st.integers(1, 4),
    created_at=st.none() | moments,
)


@given(sightings, moments, waits, st.integers(0, 3))
def test_an_orphan_ripens_by_time_and_sightings_and_never_unripens(
    seen: Sighting, now: datetime, wait: timedelta, more: int
) -> None:
    first = decide_orphan(seen, grace=180 * S, now=now)
    later = decide_orphan(replace(seen, times=seen.times + more), grace=180 * S, now=now + wait)
    if isinstance(first, StopOrphan):
        assert seen.times >= 2
        assert now >= seen.first_at + 180 * S
        assert later == StopOrphan()
    claim = {"claim_age": 900 * S, "claim_silence": 300 * S}
    if isinstance(decide_copied(seen, now=now, **claim), Claimable):
        assert seen.created_at is not None
        assert decide_copied(seen, now=now + wait, **claim) == Claimable()


@given(st.builds(lease, epoch=st.integers(1, 3), expires_at=st.none() | moments), st.integers(0, 4), moments, waits)
def test_a_claim_that_the_fence_turned_away_is_not_let_through_later(
    held: Lease, epoch: int, now: datetime, wait: timedelta
) -> None:
    def through(at: datetime) -> bool:
        try:
            fence(held, epoch=epoch, holder="d1", now=at)
        except Refusal:
            return False
        return True

    assert through(now) or not through(now + wait)


asked = st.builds(
    replace,
    st.just(duty(key=key(), due_at=T0, stop_submitted_at=T0)),
    stop_attempts=st.integers(0, 40),
    stop_ended_at=st.none() | moments,
    stop_answer=st.none() | st.sampled_from(StopAnswer),
    stop_not_before=st.none() | moments,
)
TIMES = StopTimes(again_after=60 * S, backoff_max=60 * S)


@given(asked, st.none() | moments, moments, waits)
def test_a_stop_once_to_be_sent_is_to_be_sent_later_too(
    owed: Any, seen_at: datetime | None, now: datetime, wait: timedelta
) -> None:
    first, later = (submit(owed, Sight(seen_at=seen_at), times=TIMES, now=at) for at in (now, now + wait))
    if isinstance(first, SubmitStop):
        assert later == SubmitStop()
    elif first.until is not None:
        assert submit(owed, Sight(seen_at=seen_at), times=TIMES, now=first.until) == SubmitStop()


@given(st.integers(1, 10**9), st.integers(0, 10**6), st.integers(1, 5))
def test_holds_and_gaps_never_shrink_and_end_at_their_most(count: int, more: int, after: int) -> None:
    holding = Holding(after=after, first=600 * S, most=21_600 * S)
    spans = [hold_span(failures, holding) or timedelta(0) for failures in (count, count + more)]
    gaps = [round_gap(rounds, first=30 * S) for rounds in (count, count + more)]
    assert spans[0] <= spans[1] <= timedelta(seconds=21_600)
    assert timedelta(seconds=30) <= gaps[0] <= gaps[1] <= timedelta(seconds=300)


# Proof


looks = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.sampled_from([None, "ours", "other"])), min_size=1, max_size=8
)


def listings(steps: Sequence[tuple[bool, bool, str | None]]) -> list[Listing]:
    other = resource(key=key("p2"), tags=replace(OURS, request=RequestId("r2")))
    shown = {None: (), "ours": (resource(), other), "other": (other,)}
    return [
        Listing(began_at=T0 + n * 60 * S, ended_at=T0 + n * 60 * S, complete=complete, requests_readable=readable,
                resources=shown[what])
        for n, (complete, readable, what) in enumerate(steps)
    ]  # fmt: skip


def followed(looked: Sequence[Listing]) -> Absences:
    absences = Absences()
    for one in looked:
        absences = follow(absences, one, keys=frozenset({key()}), requests=frozenset({OURS.request or RequestId("")}))
    return absences


@given(looks, looks)
def test_listings_that_are_not_complete_add_nothing_to_any_absence(before: Any, after: Any) -> None:
    whole = listings([*before, *((False, readable, what) for _, readable, what in after)])
    first, later = followed(whole[: len(before)]), followed(whole)
    assert later.keys.items() <= first.keys.items()
    assert later.requests.items() <= first.requests.items()


@given(looks, st.integers(0, 2**32))
def test_the_order_of_resources_in_a_listing_proves_nothing_else(steps: Any, seed: int) -> None:
    draw = random.Random(seed)
    looked = listings(steps)
    shuffled = [replace(one, resources=tuple(draw.sample(one.resources, len(one.resources)))) for one in looked]
    assert followed(shuffled) == followed(looked)


series = st.lists(moments, min_size=1, max_size=4, unique=True).map(sorted)
owed = st.builds(
    lambda known, **times: duty(key=key() if known else None, **times),
    st.booleans(),
    create_ended_at=st.none() | moments,
    seen_at=st.none() | moments,
    stop_ended_at=st.none() | moments,
    stop_answer=st.none() | st.sampled_from(StopAnswer),
)


@given(owed, series, st.none() | moments, moments, st.integers(1, 5000), st.booleans())
def test_a_proof_by_absence_grows_with_each_listing_and_is_undone_by_each_sighting(
    held: Any, began: list[datetime], seen_at: datetime | None, read_at: datetime, more: int, trusted: bool
) -> None:
    absence = Absence(first=began[0], previous=began[-2] if len(began) > 1 else None, last=began[-1])
    sight = Sight(
        read=NotFound(reference="404", began_at=read_at), absence=absence, seen_at=seen_at, account_trusted=trusted
    )

    def ends(looked: Sight) -> bool:
        return isinstance(settle(held, looked, settle_after=SETTLE, accepted_suffices=False), Discharge)

    if ends(sight):
        assert trusted
        assert ends(replace(sight, absence=absence.continued(absence.last + more * S)))
        assert not ends(replace(sight, absence=None))
        if held.key is not None:
            assert not ends(replace(sight, seen_at=absence.last))
            assert not ends(replace(sight, read=None))
        else:
            assert len(began) > 1


@given(st.integers(2, 8), st.data())
def test_no_line_is_changed_taken_out_or_moved_unnoticed(count: int, data: st.DataObject) -> None:
    lines, prev = [], BEFORE_THE_FIRST
    for seq in range(1, count + 1):
        lines.append(link({"seq": seq, "event": "stop.submitted"}, prev))
        prev = lines[-1]["hash"]
    at = data.draw(st.integers(0, count - 2))
    spoilt = data.draw(
        st.sampled_from(
            [
                [*lines[:at], *lines[at + 1 :]],
                [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]],
                [*lines[: at + 1], *lines[at:]],
                [*lines[:at], lines[at] | {"event": "obligation.discharged"}, *lines[at + 1 :]],
                [*lines[:at], lines[at] | {"more": None}, *lines[at + 1 :]],
            ]
        )
    )
    assert verify(lines, BEFORE_THE_FIRST) is None
    assert verify(spoilt, BEFORE_THE_FIRST) is not None


# What is unknown


conditions = ["barred", "clock_sound", "account_trusted", "copied", "owed", "matching", "listing_fresh", "priced"]


@given(st.lists(st.booleans(), min_size=8, max_size=8), st.lists(moments, max_size=14), st.none() | moments)
def test_a_start_needs_every_condition_and_a_told_time_helps(
    flags: list[bool], starts: list[datetime], round_at: datetime | None
) -> None:
    known: dict[str, Any] = dict(zip(conditions, flags, strict=True))
    known["barred"] = "it only stops" if known["barred"] else None
    memory = ModelMemory(model="qwen", starts=tuple(starts), next_round_at=round_at)
    case = start.Situation(now=T0, memory=memory, fingerprint="f1", starts_per_hour=4, starts_per_day=12, **known)
    decision = start.decide(case)
    within = sum(T0 - timedelta(hours=1) < at for at in starts) < 4 and len(starts) < 12
    good = not (known["barred"] or known["copied"] or known["owed"] or known["matching"])
    good = good and known["clock_sound"] and known["account_trusted"] and known["listing_fresh"] and known["priced"]
    assert isinstance(decision, start.Start) is (good and within and (round_at is None or round_at <= T0))
    if isinstance(decision, start.Refuse) and decision.retry_at is not None:
        assert decision.retry_at > T0
        again = start.decide(replace(case, now=decision.retry_at))
        assert not isinstance(again, start.Refuse) or again.code is Code.MODEL_BLOCKED


@given(st.sampled_from(Verdict), st.none() | st.permutations(["a", "b", "c"]), st.sampled_from(["a", "x"]))
def test_a_probe_is_judged_alike_in_any_order_and_silence_decides_nothing(
    verdict: Verdict, served: list[str] | None, expected: str
) -> None:
    told = None if served is None else tuple(served)
    judged = assess(verdict, told, expected=expected)
    assert judged == assess(verdict, None if told is None else tuple(sorted(told)), expected=expected)
    if verdict in {Verdict.UNREACHABLE, Verdict.PROXY_REFUSED}:
        assert judged == Assessment(ready=None)
    assert judged.stop is None or judged.ready is False


words = st.none() | st.sampled_from(["acme", "other", "i1", "i2"])


@given(words, words, st.none() | st.integers(0, 9), st.booleans(), st.text(max_size=9))
def test_only_what_bears_our_name_and_installation_is_an_orphan(
    owner: str | None, installation: str | None, epoch: int | None, named: bool, name: str
) -> None:
    tags = Tags(owner=owner, installation=installation, epoch=epoch, request=RequestId("r1"))
    found = whose(resource(tags=tags, namespaced=named, alias=name), Owner(name="acme", installation="i1"))
    assert (found is Whose.OURS) is ((owner, installation) == ("acme", "i1"))


@given(st.lists(st.none() | moments, max_size=12), st.integers(1, 4))
def test_restarts_are_counted_once_each_and_only_where_a_start_moved_forward(
    told: list[datetime | None], limit: int
) -> None:
    starts, restarts = Starts(), 0
    latest: datetime | None = None
    for at in told:
        starts = notice(starts, started_at=at, window=timedelta(days=1), now=T0)
        assert notice(starts, started_at=at, window=timedelta(days=1), now=T0) is starts
        if at is not None and (latest is None or at > latest):
            restarts += latest is not None
            latest = at
    assert len(starts.restarts) == restarts
    assert looping(starts.restarts, limit=limit, window=timedelta(days=1), now=T0) is (restarts >= limit)
