"""Is our time right where two of three witnesses are, and never further than they allow?"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.timekeeping import Jump, Keeping, Kept, Reading, Word, advance, begin, contradicted, sound, trouble

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
S, H, YEAR = timedelta(seconds=1), timedelta(hours=1), timedelta(days=365)
BOOT = timedelta(hours=5)


def reading(passed: timedelta = 0 * S, *, wall_lead: timedelta = 0 * S) -> Reading:
    return Reading(wall=T0 + passed + wall_lead, boot=BOOT + passed)


def word(passed: timedelta = 0 * S, *, lead: timedelta | None = 0 * S, doubt: timedelta = 2 * S) -> Word:
    return Word(said=None if lead is None else T0 + passed + lead, boot=BOOT + passed, doubt=doubt)


def steady() -> Keeping:
    return begin(reading(), boot_id="a", kept=None)


def rebooted(off: timedelta = H, *, wall_lead: timedelta = 0 * S) -> Keeping:
    """A machine that was off for `off` before T0."""
    return begin(reading(wall_lead=wall_lead), boot_id="b", kept=Kept(mark=T0 - off, boot_id="a", boot=9 * H))


def after(keeping: Keeping, *looks: tuple[Reading, Word | None]) -> Keeping:
    for seen, said in looks:
        keeping, _ = advance(keeping, seen, said)
    return keeping


# Within a process


def test_time_runs_on_boot_time() -> None:
    assert steady().now(BOOT + 90 * S) == T0 + 90 * S


@pytest.mark.parametrize("lead", [2 * H, -2 * H, YEAR])
@pytest.mark.parametrize("said", [None, 0 * S, 3 * H])
def test_a_jump_of_the_wall_alone_moves_nothing_and_is_told_once(lead: timedelta, said: timedelta | None) -> None:
    heard = after(steady(), (reading(S), word(S, lead=said)))
    jumped, jump = advance(heard, reading(10 * S, wall_lead=lead))
    assert jumped.now(BOOT + 10 * S) == T0 + 10 * S
    assert jump == Jump(by=lead, was=T0 + 10 * S, to=T0 + 10 * S + lead, followed=False)
    assert advance(jumped, reading(20 * S, wall_lead=lead)) == (jumped, None)


@pytest.mark.parametrize(("lead", "told"), [(60 * S, False), (61 * S, True), (-60 * S, False), (-61 * S, True)])
def test_a_minute_is_no_jump(lead: timedelta, told: bool) -> None:
    _, jump = advance(steady(), reading(S, wall_lead=lead))
    assert (jump is not None) is told


def test_a_wall_that_is_set_right_again_is_told_as_well() -> None:
    away = after(steady(), (reading(S, wall_lead=2 * H), None))
    back, jump = advance(away, reading(2 * S))
    assert jump is not None
    assert (jump.by, jump.followed, back.wall_lead) == (-2 * H, False, 0 * S)


def test_where_wall_and_provider_agree_time_passed_that_nobody_here_counted() -> None:
    frozen, jump = advance(steady(), reading(10 * S, wall_lead=2 * H), word(10 * S, lead=2 * H))
    assert jump == Jump(by=2 * H, was=T0 + 10 * S, to=T0 + 10 * S + 2 * H, followed=True)
    assert frozen.now(BOOT + 10 * S) == T0 + 10 * S + 2 * H
    assert sound(frozen, reading(10 * S, wall_lead=2 * H))


def test_what_the_provider_said_before_a_freeze_does_not_confirm_the_wall() -> None:
    heard = after(steady(), (reading(S), word(S)))
    assert after(heard, (reading(10 * S, wall_lead=2 * H), None)).now(BOOT + 10 * S) == T0 + 10 * S


def test_time_follows_no_further_than_the_provider_can_mean() -> None:
    keeping = after(steady(), (reading(S, wall_lead=50 * S), word(S, doubt=3 * S)))
    assert keeping.now(BOOT + S) == T0 + 4 * S


@pytest.mark.parametrize("lead", [-2 * H, 2 * H, YEAR])
def test_a_provider_that_is_wrong_alone_changes_nothing(lead: timedelta) -> None:
    keeping = after(steady(), *((reading(n * S), word(n * S, lead=lead)) for n in range(1, 100)))
    assert keeping.now(BOOT + 99 * S) == T0 + 99 * S
    assert sound(keeping, reading(99 * S))
    assert trouble(keeping, reading(99 * S)) is None


def test_time_that_is_ahead_of_both_others_goes_on_and_is_not_sound() -> None:
    seen = reading(10 * S, wall_lead=-2 * H)
    keeping = after(steady(), (seen, word(10 * S, lead=-2 * H)))
    assert keeping.now(BOOT + 100 * S) == T0 + 100 * S
    assert not sound(keeping, seen)
    assert contradicted(keeping, seen) == seen.wall
    assert "restart once nothing is owed" in (trouble(keeping, seen) or "")


@pytest.mark.parametrize(
    ("wall_lead", "said", "believed"),
    [(0 * S, None, True), (-2 * H, None, False), (-2 * H, 0 * S, True), (2 * H, None, False), (2 * H, 5 * H, False)],
)
def test_sound_is_what_a_second_witness_says_too(wall_lead: timedelta, said: timedelta | None, believed: bool) -> None:
    keeping, seen = after(steady(), (reading(S), word(S, lead=said))), reading(S, wall_lead=wall_lead)
    assert sound(keeping, seen) is believed
    assert (trouble(keeping, seen) is None) is (wall_lead == 0 * S)


@pytest.mark.parametrize(("later", "counts"), [(15 * 60 * S, True), (15 * 60 * S + S, False)])
def test_an_old_word_is_no_witness(later: timedelta, counts: bool) -> None:
    keeping = after(steady(), (reading(), word()))
    assert sound(keeping, reading(later, wall_lead=-2 * H)) is counts


# Across restarts


@pytest.mark.parametrize("lead", [0 * S, -2 * H, 2 * H, YEAR])
def test_a_restart_within_a_boot_goes_on_by_boot_time(lead: timedelta) -> None:
    kept = Kept(mark=T0 - 300 * S, boot_id="a", boot=BOOT - 300 * S, settled=True)
    keeping = begin(reading(wall_lead=lead), boot_id="a", kept=kept)
    assert keeping.now(BOOT) == T0
    assert sound(keeping, reading(wall_lead=lead)) is (lead == 0 * S)
    _, jump = advance(keeping, reading(wall_lead=lead))
    assert (jump is None) is (lead == 0 * S)


def test_what_an_earlier_process_never_settled_is_the_least_in_this_one_too() -> None:
    kept = Kept(mark=T0 - H, boot_id="a", boot=BOOT - 300 * S, settled=False)
    keeping = begin(reading(), boot_id="a", kept=kept)
    assert (keeping.now(BOOT), keeping.settled) == (T0 - H + 300 * S, False)


@pytest.mark.parametrize("boot_id", ["b", None])
def test_another_boot_or_an_unknown_one_begins_at_what_was_witnessed(boot_id: str | None) -> None:
    kept = Kept(mark=T0 - H, boot_id=boot_id and "a", boot=BOOT - 300 * S, settled=True)
    keeping = begin(reading(), boot_id=boot_id, kept=kept)
    assert (keeping.now(BOOT), keeping.settled) == (T0 - H, False)
    assert not sound(keeping, reading())
    assert trouble(keeping, reading()) is None  # nobody could be asked yet


@pytest.mark.parametrize(("off", "settled"), [(0 * S, True), (60 * S, True), (61 * S, False), (-S, False)])
def test_a_wall_hardly_past_what_was_witnessed_is_believed(off: timedelta, settled: bool) -> None:
    assert rebooted(off).settled is settled


def test_after_a_reboot_the_first_word_that_agrees_with_the_wall_is_enough() -> None:
    keeping, jump = advance(rebooted(), reading(5 * S), word(5 * S))
    assert (keeping.now(BOOT + 5 * S), keeping.settled, jump) == (T0 + 5 * S, True, None)


def test_after_a_reboot_a_wrong_year_is_not_believed_and_the_provider_s_second_word_is() -> None:
    wrong = [(reading(n * S, wall_lead=YEAR), word(n * S)) for n in (1, 10, 11)]
    once = after(rebooted(wall_lead=YEAR), *wrong[:2])
    assert (once.now(BOOT + 10 * S), once.settled) == (T0 - H + 10 * S, False)
    assert "does not confirm" in (trouble(once, wrong[1][0]) or "")
    twice = after(once, wrong[2])
    assert (twice.now(BOOT + 11 * S), twice.settled) == (T0 + 11 * S, True)


def test_two_words_that_are_out_of_step_are_one() -> None:
    words = [word(S, lead=3 * H), word(20 * S, lead=5 * H)]
    keeping = after(rebooted(), (reading(S), words[0]), (reading(20 * S), words[1]))
    assert not keeping.settled


def test_after_a_reboot_of_two_that_can_be_right_the_earlier_is_taken() -> None:
    early = [(reading(n * S), word(n * S, lead=YEAR)) for n in (1, 15)]
    assert after(rebooted(), *early).now(BOOT + 15 * S) == T0 + 15 * S


def test_after_a_reboot_a_wall_behind_what_was_witnessed_loses_to_the_provider() -> None:
    looks = [(reading(n * S, wall_lead=-YEAR), word(n * S)) for n in (1, 15)]
    begun = rebooted(wall_lead=-YEAR)
    _, jump = advance(begun, looks[0][0])
    assert jump is not None
    assert jump.by == H - YEAR
    assert after(begun, *looks).now(BOOT + 15 * S) == T0 + 15 * S


@pytest.mark.parametrize("lead", [None, -YEAR])
def test_a_provider_without_a_usable_date_leaves_a_steady_wall_to_be_believed_in_the_end(
    lead: timedelta | None,
) -> None:
    looks = [(reading(n * S), word(n * S, lead=lead)) for n in (1, 300, 600)]
    waiting = after(rebooted(), *looks)
    assert not waiting.settled
    assert "does not confirm" in (trouble(waiting, looks[-1][0]) or "")
    assert after(waiting, (reading(601 * S), None)).now(BOOT + 601 * S) == T0 + 601 * S


def test_a_wall_that_jumps_meanwhile_begins_its_ten_minutes_anew() -> None:
    mute = after(rebooted(), (reading(S), word(S, lead=None)), (reading(500 * S, wall_lead=YEAR), None))
    assert not after(mute, (reading(1099 * S, wall_lead=YEAR), None)).settled
    assert after(mute, (reading(1100 * S, wall_lead=YEAR), None)).settled


def test_a_provider_that_was_never_reached_leaves_the_wall_unbelieved() -> None:
    assert not after(rebooted(), (reading(24 * H), None)).settled


# Whatever happens

LEADS = st.one_of(st.just(0.0), st.floats(-1e8, 1e8)).map(lambda s: timedelta(seconds=s))
LOOKS = st.lists(
    st.tuples(
        st.floats(0, 4000).map(lambda s: timedelta(seconds=s)), LEADS, st.one_of(st.none(), st.just("mute"), LEADS)
    ),
    max_size=30,
)
KEPT = st.one_of(
    st.none(),
    st.builds(
        lambda lead, boot_id, settled: Kept(mark=T0 + lead, boot_id=boot_id, boot=BOOT - H, settled=settled),
        LEADS,
        st.sampled_from(["a", "b"]),
        st.booleans(),
    ),
)


@given(kept=KEPT, looks=LOOKS, first=LEADS)
def test_time_never_goes_back_and_never_runs_slower_than_boot_time(
    kept: Kept | None, looks: list[tuple[timedelta, timedelta, timedelta | str | None]], first: timedelta
) -> None:
    keeping = begin(reading(wall_lead=first), boot_id="a", kept=kept)
    now, passed = keeping.now(BOOT), 0 * S
    assert kept is None or now >= kept.mark
    for step, wall_lead, said in looks:
        passed += step
        told = None if said is None else word(passed, lead=said if isinstance(said, timedelta) else None)
        keeping, _ = advance(keeping, reading(passed, wall_lead=wall_lead), told)
        later = keeping.now(BOOT + passed)
        assert later >= now + step
        now = later


@given(looks=LOOKS, liar=st.sampled_from(["wall", "provider"]))
def test_one_liar_alone_never_moves_time_by_more_than_a_minute(
    looks: list[tuple[timedelta, timedelta, timedelta | str | None]], liar: str
) -> None:
    keeping, passed = steady(), 0 * S
    for step, lie, said in looks:
        passed += step
        wall_lead = lie if liar == "wall" else 0 * S
        told = word(passed, lead=0 * S if liar == "wall" else lie) if said is not None else None
        keeping, _ = advance(keeping, reading(passed, wall_lead=wall_lead), told)
        assert abs(keeping.now(BOOT + passed) - (T0 + passed)) <= 60 * S


# What each look keeps


def test_a_jump_of_the_wall_is_no_beginning_of_a_wait_that_nobody_is_waited_for_in() -> None:
    """Who was never asked has not been silent: no ten minutes run against the provider."""
    jumped = after(rebooted(), (reading(S, wall_lead=2 * H), None))
    later = after(jumped, (reading(H, wall_lead=2 * H), None), (reading(2 * H, wall_lead=2 * H), None))
    assert (later.settled, later.alone_since) == (False, None)


def test_a_time_that_both_others_confirm_is_not_contradicted() -> None:
    heard = after(steady(), (reading(S), word(S)))
    assert contradicted(heard, reading(2 * S)) is None


def test_a_wall_that_is_wrong_alone_is_to_be_set_right_and_one_that_nobody_speaks_against_is_not_believed() -> None:
    alone = after(steady(), (reading(S, wall_lead=2 * H), None))
    assert "nothing is created until they agree" in str(trouble(alone, reading(2 * S, wall_lead=2 * H)))
    confirmed = after(alone, (reading(3 * S, wall_lead=2 * H), word(3 * S)))
    assert "set the wall clock right" in str(trouble(confirmed, reading(4 * S, wall_lead=2 * H)))


def test_an_answer_without_a_date_leaves_what_the_provider_said_before() -> None:
    heard = after(
        steady(), (reading(S, wall_lead=2 * H), word(S)), (reading(2 * S, wall_lead=2 * H), word(2 * S, lead=None))
    )
    assert sound(heard, reading(3 * S, wall_lead=2 * H))


@pytest.mark.parametrize(("lead", "told"), [(110 * S, False), (111 * S, True)])
def test_what_the_wall_was_ahead_by_when_time_was_set_counts_for_no_later_jump(lead: timedelta, told: bool) -> None:
    """Two jumps of less than a minute are told as one of more, if at all, only from there on."""
    followed, _ = advance(steady(), reading(S, wall_lead=2 * H), word(S, lead=2 * H - 50 * S, doubt=2 * S))
    assert followed.wall_lead > timedelta()
    ahead = reading(2 * S, wall_lead=2 * H).wall - followed.now(BOOT + 2 * S)
    _, jump = advance(followed, reading(2 * S, wall_lead=2 * H + lead - ahead - 50 * S + ahead), None)
    assert (jump is not None) is told
