"""Is what the account answered good enough for what is configured?

One pure judgement for each question that was asked. What could not be asked is a warning that says so, beside the one
failure that explains it: unknown is neither good nor bad.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from controller.cli.doctor.finding import Finding, fail, ok, warn
from controller.cli.doctor.recorded import Answered
from controller.cli.output import span_words
from controller.core.identity import Owner
from controller.core.inventory import Listing
from controller.core.timekeeping import AGREED
from controller.providers.inspecting import Failed, Funds, Offers, Stock, Trouble
from controller.settings.problems import nearest

DATE_DOUBT: Final = timedelta(milliseconds=500)
"""A Date is whole seconds."""
RUNWAY_LOW: Final = timedelta(hours=24)

_ELSEWHERE: Final = {
    Trouble.CREDENTIAL: "see `key`",
    Trouble.PERMISSION: "use a key that may read this",
    Trouble.SILENT: "see `provider`",
    Trouble.HELD_BACK: "ask again when the time is over",
    Trouble.ODD: "ask again; if it stays so, see the provider's own page on its disturbances",
}
NEW_KEY: Final = "make a key in the provider's console with all permissions, and put it in the place of this one"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the provider's Date said, and our wall clock when its answer came."""

    said: datetime
    wall: datetime
    round_trip: timedelta


def greeting(failed: Failed | None, *, address: str) -> Iterator[Finding]:
    """Does it answer, is the key accepted, may it see what is rented?"""
    trouble = None if failed is None else failed.trouble
    answers = trouble in {None, Trouble.CREDENTIAL, Trouble.PERMISSION}
    accepted = trouble in {None, Trouble.PERMISSION}
    text = "" if failed is None else failed.text
    if answers:
        yield ok("provider", f"{address} answers")
    elif trouble is Trouble.HELD_BACK:
        yield warn("provider", f"{address} asks us to wait: {text}", mend=_ELSEWHERE[Trouble.HELD_BACK])
    else:
        mend = "see whether this machine reaches the internet, and the provider's own page on its disturbances"
        yield fail("provider", f"{address} gives no usable answer: {text}", mend=mend)
    if accepted:
        yield ok("key", "accepted")
    elif trouble is Trouble.CREDENTIAL:
        yield fail("key", f"not accepted: {text}", mend=NEW_KEY)
    else:
        yield _unknown("key", failed)
    yield _permission("machines", failed, serves="nothing can be proven, and nothing starts")


def billing(failed: Failed | None) -> Finding:
    return _permission("billing", failed, serves="what was billed cannot stand witness")


def logs(failed: Failed | None) -> Finding:
    return _permission("logs", failed, serves="why a start fails will not be told")


def _permission(what: str, failed: Failed | None, *, serves: str) -> Finding:
    if failed is None:
        return ok("permission", "the key may read them" if what != "billing" else "the key may read it", about=what)
    if failed.trouble is Trouble.PERMISSION:
        return fail("permission", f"refused: {failed.text}; without it {serves}", mend=NEW_KEY, about=what)
    return _unknown("permission", failed, about=what)


def _unknown(check: str, failed: Failed | None, *, about: str | None = None) -> Finding:
    trouble, text = (Trouble.ODD, "not asked") if failed is None else (failed.trouble, failed.text)
    return warn(check, f"not known: {text}", mend=_ELSEWHERE[trouble], about=about)


def renting(answered: Answered | None) -> Finding:
    """From the record alone: no read shows it, and nothing is rented or stopped to find out."""
    if answered is None:
        return warn(
            "permission",
            "not known: no read shows whether the key may rent and stop, and nothing was rented yet",
            mend="see in the console that the key is not for reading only; start one cheap model and stop it",
            about="to act",
        )
    if answered.code is None:
        return ok("permission", f"the last {answered.call} on record was accepted", about="to act")
    text = f"the last {answered.call} on record was refused: {answered.code}"
    return fail("permission", text, mend=f"a key for reading only cannot stop anything: {NEW_KEY}", about="to act")


def clock(sample: Sample | None) -> Finding:
    """Two witnesses: which of them is wrong is for a person to see."""
    if sample is None:
        return warn("clock", "not known: the provider told no date", mend=_ELSEWHERE[Trouble.SILENT])
    apart = sample.wall - sample.round_trip / 2 - sample.said
    least = abs(apart - DATE_DOUBT) - sample.round_trip / 2 - DATE_DOUBT
    if least <= timedelta():
        return ok("clock", "as the provider's date, as far as that tells")
    way = "ahead of" if apart > timedelta() else "behind"
    text = f"{span_words(abs(apart).total_seconds())} {way} the provider's date"
    if least <= AGREED:
        return ok("clock", f"{text}: near enough")
    return fail("clock", text, mend="set this machine's clock right (`timedatectl`), then restart the daemon")


