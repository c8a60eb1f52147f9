"""What can be said in the config, outside the models?

One class per section, frozen, closed. Each field says what goes wrong when it is set too high or too low. A key whose
name here differs from the one in the file carries it as its alias.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from controller.core.policy import LeaseExpiry, StopEvidence
from controller.settings.values import FLAG, fraction, one_of, span, text, usd, whole, words

CLOSED: Final = ConfigDict(frozen=True, extra="forbid")

FilePath = Annotated[str, text(r"[^\0\n]{1,1024}", "write a path; a relative one starts at the config's folder")]
CredentialName = Annotated[
    str, text(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", "write the credential's name: letters, digits, _ . and -")
]
_URL = r"https?://[A-Za-z0-9.\-\[\]:{}]{1,200}(/[A-Za-z0-9._~\-/{}]{0,200})?"
ADDRESS_SHAPE: Final = r"(\[[0-9a-fA-F:]{2,45}\]|[A-Za-z0-9.\-]{1,253}):[0-9]{1,5}"


class RunpodSection(BaseModel):
    """The account at Runpod."""

    model_config = CLOSED

    api_url: Annotated[str, text(_URL, 'write a URL, as in "https://api.runpod.io/v2"')] = Field(
        default="https://api.runpod.io/v2", alias="base_url"
    )
    """Another address is for emulators: a wrong one makes every listing fail, and nothing starts."""
    proxy_url: Annotated[str, text(_URL, "write a URL that names {pod} and {port}")] = (
        "https://{pod}-{port}.proxy.runpod.net"
    )
    """Where a port of a pod is reached. Wrong: nothing ever gets ready."""
    key_credential: CredentialName | None = None
    """Name of the systemd credential that holds the account's key."""
    key_file: FilePath | None = None
    """File (0600) that holds the account's key."""
    account: Annotated[str, text(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", "write a short name without spaces")] = "main"
    """Our own label for the account, part of each resource's key. Changed: what was recorded is another account's."""
    prefix: Annotated[str, text(r"[a-z0-9][a-z0-9-]{0,31}", "write 1 to 32 of a-z, 0-9 and -")] = "gpuwarden-"
    """Begin of every pod's name. Changed: pods named by the former one are still ours by their tags."""
    foreign_prefixes: Annotated[
        tuple[str, ...], words(r"[!-~]{1,64}", "name prefixes without spaces", least=0, most=64)
    ] = ()
    """Names that begin so are never adopted, swept or stopped; ours may not. Too few: their tags protect them still."""
    allow_community: Annotated[bool, FLAG] = False
    """True: models may ask for cloud_type = "COMMUNITY". Strangers' machines then see weights, requests and keys."""


class GatewaySection(BaseModel):
    """The fixed address."""

    model_config = CLOSED

    listen: Annotated[str, text(ADDRESS_SHAPE, 'write an address and a port, as in "127.0.0.1:8080"')] = (
        "127.0.0.1:8080"
    )
    """Beyond loopback everybody who reaches it can spend: refused there without client keys."""
    keys: Annotated[
        tuple[str, ...],
        words(r"sha256:[0-9a-f]{64}", 'write each key as "sha256:" and its digest in hexadecimal', least=0, most=1024),
    ] = ()
    """Digests of clients' keys that may do everything. None at all, nor handed out: whoever reaches it is served."""
    keys_file: FilePath | None = None
    """The same, one a line, in a file of its own."""
    workers: Annotated[int, whole(1, 64)] = 1
    """Processes that serve. Too low: one core is the limit. Too high: memory, and each proves each machine anew."""
    queue: Annotated[int, whole(1, 4096)] = 64
    """Callers that wait for one model. Too low: bursts are refused while it starts. Too high: memory, stale answers."""
    wait: Annotated[timedelta, span("0s", "30m")] = timedelta(seconds=570)
    """How long a caller is held. Too low: each cold start fails for its caller. Too high: clients give up before."""
    body_limit_mib: Annotated[int, whole(1, 1024)] = 10
    """Largest request, in MiB. Too low: pictures are refused. Too high: a few callers fill the memory."""
    access_log: Annotated[bool, FLAG] = True
    """One line for each request: who, which model, how it ended, how long. Never what was asked or answered."""
    first_byte_limit: Annotated[timedelta, span("1s", "6h")] = timedelta(seconds=600)
    """Until the first byte of an answer. Too low: long answers that are not streamed are cut off. Too high: callers
    wait for a server that hangs."""
    silence_limit: Annotated[timedelta, span("1s", "1h")] = timedelta(seconds=120)
    """Between two bytes of an answer. Too low: a busy server's streams are cut off. Too high: a dead one is noticed
    late. A whole answer has no limit."""


class PolicySection(BaseModel):
    """Rhythms and bounds; the defaults are meant to stay."""

    model_config = CLOSED

    max_active: Annotated[int, whole(1, 4096)] | None = None
    """Machines alive at once, all models together; default: the models' replicas and one. Too low: models wait for each
    other. Too high: a fault may rent as many."""
    max_lifetime: Annotated[timedelta, span("1s", "365d")] = timedelta(days=7)
    """No machine lives longer. Too low: cold starts in the middle of work. Too high: a forgotten one bills on."""
    lease: Annotated[timedelta, span("1s", "1h")] = timedelta(seconds=300)
    """Right to act on a machine. Too low: lost by a short pause. Too high: another daemon takes over late."""
    lease_renewal: Annotated[timedelta, span("100ms", "30m")] = timedelta(seconds=60)
    """Less than half of the lease, else one failed renewal loses it. Too low: needless writes."""
    lease_expiry: Annotated[LeaseExpiry, one_of(*LeaseExpiry)] = LeaseExpiry.REACQUIRE
    """"reacquire-if-unclaimed" goes on where nobody else took over; "stop" ends every machine after a suspend."""
    call_limit: Annotated[timedelta, span("1s", "5m")] = timedelta(seconds=30)
    """One call to the provider. Too low: creates end unanswered and block their model. Too high: stops are late."""
    settle: Annotated[timedelta, span("10s", "1h")] = timedelta(seconds=120)
    """How late the provider's listing may be. Too low: a machine counts as gone, and is paid twice. Too high: delay."""
    orphan_grace: Annotated[timedelta, span("10s", "24h")] = timedelta(seconds=180)
    """Age of an unrecorded machine of ours before its stop. Too low: young ones are hit. Too high: it bills on."""
    listing_fast: Annotated[timedelta, span("1s", "5m")] = timedelta(seconds=15)
    """Listing rhythm while something changes. Too low: rate limits. Too high: slow starts and proofs."""
    listing_steady: Annotated[timedelta, span("1s", "15m")] = timedelta(seconds=60)
    """Listing rhythm while all is steady. Too high: a vanished machine is noticed late."""
    listing_idle: Annotated[timedelta, span("1s", "1h")] = timedelta(seconds=300)
    """Listing rhythm with nothing alive. Too high: an orphan is found late."""
    listing_fast_for: Annotated[timedelta, span("1s", "24h")] = timedelta(seconds=600)
    """How long the fast rhythm lasts after a restart or a failed probe."""
    probe_limit: Annotated[timedelta, span("1s", "1m")] = timedelta(seconds=10)
    """One question to a model server. Too low: busy ones look dead. Too high: hung ones are found late."""
    stop_evidence: Annotated[StopEvidence, one_of(*StopEvidence)] = StopEvidence.VERIFIED
    """"verified" or "accepted"; the latter takes the provider's word for a stop, and what bills on is found late."""
    stop_again_after: Annotated[timedelta, span("1s", "1h")] = timedelta(seconds=60)
    """An accepted stop is repeated while its machine is still seen. Too high: it bills meanwhile."""
    stop_alarm_after: Annotated[timedelta, span("1s", "24h")] = timedelta(seconds=300)
    """Age of an unproven stop that raises an alarm. Too high: money runs unnoticed."""
    stop_backoff_max: Annotated[timedelta, span("1s", "10m")] = timedelta(seconds=60)
    """Longest pause between two tries to stop. Too high: a recovered provider is asked late."""
    stop_retry_after_max: Annotated[timedelta, span("1s", "1h")] = timedelta(seconds=300)
    """Longest pause that the provider may ask for before a stop is tried again."""
    drain_limit: Annotated[timedelta, span("0s", "6h")] = timedelta(minutes=10)
    """For machines of a removed model: open requests may end so long. Too low: cut answers. Too high: cost."""
    stream_lease: Annotated[timedelta, span("3s", "10m")] = timedelta(seconds=30)
    """How long a gateway's word about open requests holds. Too low: a pause looks idle. Too high: late idle stops."""
    stream_lease_renewal: Annotated[timedelta, span("100ms", "5m")] = timedelta(seconds=10)
    """Less than half of the stream lease."""
    claim_silence: Annotated[timedelta, span("1m", "24h")] = timedelta(minutes=15)
    """How long another installation must be silent before its machines may be claimed. Too low: two daemons fight."""
    round_gap: Annotated[timedelta, span("1s", "1h")] = timedelta(seconds=30)
    """Between two rounds in which every GPU type was refused. Too low: rate limits. Too high: waiting callers."""
    hung_after: Annotated[timedelta, span("1m", "24h")] = timedelta(minutes=5)
    """A server whose counts stand still so long under open requests is asked for one token, and stopped if none comes.
    Too low: needless questions. Too high: a hung engine bills on."""
    stall_after: Annotated[timedelta, span("1m", "24h")] = timedelta(minutes=10)
    """Several cards that log nothing but waiting for each other so long are stopped. Too low: slow compiles are hit."""
    hold_first: Annotated[timedelta, span("1s", "24h")] = timedelta(minutes=10)
    """A model rests so long after its second failed start. Too low: a broken one burns a start each time."""
    hold_max: Annotated[timedelta, span("1s", "7d")] = timedelta(hours=6)
    """The rest doubles up to this."""
    failed_starts_limit: Annotated[int, whole(1, 100)] = 2
    """Failed starts in a row before a model rests. Too high: each one is paid for."""
    starts_per_hour: Annotated[int, whole(1, 1000)] = 4
    """Starts of one model in an hour. Too low: frequent pauses end in refusals. Too high: a loop is expensive."""
    starts_per_day: Annotated[int, whole(1, 10000)] = 12
    """Starts of one model in a day."""


class AlarmsSection(BaseModel):
    """Who is told."""

    model_config = CLOSED

    webhook_credential: CredentialName | None = None
    """Name of the systemd credential that holds the address to post alarms to."""
    webhook_file: FilePath | None = None
    """File (0600) that holds that address: whoever knows it can post there."""
    repeat_after: Annotated[timedelta, span("1m", "7d")] = timedelta(hours=1)
    """A lasting alarm is told again. Too low: nobody reads them any more. Too high: it is forgotten."""


UsdPerDay = Annotated[Decimal, usd(1_000_000)]
UsdPerHour = Annotated[Decimal, usd(10_000)]
Gigabytes = Annotated[Decimal, fraction("0.001", "20000")]
