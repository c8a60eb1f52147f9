"""What does a value say of what has not happened yet? Nothing: no failure, no attempt, no epoch, no completeness."""

from controller.core.book import AccountTrust, Book, ModelMemory
from controller.core.identity import ObligationId, ResourceKey, Scope
from controller.core.inventory import Listing
from controller.core.obligation import Obligation, Sight
from tests.core.samples import OWNER, T0


def test_a_model_that_was_never_started_has_no_failure_and_no_round_behind_it() -> None:
    memory = ModelMemory(model="qwen")
    assert (memory.failures, memory.rounds, memory.starts, memory.hold_reason) == (0, 0, (), None)


def test_an_account_is_trusted_until_something_speaks_against_it() -> None:
    assert AccountTrust().trusted
    assert Sight().account_trusted


def test_before_the_first_grant_and_the_first_line_the_book_counts_from_nought() -> None:
    book = Book(owner=OWNER, scope=Scope(provider="runpod", account="main"))
    assert (book.epoch_latest, book.seq_latest) == (0, 0)


def test_a_listing_of_which_nobody_said_so_proves_no_absence_by_request_id() -> None:
    listing = Listing(began_at=T0, ended_at=T0, complete=True)
    assert not listing.requests_readable
    assert dict[ResourceKey, object](listing.by_key) == {}


def test_a_duty_begins_under_no_lease_and_with_no_stop_behind_it() -> None:
    owed = Obligation(id=ObligationId("o1"), opened_at=T0)
    assert (owed.epoch, owed.stop_attempts) == (0, 0)
