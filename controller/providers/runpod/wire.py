"""What does an answer of Runpod's really say?

Any bytes may come. What cannot be read is never taken for less than it is: a body that makes no sense is
`Unreadable`, not an empty account, and an entry that may be ours but cannot be described is counted instead of
dropped. `env` is read for our tags and dropped on the spot, since it echoes whatever else was put there.

A pod's name is whatever its owner typed; for the exact key it is written in printable ASCII, names that already are
stay as they are. Field meanings: REST v2 as published in August 2026 with the later additions (pagination, split
commands).
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import quote

from controller.core.deployment import ProviderState, SeenResource
from controller.core.errors import InvalidIdentifier
from controller.core.evidence import StopReason
from controller.core.identity import IDENTIFIER_BYTES_MAX, Owner, RequestId, ResourceKey, Scope, Tags, identifier
from controller.providers.runpod.document import Unreadable, document
from controller.providers.runpod.starts import Starts

TAG_OWNER: Final = "GPUWARDEN_OWNER"
TAG_INSTALLATION: Final = "GPUWARDEN_INSTALLATION"
TAG_EPOCH: Final = "GPUWARDEN_EPOCH"
TAG_REQUEST: Final = "GPUWARDEN_REQUEST"

PROXY_URL: Final = "https://{pod}-{port}.proxy.runpod.net"
SERVED_PORT: Final = 8000

REQUEST_ID: Final = re.compile(r"r[0-9a-f]{16}")
EPOCH: Final = re.compile(r"[0-9]{1,18}")
PROXIED_ID: Final = re.compile(r"[a-z0-9]{1,48}")
WORD_LENGTH_MAX: Final = 40
USD_PER_HOUR_MAX: Final = Decimal(100_000)
USD_PER_HOUR_MIN: Final = Decimal("1e-9")
"""Nobody's price; and written out, as evidence writes it, a smaller one may have a million digits."""
SPAN_SECONDS_MAX: Final = 10 * 365 * 86_400
YEAR_MIN: Final = 1970
YEAR_MAX: Final = 2999

HTTP_DATE: Final = re.compile(
    r"[A-Z][a-z]{2}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT"
)
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

