"""What of a part of book or view may change without concern for those who look at less than all of it?

Most commits and looks replace a part and change little in it: the last byte that passed, when a probe was, how long a
lease lasts now. Who decides on the rest alone tells one of these names for the part, and sleeps through such a change.
What is left out of a facet is told by its text; `tests/support/reading.py` holds every pass against it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from controller.core.deployment import Record
from controller.core.identity import DeploymentId
from controller.core.inventory import Listing
from controller.core.lease import Lease
from controller.core.replacement import used
from controller.core.view import Probed, date_apart


@dataclass(frozen=True, slots=True)
class Facet:
    """Of which part it is, and whether two values of that part are the same by it."""

    part: str
    same: Callable[[Any, Any], bool]


def _same_records(former: Mapping[DeploymentId, Record], latter: Mapping[DeploymentId, Record]) -> bool:
    if former.keys() != latter.keys():
        return False
    return all(record is former[name] or _same_record(former[name], record) for name, record in latter.items())


def _same_record(former: Record, latter: Record) -> bool:
    same = replace(latter, last_byte_at=former.last_byte_at, version=former.version) == former
    return same and used(latter) is used(former)


def _same_leases(former: Mapping[DeploymentId, Lease], latter: Mapping[DeploymentId, Lease]) -> bool:
    return _held(former) == _held(latter)


def _held(leases: Mapping[DeploymentId, Lease]) -> dict[DeploymentId, tuple[str, int, bool]]:
    return {name: (lease.holder, lease.epoch, lease.expires_at is None) for name, lease in leases.items()}


def _same_resources(former: Listing | None, latter: Listing | None) -> bool:
    return _resources(former) == _resources(latter)


def _resources(listing: Listing | None) -> object:
    return None if listing is None else listing.resources


def _same_dates(former: Listing | None, latter: Listing | None) -> bool:
    return (date_apart(former) is None) is (date_apart(latter) is None)


Probes = Mapping[DeploymentId, Probed]


def _same_answers(former: Probes, latter: Probes) -> bool:
    return _answers(former) == _answers(latter)


def _answers(probes: Probes) -> object:
    return {name: (probed.verdict, probed.served) for name, probed in probes.items()}


def _same_runtimes(former: Probes, latter: Probes) -> bool:
    return _runtimes(former) == _runtimes(latter)


def _runtimes(probes: Probes) -> object:
    return {name: probed.runtime for name, probed in probes.items()}


FACETS: Final[Mapping[str, Facet]] = {
    "standing": Facet("records", _same_records),  # not when a byte last passed; whether any did since it was tried
    "held_leases": Facet("leases", _same_leases),  # not until when they last: a renewal only puts it off
    "resources": Facet("listing", _same_resources),  # not when it was listed, nor whether that was all
    "complete_resources": Facet("completed", _same_resources),
    "date_apart": Facet("completed", _same_dates),  # not by how much
    "answers": Facet("probes", _same_answers),  # what the model server said, not when
    "runtimes": Facet("probes", _same_runtimes),  # what it counts, not whether it is ready
}