def listing(found: Listing) -> Finding:
    if found.complete:
        return ok("listing", f"complete: {_counted(len(found.resources))}")
    return fail(
        "listing",
        f"not complete: {without_words(found.problem or 'not said why')}",
        mend="nothing is proven gone and nothing starts meanwhile; ask again, then look at the account in the console",
    )


def without_words(problem: str) -> str:
    """A refusal's number without the provider's words for it, which may repeat anything."""
    return problem.partition(":")[0] if problem.startswith("HTTP ") else problem


def tags(found: Listing, *, name: str) -> Finding:
    named = [seen for seen in found.resources if seen.namespaced and not seen.cluster]
    bare = [seen for seen in named if seen.tags.owner is None]
    marked = [seen for seen in found.resources if seen.tags.owner == name]
    if bare and not marked:
        return fail(
            "tags",
            f"{_counted(len(bare))} named like ours, and the listing shows the tags of none",
            mend="whose they are cannot be told, and none is swept: stop in the console what nobody needs, and start"
            " nothing until the tags show",
        )
    if bare:
        mend = "its environment was changed in the console, or another program uses runpod.prefix: see whose it is"
        text = f"{_counted(len(bare))} named like ours without tags, as {bare[0].key.incarnation}"
        return warn("tags", text, mend=mend)
    if marked:
        return ok("tags", f"shown: {_carrying(len(marked))} our name")
    if not found.complete:
        return warn("tags", "not known: the listing is not complete, and shows nothing of ours", mend="see `listing`")
    return ok("tags", "nothing of ours is there to carry them")


def owner(found: Listing, us: Owner, *, settled: bool) -> Iterator[Finding]:
    """`settled`: there is a store, so that our own installation is known."""
    copies = Counter(seen.tags.installation for seen in found.resources if us.copied(seen.tags))
    here = f"ours is {us.installation}" if settled else "here is no store yet"
    for installation, count in sorted(copies.items(), key=str):
        yield fail(
            "owner",
            f"{_carrying(count)} our name {us.name} and installation {installation}; {here}",
            mend="two environments of one name: give each a name of its own; if the other is gone for good,"
            f" `gpuwarden claim {installation}`",
        )
    if copies:
        return
    if not found.complete:
        yield warn("owner", "not known: the listing is not complete", mend="see `listing`")
        return
    others = sum(us.foreign(seen.tags) for seen in found.resources)
    more = f"; {_counted(others)} of other names, left alone" if others else ""
    yield ok("owner", f"nobody else uses the name {us.name}{more}")


def secrets(found: frozenset[str] | Failed, wanted: Mapping[str, str]) -> Iterator[Finding]:
    """`wanted`: what each secret's name is wanted for."""
    if not isinstance(found, Failed):
        missing = sorted(set(wanted) - found)
        for name in missing:
            mend = f"make a secret {name} at the provider; machines get a reference to it, never the value"
            yield fail("secrets", f"there is none named {name}, {wanted[name]}", mend=mend)
        if not missing:
            yield ok("secrets", f"all there: {', '.join(sorted(wanted))}" if wanted else "none is referred to")
    elif found.trouble is Trouble.PERMISSION:
        mend = "see in the console that they exist: " + ", ".join(sorted(wanted))
        yield warn("secrets", f"not known: the key may not list them ({found.text})", mend=mend)
    else:
        yield _unknown("secrets", found)


def registries(found: frozenset[str] | Failed, wanted: Mapping[str, str | None]) -> Iterator[Finding]:
    """`wanted`: by alias, the id of the credential with which its image is pulled."""
    named = {alias: key for alias, key in wanted.items() if key is not None}
    if not named:
        yield ok("registry", "every image is a public one")
        return
    if isinstance(found, Failed):
        if found.trouble is Trouble.PERMISSION:
            mend = "see in the console that they exist: " + ", ".join(sorted(set(named.values())))
            yield warn("registry", f"not known: the key may not list them ({found.text})", mend=mend)
        else:
            yield _unknown("registry", found)
        return
    for alias, key in named.items():
        if key in found:
            yield ok("registry", f"there is a credential {key}", about=alias)
        else:
            mend = f"write its id, not its name, as models.{alias}.registry; the provider's console shows it"
            yield fail("registry", f"there is no registry credential with the id {key}", mend=mend, about=alias)


