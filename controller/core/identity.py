"""Which resource, exactly, do we mean?

A resource is known by four values together; the incarnation is the provider's own word for it. Two resources of the
same name are not the same resource, and ownership never rests on a name: only on the exact key, or on the tags it
carries.
"""

from dataclasses import dataclass
from typing import Final, NewType

from controller.core.errors import InvalidIdentifier

DeploymentId = NewType("DeploymentId", str)
RequestId = NewType("RequestId", str)
ObligationId = NewType("ObligationId", str)

IDENTIFIER_BYTES_MAX: Final = 256


def identifier(value: str) -> str:
    """Return `value` if it is 1 to 256 bytes of printable ASCII without spaces (HC-1).

    Raises InvalidIdentifier, whose text is fixed and never repeats the value.
    """
    if not 1 <= len(value) <= IDENTIFIER_BYTES_MAX or not all("!" <= char <= "~" for char in value):
        raise InvalidIdentifier
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One account at one provider: the controller's configuration, never a provider's answer (HC-3)."""

    provider: str
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKey:
    """The exact name of one billed resource (HC-2). Raises InvalidIdentifier on a part that is none."""

    provider: str
    account: str
    name: str
    incarnation: str

    def __post_init__(self) -> None:
        for part in (self.provider, self.account, self.name, self.incarnation):
            identifier(part)

    @property
    def scope(self) -> Scope:
        return Scope(provider=self.provider, account=self.account)


def same_name(one: ResourceKey, other: ResourceKey) -> bool:
    """Do both go by one name in one account? Says nothing about being the same resource (HC-2)."""
    return one.scope == other.scope and one.name == other.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Tags:
    """What a resource says of its owner, as read back from the provider. An unreadable tag is `None` (RP-12)."""

    owner: str | None = None
    installation: str | None = None
    epoch: int | None = None
    request: RequestId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who we are: the configured name, and the random id made together with the store."""

    name: str
    installation: str
    claimed: frozenset[str] = frozenset()
    """Other installations of our name whose resources were claimed for this one."""

    def holds(self, tags: Tags) -> bool:
        """Are these tags ours: our name and our installation, or a claimed one?"""
        return tags.owner == self.name and (tags.installation == self.installation or tags.installation in self.claimed)

    def copied(self, tags: Tags) -> bool:
        """Do these tags carry our name and an unclaimed installation: a copied config, or a lost store?"""
        return tags.owner == self.name and tags.installation is not None and not self.holds(tags)

    def disputed(self, tags: Tags) -> bool:
        """Do these tags say that it is not ours? Missing ones do not: a provider may show no environment at all."""
        return self.foreign(tags) or self.copied(tags)

    def foreign(self, tags: Tags) -> bool:
        """Do these tags name another owner? Missing tags name nobody."""
        return tags.owner is not None and tags.owner != self.name
