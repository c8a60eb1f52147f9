"""Would it work, and what is to be mended first?

Looks at the config and who may read what, at store and daemon, and asks the provider everything that reading can
tell. It allocates nothing, changes nothing, and needs no daemon. Every check is made whatever the others found, and no
secret is in what it prints: it knows those of this machine, and repeats no word of the provider's.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from controller.cli.doctor import account, asking, here
from controller.cli.doctor.finding import Finding, Verdict, exit_of, in_order, warn
from controller.cli.doctor.recorded import Recorded
from controller.cli.exits import Exit
from controller.cli.output import printable, say, show_json
from controller.clock import MachineClock, SystemClock
from controller.core.identity import Owner
from controller.settings import ConfigProblems, Problem, Settings, find_config
from controller.settings.part import load_in_part
from controller.transport import AsyncTransport, redacted


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Where the examination touches the world: everything that a test replaces."""

    clock: MachineClock = field(default_factory=SystemClock)
    transport: AsyncTransport | None = None
    """HTTP to the provider; `None`: real sockets."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


async def doctor(config: Path | None, *, as_json: bool, seams: Seams) -> Exit:
    """Print every finding; ends with the code of the worst."""
    path, settings, problems = _config(config, seams.environment)
    findings = list(here.config(path, settings, problems))
    if settings is None:
        mend = "mend the config first: it does not say whose account is meant, or where"
        findings.append(warn("provider", "not asked, and nothing else looked at", mend=mend))
        secrets: frozenset[str] = frozenset()
    else:
        findings += await examined(settings, seams)
        secrets = here.known_secrets(settings)
    findings = [_clean(finding, secrets) for finding in in_order(findings)]
    code = exit_of(findings)
    if as_json:
        _show_json(findings, code, at=seams.clock.now())
    else:
        _show(findings, in_part=bool(problems) and settings is not None)
    return code


def _config(
    option: Path | None, environment: Mapping[str, str]
) -> tuple[Path | None, Settings | None, tuple[Problem, ...]]:
    try:
        path = find_config(option, environment)
    except ConfigProblems as found:
        return None, None, found.problems
    return path, *load_in_part(path, environment)


async def examined(settings: Settings, seams: Seams) -> list[Finding]:
    """Every check but that of the config itself."""
    key, findings = here.account_key(settings)
    findings += here.model_keys(settings)
    findings += here.modes(settings.places)
    findings.append(here.disk(settings.places))
    kept, stored = here.store(settings, seams.clock)
    readable = kept is not None or stored.verdict is Verdict.OK
    findings.append(stored)
    findings.append(await here.daemon(settings, kept, readable=readable))
    findings.append(account.hub_token(_without_token(settings)))
    if key is None:
        findings.append(warn("provider", "not asked: there is no key to ask with", mend="see `account-key`"))
        return findings
    us = _us(settings, kept)
    secret = key.get_secret_value()
    async with asking.reached(settings, key=secret, us=us, clock=seams.clock, transport=seams.transport) as reach:
        answers = await asking.ask(reach, now=seams.clock.now())
    return findings + asking.judged(settings, answers, us, kept)


def _without_token(settings: Settings) -> list[str]:
    return [alias for alias, section in settings.models.items() if section.hf_token_secret is None]


def _us(settings: Settings, kept: Recorded | None) -> Owner:
    """Without a store every installation of our name is another one."""
    if kept is None:
        return Owner(name=settings.written.name, installation="")
    return Owner(name=settings.written.name, installation=kept.installation, claimed=kept.claimed)


def _clean(finding: Finding, secrets: Iterable[str]) -> Finding:
    return Finding(
        check=finding.check,
        verdict=finding.verdict,
        text=redacted(finding.text, secrets=secrets),
        mend=None if finding.mend is None else redacted(finding.mend, secrets=secrets),
        subject=None if finding.subject is None else redacted(finding.subject, secrets=secrets),
    )


def _show_json(findings: list[Finding], code: Exit, *, at: datetime) -> None:
    show_json(
        {
            "at": at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "exit": int(code),
            "counts": {verdict.value: _count(findings, verdict) for verdict in Verdict},
            "checks": [asdict(finding) for finding in findings],
        }
    )


def _show(findings: list[Finding], *, in_part: bool) -> None:
    width = max(len(_named(finding)) for finding in findings)
    for finding in findings:
        print(f"{finding.verdict.value.ljust(4)}  {_named(finding).ljust(width)}  {finding.text}")
        if finding.mend is not None:
            print(f"      {''.ljust(width)}  mend: {finding.mend}")
    if in_part:
        say("what is at fault in the config was left out of all other checks")
    say(", ".join(f"{_count(findings, verdict)} {verdict.value}" for verdict in Verdict))


def _named(finding: Finding) -> str:
    return printable(finding.check if finding.subject is None else f"{finding.check} {finding.subject}")


def _count(findings: list[Finding], verdict: Verdict) -> int:
    return sum(finding.verdict is verdict for finding in findings)
