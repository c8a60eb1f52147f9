"""Does each kind of trouble really happen, and is it over when the run is made honest?

Each alone: what a caller of the provider sees, what the machine does, before, while it lasts and after.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from controller.emulators.runpod.pods import Pod, status
from controller.emulators.runpod.windows import QUOTAS
from tests.simulation import (
    card_faults,
    config_faults,
    machine_faults,
    operators,
    pod_faults,
    provider_faults,
    queue_faults,
    quota_faults,
)
from tests.simulation.excuses import GATEWAY_SILENT, JUSTIFY, LYING, OUT_OF_REACH
from tests.simulation.machine import Machine
from tests.simulation.plan import FURTHER, KINDS, Plan, plan, settle_in
from tests.simulation.playing import playing
from tests.simulation.stage import Stage
from tests.simulation.town import ACCOUNT_KEY, OWNER, Town
from tests.simulation.wires import Outside

SEED = 7
TAGS = {"GPUWARDEN_OWNER": OWNER, "GPUWARDEN_INSTALLATION": "i", "GPUWARDEN_REQUEST": "r"}
POD: dict[str, Any] = {
    "name": "gpuwarden-m1-x",
    "image": "vllm/vllm-openai:v0.31.0",
    "gpu": {"id": "NVIDIA A40", "count": 1},
    "ports": ["8000/http"],
    "args": "org/m1 --served-model-name m1",
    "env": TAGS | {"VLLM_API_KEY": "{{ RUNPOD_SECRET_vllm_m1 }}"},
}


@pytest.fixture(autouse=True)
def play_in_this_process() -> Iterator[None]:
    with playing():
        yield


class Play:
    """A town in which nothing happens by itself, and a caller who looks."""

    def __init__(self, folder: Path, *, daemon: bool = False) -> None:
        self.town = Town(folder, seed=SEED, models=("m1", "m2"))
        if daemon:
            settle_in(self.town)
        else:
            self.town.machine()
        self.plan: Plan = plan(self.town, SEED, 0)
        self.stage: Stage = self.plan.stage
        self.plan.clients.go()
        self.provider = self.town.provider

    @property
    def machine(self) -> Machine:
        return self.stage.main

    def put(self, **more: Any) -> Pod:
        """A pod of ours that is up."""
        pod = self.provider.pods[self.provider.put_pod(POD | more)]
        self.wait(120)
        return pod

    def wait(self, seconds: float) -> None:
        kernel = self.town.kernel
        end = kernel.time + seconds
        kernel.at(end, lambda: None)
        kernel.run(until=lambda: kernel.time >= end, limit=end + 1)

    def until(self, holds: Callable[[], Any], within: float) -> None:
        self.town.kernel.run(until=lambda: bool(holds()), limit=self.town.kernel.time + within)

    def see(self, method: str, path: str, **options: Any) -> str:
        """What a call to the provider comes to, within 40 s."""
        said: list[str] = []

        async def ask() -> None:
            transport = Outside(self.town.clients, self.machine.provider)
            headers = {"authorization": f"Bearer {ACCOUNT_KEY}", "user-agent": "tests"}
            async with httpx.AsyncClient(transport=transport, base_url="http://provider", headers=headers) as client:
                try:
                    with anyio.fail_after(40):
                        answer = await client.request(method, path, **options)
                    said.append(f"{answer.status_code} {answer.text}")
                except (httpx.HTTPError, TimeoutError) as error:
                    said.append(type(error).__name__)

        self.town.clients.start(ask())
        self.until(lambda: said, within=41)
        return said[0]

    def begin(self, kind: str, seed: int = SEED) -> bool:
        return KINDS[kind].act(self.stage, random.Random(seed))

    def spans(self, kind: str) -> list[tuple[str | None, bool]]:
        """Of what, and whether it is over."""
        return [(span.subject, span.ends is not None) for span in self.town.staged.spans if span.kind == kind]

    def be_honest(self) -> None:
        self.plan.make_honest()
        self.wait(40)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def alive(play: Play) -> int:
    return len(play.town.alive())


CALLS: dict[str, tuple[str, str]] = {
    "create": ("POST", "/v2/pods"),
    "listing": ("GET", "/v2/pods"),
    "read": ("GET", "/v2/pods/{pod}"),
    "delete": ("DELETE", "/v2/pods/{pod}"),
    "proxy": ("GET", "/proxy/{pod}/8000/health"),
    "queue": ("GET", "/v2/queued-pods"),
    "bill": ("GET", "/v2/billing/pods"),
}


def call_for(kind: str) -> str:
    word = kind.partition("-")[0]
    return word if word in CALLS else "listing"


BY_RULE = sorted(
    set(provider_faults.KINDS)
    - {"listing-lags", "read-lags", "stop-lags", "env-hidden", "env-resolved", "listing-paged", "provider-clock-off"}
)


@pytest.mark.parametrize("kind", BY_RULE)
def test_call_goes_wrong_as_its_kind_says_and_right_again(kind: str, folder: Path) -> None:
    play = Play(folder)
    pod = play.put()
    method, path = CALLS[call_for(kind)]
    options = {"json": POD} if method == "POST" else {}
    assert play.begin(kind)
    seen = play.see(method, path.format(pod=pod.id), **options)
    made = alive(play) - 1
    play.be_honest()
    assert {over for _, over in play.spans(kind)} == {True}
    assert WRONG[kind](seen, made, pod), (seen, made)
    after = play.see("GET", "/v2/pods")
    assert after.startswith("200") and after.count('"createdAt"') == alive(play)


def failed(seen: str, _: int, __: Pod) -> bool:
    return not seen.startswith("2") or "<html>" in seen


def unreadable(seen: str, *_: object) -> bool:
    return not seen.startswith("2") or '"createdAt"' not in seen


WRONG: dict[str, Callable[[str, int, Pod], bool]] = dict.fromkeys(BY_RULE, failed) | {
    "create-lost": lambda seen, made, _: not seen.startswith("2") and made == 0,
    "create-lost-made": lambda seen, made, _: not seen.startswith("2") and made == 1,
    "create-late": lambda seen, made, _: seen == "TimeoutError" or made == 1,
    "create-refused": lambda seen, made, _: seen.startswith("4") and made == 0,
    "create-malformed": lambda seen, made, _: unreadable(seen) and made == 1,
    "create-queued": lambda seen, made, _: not seen.startswith("201") and made == 0,
    "queue-unread": lambda seen, *_: not seen.startswith("200") or '"queuedPods"' not in seen,
    "bill-unread": lambda seen, *_: not seen.startswith("200") or '"records"' not in seen,
    "create-ignored": lambda seen, made, _: seen.startswith("201") and made == 0,
    "listing-partial": lambda seen, _, pod: seen.startswith("200") and pod.id not in seen,
    "listing-empty": lambda seen, _, pod: seen.startswith("200") and pod.id not in seen,
    "listing-doubled": lambda seen, _, __: seen.count('"createdAt"') == 2,
    "listing-spoilt": unreadable,
    "read-denied": lambda seen, _, __: seen.startswith("404"),
    "read-spoilt": unreadable,
    "delete-ignored": lambda seen, _, pod: seen.startswith("204") and pod.alive,
    "delete-conflict": lambda seen, _, pod: seen.startswith("409") and pod.alive,
    "delete-late": lambda seen, _, pod: seen == "TimeoutError" or not pod.alive,
    "delete-spoilt": lambda seen, _, pod: not seen.startswith("204") and not pod.alive,
}

SETTINGS = {
    "listing-lags": "list_lag_seconds",
    "read-lags": "get_lag_seconds",
    "stop-lags": "stop_lag_seconds",
    "listing-paged": "page_size",
    "env-hidden": "echo_env",
    "env-resolved": "echo_env",
    "provider-clock-off": "clock_offset_seconds",
    "starts-slow": "ready_seconds",
    "starts-unready": "upstream",
    "starts-crashing": "upstream",
    "starts-out-of-memory": "upstream",
    "image-missing": "boot_seconds",
    "said-early": "provisioning",
    "secret-unsubstituted": "substitute_secrets",
    "no-stock": "stock",
    "no-balance": "balance",
    "price-jump": "price_jump",
    "made-otherwise": "made_otherwise",
    "place-sold-out": "sold_out",
    "place-bad": "bad_places",
    "dearer": "prices",
    "quota-eaten": "quotas",
}


def test_settings_are_otherwise_for_a_while_and_then_as_before(folder: Path) -> None:
    play = Play(folder)
    before = {key: getattr(play.provider.settings, key) for key in SETTINGS.values()}
    for kind, key in SETTINGS.items():
        assert play.begin(kind)
        assert getattr(play.provider.settings, key) != before[key], kind
    play.be_honest()
    assert {key: getattr(play.provider.settings, key) for key in SETTINGS.values()} == before
    assert all(play.spans(kind) == [(None, True)] for kind in SETTINGS)


def test_who_eats_the_calls_of_an_account_leaves_those_for_stops_and_goes_away(folder: Path) -> None:
    play = Play(folder)
    pod = play.put()

    def left() -> int:
        return play.provider.counted.left(play.provider.settings.quotas, play.provider.now())["minute"]

    assert play.begin("quota-eaten")
    for _ in range(3):
        play.until(lambda: left() == quota_faults.SPARED["minute"], within=120)
        assert left() == quota_faults.SPARED["minute"]
        play.wait(60)
    play.until(lambda: left() == quota_faults.SPARED["minute"], within=120)
    assert play.see("DELETE", f"/v2/pods/{pod.id}").startswith("204")
    play.be_honest()
    play.wait(60)
    for _ in range(20):
        play.wait(13)
        assert left() == QUOTAS["minute"]


def test_an_empty_account_ends_what_bills(folder: Path) -> None:
    play = Play(folder)
    play.put()
    play.begin("no-balance", seed=1)
    play.wait(3600)
    assert alive(play) == 0


POD_CHANGES: dict[str, Callable[[Play, Pod], object]] = {
    "pod-exited": lambda play, pod: status(pod, play.provider.now()) == "EXITED",
    "pod-error": lambda play, pod: status(pod, play.provider.now()) == "ERROR",
    "pod-odd-status": lambda play, pod: status(pod, play.provider.now()) != "RUNNING",
    "pod-zero-gpu": lambda play, pod: pod.gpu_count == 0,
    "cost-raised": lambda play, pod: pod.usd_per_hour != 0.4,
    "server-crashing": lambda play, pod: pod.upstream.crash_every is not None,
    "server-respawns": lambda play, pod: pod.upstream.respawn_every is not None,
    "server-hung": lambda play, pod: pod.upstream.state == "hung",
    "server-refuses-key": lambda play, pod: pod.upstream.state == "refusing-key",
    "server-wrong-model": lambda play, pod: pod.upstream.state == "wrong-model",
    "server-open": lambda play, pod: pod.upstream.state == "open",
    "server-dies": lambda play, pod: pod.upstream.die_after_chunks is not None,
    "bills-on": lambda play, pod: pod.bills_on,
}


@pytest.mark.parametrize("kind", POD_CHANGES)
def test_pod_is_otherwise_for_a_while(kind: str, folder: Path) -> None:
    play = Play(folder)
    pod = play.put()
    assert not POD_CHANGES[kind](play, pod)
    assert play.begin(kind)
    assert POD_CHANGES[kind](play, pod)
    play.be_honest()
    assert not POD_CHANGES[kind](play, pod)
    assert play.spans(kind) == [(pod.id, True)]


POD_EVENTS: dict[str, Callable[[Play, Pod], object]] = {
    "pod-vanished": lambda play, pod: not pod.alive,
    "console-delete": lambda play, pod: not pod.alive,
    "console-stop": lambda play, pod: pod.stated == "EXITED",
    "console-restart": lambda play, pod: not pod.boot.first,
    "pod-restarted": lambda play, pod: not pod.boot.first,
    "pod-locked": lambda play, pod: pod.locked,
    "pod-terminated": lambda play, pod: not pod.alive and "TERMINATED" in play.see("GET", f"/v2/pods/{pod.id}"),
    "log-speaks": lambda play, pod: "NCCL" in pod.log[1][2],
    "pod-migrated": lambda play, pod: not pod.alive and play.town.alive()[0].env == pod.env,
    "pod-cloned": lambda play, pod: [other.env for other in play.town.alive()] == [pod.env, pod.env],
}


@pytest.mark.parametrize("kind", POD_EVENTS)
def test_something_befalls_a_pod(kind: str, folder: Path) -> None:
    play = Play(folder)
    pod = play.put()
    assert play.begin(kind)
    assert POD_EVENTS[kind](play, pod)
    assert play.town.staged.counts[kind] >= 1


def test_foreign_pods_come_and_go(folder: Path) -> None:
    play = Play(folder)
    assert play.begin("foreign-pod")
    assert (alive(play), play.stage.ours()) == (1, [])
    play.be_honest()
    assert alive(play) == 0


def test_what_needs_a_pod_waits_until_there_is_one(folder: Path) -> None:
    play = Play(folder)
    play.stage.attempt(KINDS["pod-vanished"].act, random.Random(SEED))
    play.wait(600)
    play.put()
    play.wait(3600)
    assert (play.town.staged.counts["pod-vanished"], alive(play)) == (1, 0)


def test_troubles_that_overlap_end_one_by_one(folder: Path) -> None:
    play = Play(folder)
    first = play.stage.setting("listing-paged", {"page_size": 2}, lasts=100)
    play.stage.setting("listing-paged", {"page_size": 1}, lasts=200)
    play.stage.end(first)
    assert play.provider.settings.page_size == 1
    play.wait(201)
    assert play.provider.settings.page_size == 1000


def test_rule_that_is_used_up_is_over(folder: Path) -> None:
    play = Play(folder)
    play.put()
    play.begin("create-ignored")
    for _ in range(3):
        play.see("POST", "/v2/pods", json=POD)
    play.wait(120)
    assert play.spans("create-ignored") == [(None, True)]


def test_a_kind_that_is_left_out_moves_no_other(folder: Path) -> None:
    times = []
    for name, without in (("one", ()), ("other", ("pod-exited", "outage-hang"))):
        (folder / name).mkdir()
        town = Town(folder / name, seed=SEED)
        town.machine()
        plan(town, SEED, 2000, without=without, only=("outage-error", "pod-exited", "outage-hang", "suspend"))
        times.append({at for at, _, _ in vars(town.kernel)["_events"]})
    assert times[1] < times[0]


def test_excuses_name_kinds_that_there_are() -> None:
    named = LYING | OUT_OF_REACH | GATEWAY_SILENT | set().union(*JUSTIFY.values())
    assert named <= set(KINDS) | set(FURTHER)


def test_every_kind_is_tried_alone() -> None:
    tried = {*BY_RULE, *SETTINGS, *POD_CHANGES, *POD_EVENTS, "foreign-pod", *queue_faults.KINDS, *card_faults.KINDS}
    assert tried >= set(provider_faults.KINDS) | set(pod_faults.KINDS) | set(queue_faults.KINDS)
    assert set(KINDS) - tried <= set(machine_faults.KINDS) | set(config_faults.KINDS) | set(operators.KINDS)
