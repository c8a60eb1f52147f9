"""Does a check tell what an hour of each machine costs, who said so, and what is not known?

The provider is the emulator on a loopback socket, the daemon is a stub on its own.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from controller.demo.stage import CONFIG as DEMO
from controller.emulators.runpod import Emulator, build_app
from controller.emulators.runpod import Settings as Behaviour
from controller.emulators.serve import open_listener, serve
from tests.cli.conftest import Ended, Run
from tests.cli.fake_daemon import GARBLED, FakeDaemon
from tests.cli.test_config_check import EXAMPLE, SIZED, columns
from tests.test_settings import SHORT

KEY = "rpa_ACCOUNT_CANARY"
HUB = "http://127.0.0.1:9"
"""Nobody is there."""
DATED = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"
PRICES: dict[str, Any] = {
    "schema": 1,
    "priced_at": "2026-11-29T08:30:00.000Z",
    "card_usd_per_hour": {"NVIDIA L40S": "0.5", "NVIDIA A40": "0.25"},
}


@dataclass
class Provider:
    emulator: Emulator
    url: str = ""

    def price(self, gpu: str, usd: float) -> None:
        self.emulator.change_settings({"prices": {**self.emulator.settings.prices, gpu: {"secure": usd}}})

    def answers(self, path: str, **do: Any) -> None:
        self.emulator.add_faults([{"match": {"path": path}, "do": do}])

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(call["method"], call["path"]) for call in self.emulator.truth()["calls"]]


@contextmanager
def reachable(provider: Provider) -> Iterator[None]:
    listener = open_listener("127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with start_blocking_portal() as portal:
        served = portal.start_task_soon(partial(serve, build_app(provider.emulator), listen=listener))
        try:
            yield
        finally:
            served.cancel()


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    made = Provider(Emulator(settings=Behaviour(api_key=KEY)))
    with reachable(made):
        made.price("NVIDIA L40S", 0.86)
        made.price("NVIDIA A40", 0.44)
        monkeypatch.setenv("GPUWARDEN_RUNPOD__BASE_URL", f"{made.url}/v2")
        yield made


@dataclass
class Check:
    run: Run
    folder: Path
    files: dict[str, str] = field(default_factory=lambda: {"runpod": KEY, "qwen": "a-key"})

    def keys(self) -> None:
        (self.folder / "keys").mkdir(exist_ok=True)
        for name, secret in self.files.items():
            (self.folder / "keys" / name).write_text(secret)
            (self.folder / "keys" / name).chmod(0o600)

    def write(self, text: str) -> None:
        (self.folder / "config.toml").write_text(text)

    def told(self, *more: str) -> Ended:
        return self.run("config", "check", "--hub", HUB, *more)

    def online(self) -> Ended:
        return self.told("--online")

    def sizing(self, *more: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.told("--json", *more).out)["models"][0]["sizing"]
        return found


@pytest.fixture
def check(run: Run, folder: Path) -> Check:
    made = Check(run, folder)
    made.keys()
    made.write(f"{SHORT}model_size_gb = 16.4\n")
    return made


def source(ended: Ended) -> str:
    """What stands under the table."""
    (found,) = re.findall(r"^prices +(.*)$", ended.out, re.MULTILINE)
    return str(found)


def test_the_catalog_prices_every_declared_type_and_the_worst_start(check: Check, provider: Provider) -> None:
    ended = check.online()
    money = columns(ended, "disk")
    assert ended.code == 0
    assert money["$/h in the catalog"] == "NVIDIA L40S $0.86, NVIDIA A40 $0.44"
    # The dearest and its disk, for the 34m36s that the start may take.
    assert (money["$/h at most"], money["a start costs at most"]) == ("the catalog's", "$0.51")
    assert re.fullmatch(f"the provider's catalog, asked {DATED}", source(ended))


def test_asking_for_prices_only_reads_the_catalog(check: Check, provider: Provider) -> None:
    check.online()
    assert {(method, path.partition("?")[0]) for method, path in provider.calls} == {("GET", "/v2/catalog/gpus")}
    assert provider.emulator.truth()["pods"] == []


def test_nobody_is_asked_for_prices_unless_told_to(check: Check, provider: Provider) -> None:
    ended = check.told()
    assert (ended.code, provider.calls) == (0, [])
    assert columns(ended, "disk")["$/h in the catalog"] == "unknown"
    assert columns(ended, "disk")["a start costs at most"] == "the day's limit"
    assert source(ended) == "not known here: `gpuwarden config check --online` asks the provider"


def test_a_machine_of_several_cards_costs_as_many_prices(check: Check, provider: Provider) -> None:
    check.write(f"{SHORT}model_size_gb = 16.4\ngpu_count = 2\n")
    assert columns(check.online(), "disk")["$/h in the catalog"] == "NVIDIA L40S $1.72, NVIDIA A40 $0.88"


def test_a_model_for_the_other_cloud_is_told_the_price_there(check: Check, provider: Provider) -> None:
    provider.emulator.change_settings({"prices": {"NVIDIA L40S": {"secure": 0.86, "community": 0.79}}})
    more = 'cloud_type = "COMMUNITY"\n[runpod]\nallow_community = true\n'
    check.write(f"{SHORT}{more}".replace(', "NVIDIA A40"', ""))
    assert columns(check.online(), "disk")["$/h in the catalog"] == "NVIDIA L40S $0.79"


def test_the_ceiling_stays_beside_the_price(check: Check, provider: Provider) -> None:
    check.write(SIZED)
    money = columns(check.online(), "disk")
    assert (money["$/h in the catalog"], money["$/h at most"]) == ("NVIDIA L40S $0.86, NVIDIA A40 $0.44", "$0.99")
    assert money["a start costs at most"] == "$0.58, and $0.51 at the catalog's price"


@pytest.mark.parametrize(("most", "warned"), [("0.44", False), ("0.43", True)])
def test_a_ceiling_below_every_declared_type_is_warned_of(
    check: Check, provider: Provider, most: str, warned: bool
) -> None:
    check.write(f"{SHORT}max_usd_per_hour = {most}\n")
    ended = check.online()
    words = f"qwen: every declared type costs more than max_usd_per_hour = {most} (NVIDIA L40S $0.86, NVIDIA A40 $0.44)"
    assert (ended.code, words in ended.err) == (0, warned)


def test_what_costs_more_than_the_ceiling_is_not_what_a_start_costs(check: Check, provider: Provider) -> None:
    """It would be stopped again; the next type is what stays."""
    check.write(f"{SHORT}max_usd_per_hour = 0.5\n")
    assert columns(check.online(), "disk")["a start costs at most"] == "$0.50, and $0.46 at the catalog's price"


def test_scripts_get_the_prices_with_their_source_and_date(check: Check, provider: Provider) -> None:
    check.write(SIZED)
    found = check.sizing("--online")
    assert {card["gpu"]: card["usd_per_hour"] for card in found["cards"]} == {
        "NVIDIA L40S": "0.86",
        "NVIDIA A40": "0.44",
    }
    shown = {name: found[name] for name in ("usd_per_hour", "usd_per_hour_max", "cold_start_usd", "cold_start_usd_max")}
    assert shown == {
        "usd_per_hour": "0.86", "usd_per_hour_max": "0.99", "cold_start_usd": "0.51", "cold_start_usd_max": "0.58",
    }  # fmt: skip
    assert (found["price_source"], found["priced_at"][-5:]) == ("catalog", ".000Z")


def test_what_nobody_told_is_null_for_scripts(check: Check) -> None:
    found = check.sizing()
    names = ("usd_per_hour", "price_source", "priced_at", "cold_start_usd")
    assert [found[name] for name in names] == [None] * 4
    assert [card["usd_per_hour"] for card in found["cards"]] == [None, None]


def test_without_the_catalog_the_daemons_last_prices_are_told_with_their_date(check: Check, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/prices", PRICES)
    check.write(f"{SHORT}model_size_gb = 16.4\ngpu_count = 2\n")
    ended = check.told()
    assert columns(ended, "disk")["$/h in the catalog"] == "NVIDIA L40S $1.00, NVIDIA A40 $0.50"
    assert source(ended) == "as the daemon last read them from the provider's catalog, 2026-11-29 08:30 UTC"
    found = check.sizing()
    assert (found["price_source"], found["priced_at"]) == ("daemon", PRICES["priced_at"])
    assert (found["usd_per_hour"], found["cold_start_usd"]) == ("1", "0.59")


def test_the_catalog_stands_above_what_the_daemon_read(check: Check, daemon: FakeDaemon, provider: Provider) -> None:
    daemon.will("GET /v1/prices", PRICES)
    assert check.sizing("--online")["usd_per_hour"] == "0.86"


@pytest.mark.parametrize(
    "answer",
    [
        GARBLED,
        (404, {"status": 404, "code": "not_found", "detail": "nothing there"}),
        PRICES | {"priced_at": None},
        PRICES | {"priced_at": "yesterday"},
        PRICES | {"priced_at": "2026-11-29T08:30:00"},
        PRICES | {"card_usd_per_hour": None},
        PRICES | {"card_usd_per_hour": {"NVIDIA H100": "3"}},
        PRICES | {"card_usd_per_hour": {"NVIDIA L40S": "dear", "NVIDIA A40": 0.25}},
        PRICES | {"card_usd_per_hour": {"NVIDIA L40S": "NaN", "NVIDIA A40": "-1"}},
        PRICES | {"card_usd_per_hour": {"NVIDIA L40S": "0", "NVIDIA A40": "1e30"}},
    ],
)
def test_a_daemon_that_tells_nothing_usable_leaves_prices_unknown(
    check: Check, daemon: FakeDaemon, answer: Any
) -> None:
    daemon.will("GET /v1/prices", answer)
    ended = check.told()
    assert (ended.code, columns(ended, "disk")["$/h in the catalog"]) == (0, "unknown")
    assert source(ended).startswith("not known here")


def test_a_type_without_a_price_is_named(check: Check, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/prices", PRICES | {"card_usd_per_hour": {"NVIDIA A40": "0.25"}})
    ended = check.told()
    assert columns(ended, "disk")["$/h in the catalog"] == "NVIDIA A40 $0.25"
    assert "qwen: no price of NVIDIA L40S is known" in ended.err


def test_a_type_that_the_catalog_does_not_have_is_told_as_the_alarm_tells_it(check: Check, provider: Provider) -> None:
    check.write(SHORT.replace("NVIDIA L40S", "L40S"))
    ended = check.online()
    assert ended.code == 0
    told = 'models.qwen.gpus: the provider\'s catalog has no "L40S" (did you mean "NVIDIA L40S"'
    assert told in ended.err
    assert any(note.startswith(told) for note in json.loads(check.told("--online", "--json").out)["notes"])


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ({"answer": 500}, "the answer makes no sense (HTTP 500)"),
        ({"answer": 200, "body": "no json"}, "the answer makes no sense (the answer has no list of GPU types)"),
        ({"answer": 200, "body": '{"gpus": 7}'}, "the answer makes no sense (the answer has no list of GPU types)"),
        ({"answer": 200, "body": "[]"}, "the answer makes no sense (the answer has no list of GPU types)"),
        ({"answer": 429}, "it asks us to wait ("),
        ({"answer": 401}, "the key is not accepted (HTTP 401)"),
        ({"drop": "before"}, "no answer came ("),
    ],
)
def test_a_broken_answer_is_told_and_changes_nothing_else(
    check: Check, daemon: FakeDaemon, provider: Provider, do: dict[str, Any], why: str
) -> None:
    daemon.will("GET /v1/prices", PRICES)
    provider.answers("/v2/catalog/gpus", **do)
    ended = check.online()
    assert ended.code == 0
    assert f"the provider's catalog told no prices for qwen: {why}" in ended.err
    assert "`gpuwarden doctor` says more" in ended.err
    assert source(ended).startswith("as the daemon last read them"), "the next best word is taken"


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [7, None, {"id": 3}, {"name": "NVIDIA L40S"}],
        [{"id": "NVIDIA L40S"}, {"id": "NVIDIA A40", "price": 3}],
        [{"id": "NVIDIA L40S", "price": {"secure": 0}}, {"id": "NVIDIA A40", "price": {"secure": "0.44"}}],
        [{"id": "NVIDIA L40S", "price": {"secure": -1}}, {"id": "NVIDIA A40", "price": {"secure": 10**30}}],
    ],
)
def test_prices_that_make_no_sense_are_none(check: Check, provider: Provider, entries: list[Any]) -> None:
    provider.answers("/v2/catalog/gpus", answer=200, body=json.dumps({"gpus": entries}))
    ended = check.online()
    assert (ended.code, columns(ended, "disk")["$/h in the catalog"]) == (0, "unknown")
    assert "the provider's catalog has no price of any type that qwen names" in ended.err
    assert source(ended) == "not known here"


def test_without_a_key_the_provider_is_not_asked_and_that_is_told(check: Check, provider: Provider) -> None:
    (check.folder / "keys" / "runpod").unlink()
    before, ended = check.told(), check.online()
    assert (ended.code, provider.calls) == (before.code, [])
    assert "the provider was not asked for prices, as there is no key: " in ended.err
    assert "keys/runpod: the account's key is missing" in ended.err


def test_a_provider_that_nobody_reaches_is_told(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUWARDEN_RUNPOD__BASE_URL", f"{HUB}/v2")
    ended = check.online()
    assert (ended.code, "told no prices for qwen: no answer came (" in ended.err) == (0, True)


def test_the_key_is_in_nothing_that_is_printed(check: Check, provider: Provider) -> None:
    provider.answers("/v2/catalog/gpus", answer=401, body=json.dumps({"detail": f"{KEY} is no good"}))
    ended = check.online()
    assert KEY not in ended.out + ended.err


def test_the_example_is_priced(check: Check, provider: Provider) -> None:
    shutil.copyfile(EXAMPLE, check.folder / "config.toml")
    ended = check.online()
    assert (ended.code, columns(ended, "disk")["$/h in the catalog"]) == (0, "NVIDIA L40S $0.86, NVIDIA A40 $0.44")


def test_the_demos_config_is_priced(check: Check, provider: Provider) -> None:
    port = provider.url.rpartition(":")[2]
    numbers = {"installation": "x", "folder": check.folder, "emulator": port, "gateway": 8080, "alias": "tiny"}
    check.write(DEMO.format(**numbers))
    check.files |= {"tiny": "a-key"}
    check.keys()
    ended = check.online()
    assert (ended.code, columns(ended, "disk")["$/h in the catalog"]) == (0, "NVIDIA L40S $0.86, NVIDIA A40 $0.44")


def test_models_told_by_different_sources_are_told_apart(check: Check, daemon: FakeDaemon, provider: Provider) -> None:
    daemon.will("GET /v1/prices", PRICES)
    second = '[models.other]\nmodel = "Qwen/Qwen3-8B"\nimage = "vllm/vllm-openai:v0.31.0"\ngpus = ["NVIDIA X"]\n'
    check.write(f"{SHORT}{second}context = 32768\n")
    ended = check.online()
    assert re.search(f"^prices +qwen: the provider's catalog, asked {DATED}$", ended.out, re.MULTILINE)
    assert re.search("^prices +other: not known here$", ended.out, re.MULTILINE)
