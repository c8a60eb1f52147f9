"""What did one check find, and how does the whole examination end?

Every check has a name that stays, a verdict, what was seen, and, unless all is well, how to mend it. The order of the
names is the order of the lines; the code beside a name is that of a command which fails by it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller.cli.exits import Exit


class Verdict(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


CHECKS: Final = {
    "config": Exit.BAD_CONFIG,
    "account-key": Exit.BAD_CONFIG,
    "model-keys": Exit.BAD_CONFIG,
    "modes": Exit.FAILED,
    "disk": Exit.FAILED,
    "store": Exit.FAILED,
    "daemon": Exit.FAILED,
    "provider": Exit.PROVIDER,
    "key": Exit.PROVIDER,
    "permission": Exit.PROVIDER,
    "clock": Exit.FAILED,
    "listing": Exit.PROVIDER,
    "tags": Exit.PROVIDER,
    "owner": Exit.PROVIDER,
    "secrets": Exit.PROVIDER,
    "registry": Exit.PROVIDER,
    "hub-token": Exit.BAD_CONFIG,
    "gpus": Exit.BAD_CONFIG,
    "stock": Exit.PROVIDER,
    "price": Exit.BAD_CONFIG,
    "funds": Exit.PROVIDER,
}
_WORST_FIRST: Final = (Exit.BAD_CONFIG, Exit.PROVIDER, Exit.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line. `subject` is what the check was about, where it is made more than once."""

    check: str
    verdict: Verdict
    text: str
    mend: str | None = None
    subject: str | None = None


def ok(check: str, text: str, *, about: str | None = None) -> Finding:
    return Finding(check=check, verdict=Verdict.OK, text=text, subject=about)


def warn(check: str, text: str, *, mend: str, about: str | None = None) -> Finding:
    return Finding(check=check, verdict=Verdict.WARN, text=text, mend=mend, subject=about)


def fail(check: str, text: str, *, mend: str, about: str | None = None) -> Finding:
    return Finding(check=check, verdict=Verdict.FAIL, text=text, mend=mend, subject=about)


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    names = list(CHECKS)
    return sorted(findings, key=lambda finding: names.index(finding.check))


def exit_of(findings: Iterable[Finding]) -> Exit:
    """0 unless something failed: then the config's fault before the provider's before this machine's."""
    failed = {CHECKS[finding.check] for finding in findings if finding.verdict is Verdict.FAIL}
    return next((code for code in _WORST_FIRST if code in failed), Exit.OK)