PENDING_WORDS: Final = frozenset({"PROVISIONING", "STARTING"})
FAULT_WORDS: Final = {"EXITED": StopReason.POD_EXITED, "ERROR": StopReason.POD_ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """Whose account we look at, and what in it is ours."""

    scope: Scope
    owner: Owner
    prefix: str = "gpuwarden-"
    foreign_prefixes: tuple[str, ...] = ()
    """Pods named so belong to another program: their tags are not believed, even if they look like ours (RP-11)."""
    proxy_url: str = PROXY_URL


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One entry as Runpod described it, with what the order is compared to. Unsaid or unreadable is `None`."""

    seen: SeenResource
    ours: bool
    """In our namespace: by its name, or by its owner tag."""
    plain: bool
    """Everything that decides about it could be read; an unknown status word cannot."""
    image: str | None = None
    gpu_count: int | None = None
    disk_gb: int | None = None
    mounts: Mapping[str, Any] | None = None
    cloud: str | None = None
    data_center: str | None = None
    command: tuple[str, ...] | None = None
    """Entrypoint and arguments as one, when both were said."""
    locked: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of the listing. `problem` says why it cannot count as complete."""

    pods: tuple[Pod, ...] = ()
    next_cursor: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A well-formed refusal (application/problem+json)."""

    detail: str
    """The provider's words, not yet redacted."""


def problem_in(code: int, headers: Mapping[str, str], body: bytes) -> Problem | None:
    """The problem that this answer states, if it is well formed and speaks of this very answer (RP-5)."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/problem+json":
        return None
    stated = document(body)
    if not isinstance(stated, dict) or stated.get("status", code) != code:
        return None
    errors = stated.get("errors")
    parts = [stated.get("title"), stated.get("detail"), *(errors if isinstance(errors, list) else [])]
    return Problem(detail=": ".join(part for part in parts if isinstance(part, str)) or f"HTTP {code}")


def said_at(headers: Mapping[str, str]) -> datetime | None:
    """The provider's own time, from the Date header: in the one form that HTTP allows, of a year that can be."""
    written = HTTP_DATE.fullmatch(headers.get("date", ""))
    if written is None:
        return None
    month = written[2]
    day, year, hour, minute, second = (int(written[at]) for at in (1, 3, 4, 5, 6))
    try:
        said = datetime(year, MONTHS.index(month) + 1, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return said if YEAR_MIN <= said.year <= YEAR_MAX else None


def instant_of(text: str) -> datetime | None:
    """An HTTP date in UTC."""
    try:
        said = parsedate_to_datetime(text)
        return said.astimezone(UTC) if said.tzinfo else said.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


class Undescribed(Enum):
    """An entry from which no exact key can be made."""

    PERHAPS_OURS = auto()
    FOREIGN = auto()


class Reader:
    """Reads pods of one account. Its memory of container starts is all that it keeps."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        self.starts = Starts()

    def page(self, body: bytes, *, now: datetime) -> Page:
        """One page of `GET /pods`. Without a readable `pagination` nothing is known of what follows."""
        envelope = document(body)
        if not isinstance(envelope, dict) or not isinstance(envelope.get("pods"), list):
            return Page(problem="the answer has no list of pods")
        entries = [self._entry(entry, now=now) for entry in envelope["pods"]]
        pods = tuple(entry for entry in entries if isinstance(entry, Pod))
        cursor, problem = following(envelope.get("pagination"), empty=not entries)
        hidden = entries.count(Undescribed.PERHAPS_OURS) + sum(pod.ours and not pod.plain for pod in pods)
        if hidden:
            problem = f"{hidden} entries that may be ours could not be described"
        return Page(pods=pods, next_cursor=cursor, problem=problem)

    def pod(self, body: bytes, *, now: datetime) -> Pod | Unreadable:
        """One pod: the answer to a create or a single read."""
        return self.one(document(body), now=now)

    def one(self, found: Any, *, now: datetime) -> Pod | Unreadable:
        """The same of what was read already."""
        entry = self._entry(found, now=now)
        return entry if isinstance(entry, Pod) else Unreadable(what="the answer describes no pod")

    def _entry(self, entry: Any, *, now: datetime) -> Pod | Undescribed:
        if not isinstance(entry, dict):
            return Undescribed.PERHAPS_OURS
        name, tags = _text(entry.get("name")), self._tags(entry)
        namespaced = name is not None and self._namespaced(name)
        ours = namespaced or tags.owner == self.namespace.owner.name
        key = None if name is None else self._key(entry, name)
        if key is None:
            # Nameless and untagged, nothing shows that it is somebody else's.
            unmarked = name is None and tags.owner is None
            return Undescribed.PERHAPS_OURS if ours or unmarked else Undescribed.FOREIGN
        seen = self._seen(entry, key=key, tags=tags, namespaced=namespaced, now=now)
        return _pod(entry, seen=seen, ours=ours)

    def _alias(self, name: str) -> str | None:
        """The model that a name of ours tells: what stands between the prefix and the request id."""
        alias, _, request = name.removeprefix(self.namespace.prefix).rpartition("-")
        return alias if alias and REQUEST_ID.fullmatch(request) else None

    def _seen(
        self, entry: Mapping[str, Any], *, key: ResourceKey, tags: Tags, namespaced: bool, now: datetime
    ) -> SeenResource:
        word = _text(entry.get("status"))
        state = _state(word)
        gpu, runtime = _object(entry.get("gpu")), _object(entry.get("runtime"))
        return SeenResource(
            key=key,
            tags=tags,
            namespaced=namespaced,
            state=state,
            word=_printable(word or "unsaid"),
            fault=FAULT_WORDS.get(word or "") or _without_cards(entry, state),
            endpoint=self._endpoint(key.incarnation) if state is ProviderState.RUNNING else None,
            created_at=instant(entry.get("createdAt")),
            started_at=self.starts.report(
                key.incarnation,
                said=instant(entry.get("startedAt")),
                uptime=span(runtime.get("uptime")),
                now=now,
            ),
            usd_per_hour=usd(entry.get("cost")),
            offer=_offer(_text(gpu.get("id"))),
            place=_offer(_text(entry.get("dataCenterId"))),
            alias=self._alias(key.name) if namespaced else None,
            cluster=isinstance(entry.get("cluster"), dict),
        )

    def _namespaced(self, name: str) -> bool:
        return name.startswith(self.namespace.prefix) and not name.startswith(self.namespace.foreign_prefixes)

    def _endpoint(self, pod_id: str) -> str | None:
        if PROXIED_ID.fullmatch(pod_id) is None:
            return None
        return self.namespace.proxy_url.replace("{pod}", pod_id).replace("{port}", str(SERVED_PORT)) + "/v1/"

    def _key(self, entry: Mapping[str, Any], name: str) -> ResourceKey | None:
        scope = self.namespace.scope
        try:
            return ResourceKey(
                provider=scope.provider,
                account=scope.account,
                name=key_name(name),
                incarnation=_text(entry.get("id")) or "",
            )
        except InvalidIdentifier:
            return None

    def _tags(self, entry: Mapping[str, Any]) -> Tags:
        name = _text(entry.get("name")) or ""
        if name.startswith(self.namespace.foreign_prefixes):
            return Tags()
        env = _object(entry.get("env"))
        epoch = _text(env.get(TAG_EPOCH)) or ""
        return Tags(
            owner=_tag(env.get(TAG_OWNER)),
            installation=_tag(env.get(TAG_INSTALLATION)),
            epoch=int(epoch) if EPOCH.fullmatch(epoch) else None,
            request=_request(_text(env.get(TAG_REQUEST)) or "") or self._named_request(name),
        )

    def _named_request(self, name: str) -> RequestId | None:
        """The id that the name ends with: it survives an edit of the environment (RP-14)."""
        if not self._namespaced(name):
            return None
        return _request(name.rpartition("-")[2])


def key_name(name: str) -> str:
    """`name` as an exact key holds it: percent-encoded if it is no identifier, and cut by a digest if too long."""
    try:
        return identifier(name)
    except InvalidIdentifier:
        encoded = quote(name, safe="!$&'()*+,;=:@/?", errors="surrogatepass")
        if len(encoded) <= IDENTIFIER_BYTES_MAX:
            return encoded
        digest = hashlib.sha256(encoded.encode()).hexdigest()[:32]
        return f"{encoded[: IDENTIFIER_BYTES_MAX - len(digest)]}{digest}"


def usd(value: Any) -> Decimal | None:
    """A price or rate that makes sense, else None; never a float."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    amount = Decimal(value)
    return amount if amount == 0 or USD_PER_HOUR_MIN <= amount <= USD_PER_HOUR_MAX else None


def following(pagination: Any, *, empty: bool) -> tuple[str | None, str | None]:
    """The cursor of the page after this one, or why that cannot be known.

    A last page that names a next one contradicts itself: the next is read, and an `empty` one that says so is the end.
    Believing the former would make pods absent; refusing both would blind us to an API that always names one.
    """
    if not isinstance(pagination, dict) or not isinstance(pagination.get("hasNextPage"), bool):
        return None, "the listing does not say whether it goes on"
    goes_on, cursor = pagination["hasNextPage"], pagination.get("nextCursor")
    if cursor is not None and not (isinstance(cursor, str) and cursor.isprintable()):  # half a character fits no URL
        return None, "the listing says in no readable way where it goes on"
    if cursor:
        return (cursor if goes_on or not empty else None), None
    return None, "the listing goes on without saying where" if goes_on else None


def _pod(entry: Mapping[str, Any], *, seen: SeenResource, ours: bool) -> Pod:
    gpu = _object(entry.get("gpu"))
    mounts, locked = entry.get("mounts"), entry.get("locked")
    return Pod(
        seen=seen,
        ours=ours,
        plain=seen.state is not None or seen.word in FAULT_WORDS,
        image=_text(entry.get("image")),
        gpu_count=_count(gpu.get("count")),
        disk_gb=_count(entry.get("disk")),
        mounts=mounts if isinstance(mounts, dict) else None,
        cloud=_text(entry.get("cloud")),
        data_center=_text(entry.get("dataCenterId")),
        command=_command(entry),
        locked=locked if isinstance(locked, bool) else None,
    )


def _state(word: str | None) -> ProviderState | None:
    if word in PENDING_WORDS:
        return ProviderState.PENDING
    if word == "RUNNING":
        return ProviderState.RUNNING
    return ProviderState.TERMINATED if word == "TERMINATED" else None


def _without_cards(entry: Mapping[str, Any], state: ProviderState | None) -> StopReason | None:
    """Zero cards, said in one of two ways (RP-48). A missing or null number is unknown and stops nothing."""
    if state not in {ProviderState.PENDING, ProviderState.RUNNING} or isinstance(entry.get("cpu"), dict):
        return None
    if _count(_object(entry.get("gpu")).get("count")) == 0:
        return StopReason.ZERO_GPU
    # While a machine is being made its cards are not listed yet.
    listed = _object(entry.get("runtime")).get("gpus")
    return StopReason.ZERO_GPU if listed == [] and state is ProviderState.RUNNING else None


def _command(entry: Mapping[str, Any]) -> tuple[str, ...] | None:
    entrypoint, arguments = entry.get("entrypoint"), entry.get("cmd")
    if not isinstance(entrypoint, list) or not isinstance(arguments, list):
        return None
    words = [*entrypoint, *arguments]
    return tuple(words) if all(isinstance(word, str) for word in words) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _tag(value: Any) -> str | None:
    try:
        return identifier(value) if isinstance(value, str) else None
    except InvalidIdentifier:
        return None


def _request(text: str) -> RequestId | None:
    return RequestId(text) if REQUEST_ID.fullmatch(text) else None


def _printable(word: str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in word[:WORD_LENGTH_MAX])


def _offer(text: str | None) -> str | None:
    """As it is said, since it is compared with what was ordered; what no order can hold is told by its begin."""
    if text is None or (text.isprintable() and len(text) <= IDENTIFIER_BYTES_MAX):
        return text
    return _printable(text)


def instant(value: Any) -> datetime | None:
    """An RFC 3339 instant in UTC. One without a zone is nobody's time, and one at the calendar's end is none: no
    deadline could be counted from it."""
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
        if instant is None or instant.tzinfo is None or not YEAR_MIN <= instant.year <= YEAR_MAX:
            return None
        return instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def span(value: Any) -> timedelta | None:
    """Whole or broken seconds, up to ten years: beyond it the number is none."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= SPAN_SECONDS_MAX:
        return None
    return timedelta(seconds=float(value))