def hub_token(without: Iterable[str]) -> Finding:
    """Measured: 646 s with a token, 1646 s without (HF-1)."""
    aliases = sorted(without)
    if not aliases:
        return ok("hub-token", "every model names one")
    return warn(
        "hub-token",
        f"no Hugging Face token for {', '.join(aliases)}: one start was measured at 1646 s without and 646 s with",
        mend="make a secret with a token at the provider, and name it as hf_token_secret",
    )


def gpus(found: frozenset[str] | Failed, declared: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """By alias, the types that each model may be given."""
    if isinstance(found, Failed):
        yield _unknown("gpus", found)
        return
    strange = [(alias, gpu) for alias, types in declared.items() for gpu in types if gpu not in found]
    for alias, gpu in strange:
        yield fail("gpus", f'the catalog has no "{gpu}"', mend=nearest(gpu, found), about=alias)
    if not strange:
        yield ok("gpus", "all in the catalog")


def stock(alias: str, found: Offers | Failed, types: tuple[str, ...]) -> Finding:
    if isinstance(found, Failed):
        return _unknown("stock", found, about=alias)
    levels = {gpu: found[gpu].stock for gpu in types if gpu in found}
    shown = ", ".join(f"{gpu} {'not said' if level is None else level.value}" for gpu, level in levels.items())
    if not shown or all(level is Stock.NONE for level in levels.values()):
        mend = "a start may be refused now; wait, or add a type to gpus or a data centre to data_center_ids"
        return warn("stock", shown or "none of its types is in the catalog", mend=mend, about=alias)
    return ok("stock", shown, about=alias)


def price(alias: str, found: Offers | Failed, types: tuple[str, ...], *, most: Decimal | None) -> Finding:
    """For a whole machine. `most`: the model's own ceiling."""
    if isinstance(found, Failed):
        return _unknown("price", found, about=alias)
    known = {gpu: usd for gpu in types if gpu in found and (usd := found[gpu].usd_per_hour) is not None}
    if not known:
        if most is not None:
            return warn("price", "not said", mend=f"max_usd_per_hour = {most} holds all the same", about=alias)
        mend = "without a known price nothing starts: set max_usd_per_hour, or name another type"
        return fail("price", "no price is known", mend=mend, about=alias)
    shown = ", ".join(f"{gpu} {_rate(usd)}" for gpu, usd in known.items())
    if most is not None and min(known.values()) > most:
        mend = "what costs more is stopped again: raise it, or name a cheaper type"
        return fail("price", f"{shown}: above max_usd_per_hour = {most}", mend=mend, about=alias)
    return ok("price", shown, about=alias)


def funds(found: Funds | Failed, *, dearest: Decimal | None) -> Finding:
    """`dearest`: an hour of the dearest machine that any model may be given."""
    if isinstance(found, Failed):
        return _unknown("funds", found)
    wanted = dearest or Decimal()
    now = f"${found.balance_usd:.2f}"
    if found.balance_usd <= 0 or found.balance_usd < wanted:
        text = f"{now} left, and an hour of the dearest machine configured costs ${wanted:.2f}: a start is refused"
        return fail("funds", text, mend="pay in; at zero the provider ends every machine")
    rate = found.usd_per_hour + wanted
    if found.usd_per_hour_max is not None and rate > found.usd_per_hour_max:
        text = f"{_rate(found.usd_per_hour)} now and {_rate(wanted)} more is above the account's limit"
        return warn("funds", f"{text} of {_rate(found.usd_per_hour_max)}", mend="have the provider raise its limit")
    if not rate:
        return ok("funds", f"{now} left, and nothing costs now")
    runway = timedelta(hours=float(min(found.balance_usd / rate, Decimal(1_000_000))))
    text = f"{now} left, {_rate(found.usd_per_hour)} now; with the dearest machine configured it lasts"
    text = f"{text} {span_words(runway.total_seconds())}"
    return ok("funds", text) if runway >= RUNWAY_LOW else warn("funds", text, mend="pay in before it ends")


def _rate(usd: Decimal) -> str:
    return f"${usd:.2f}/h"


def _carrying(number: int) -> str:
    return f"{_counted(number)} {'carries' if number == 1 else 'carry'}"


def _counted(number: int) -> str:
    return f"{number} machine{'' if number == 1 else 's'}"
