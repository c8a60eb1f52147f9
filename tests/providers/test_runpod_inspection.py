"""What does an examination of the account make of answers, good and odd?"""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest

from controller.providers.inspecting import Failed, Funds, Offer, Stock, Trouble
from controller.providers.runpod.account import Account, open_api
from controller.providers.runpod.inspection import NOBODYS, Need, RunpodInspection, graphql_address
from controller.providers.runpod.order import Cloud
from tests.support.loop_clock import HandClock
from tests.support.runpod_samples import API_KEY, KEY, POD_ID
from tests.support.scripted_runpod import answer, problem

Asked = Callable[[RunpodInspection], Awaitable[object]]
NEED = Need(cards=2, cloud=Cloud.COMMUNITY, places=("EU-RO-1", "US-KS-2"))
WORDS = "CANARY in the provider's words"


class Scripted:
    """Gives one reply to whatever is asked, and keeps the requests."""

    def __init__(self, reply: httpx.Response | Exception, *, need: Need = NEED) -> None:
        self.requests: list[httpx.Request] = []
        self._reply = reply
        clock = HandClock()
        transport = httpx.MockTransport(self._answer)
        api = Account(open_api(key=API_KEY, api_url="https://api.example/v2", transport=transport), clock=clock)
        address = graphql_address("https://api.example/v2")
        door = Account(open_api(key=API_KEY, api_url=address, transport=transport), clock=clock)
        self.inspection = RunpodInspection(api, old_door=door, needs={"qwen": need})

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if isinstance(self._reply, Exception):
            raise self._reply
        reply = self._reply
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


QUESTIONS: dict[str, Asked] = {
    "GET /v2/pods?limit=1": lambda asked: asked.greet(),
    "GET /v2/billing/pods?bucketSize=hour&lastN=1": lambda asked: asked.open_billing(),
    f"GET /v2/pods/{NOBODYS}/logs?tail=1": lambda asked: asked.open_log(None),
    f"GET /v2/pods/{POD_ID}/logs?tail=1": lambda asked: asked.open_log(KEY),
    "GET /v2/account/secrets": lambda asked: asked.read_secret_names(),
    "GET /v2/registries": lambda asked: asked.read_registries(),
    "GET /v2/catalog/gpus": lambda asked: asked.read_types(),
    "GET /v2/catalog/gpus?include=AVAILABILITY&product=POD&cloud=COMMUNITY&count=2": lambda asked: asked.read_offers(
        "qwen"
    ),
    "POST /graphql": lambda asked: asked.read_funds(),
}
FAILURES: list[tuple[httpx.Response | Exception, Trouble]] = [
    (problem(401, WORDS), Trouble.CREDENTIAL),
    (problem(403, WORDS), Trouble.PERMISSION),
    (httpx.Response(403, text="error code: 1010"), Trouble.ODD),
    (problem(429, WORDS), Trouble.HELD_BACK),
    (problem(500, WORDS), Trouble.ODD),
    (httpx.Response(302, headers={"location": "https://elsewhere.example"}), Trouble.ODD),
    (httpx.ConnectError("nobody"), Trouble.SILENT),
    (httpx.ReadError("broken"), Trouble.SILENT),
]


@pytest.mark.parametrize("call", QUESTIONS)
@pytest.mark.parametrize(("reply", "trouble"), FAILURES)
async def test_every_question_is_one_read_and_every_failure_has_its_kind(
    call: str, reply: httpx.Response | Exception, trouble: Trouble
) -> None:
    scripted = Scripted(reply)
    failed = await QUESTIONS[call](scripted.inspection)
    assert isinstance(failed, Failed)
    assert (failed.trouble, "CANARY" in failed.text) == (trouble, False)
    assert [f"{request.method} {request.url.raw_path.decode()}" for request in scripted.requests] == [call]
    assert scripted.requests[0].headers["authorization"] == f"Bearer {API_KEY}"
    if call.startswith("POST"):
        assert scripted.requests[0].content == b'{"query":"{ myself { clientBalance currentSpendPerHr spendLimit } }"}'


@pytest.mark.parametrize(("code", "trouble"), [(401, Trouble.CREDENTIAL), (429, Trouble.HELD_BACK), (403, Trouble.ODD)])
async def test_a_refusal_of_another_kind_without_the_api_s_words_keeps_its_kind(code: int, trouble: Trouble) -> None:
    failed = await Scripted(httpx.Response(code, text="error")).inspection.greet()
    assert isinstance(failed, Failed)
    assert failed.trouble is trouble


async def test_a_wait_that_was_asked_for_holds_the_next_question_back() -> None:
    scripted = Scripted(problem(429, WORDS, **{"retry-after": "60"}))
    await scripted.inspection.greet()
    failed = await scripted.inspection.open_log(None)
    assert isinstance(failed, Failed)
    assert (failed.trouble, len(scripted.requests)) == (Trouble.HELD_BACK, 1)


@pytest.mark.parametrize("code", [200, 404])
async def test_a_log_that_is_not_there_is_one_that_may_be_read(code: int) -> None:
    assert await Scripted(problem(code)).inspection.open_log(None) is None


@pytest.mark.parametrize("odd", [None, [], {}, 7, {"secrets": {}, "gpus": "none", "data": []}, {"data": {"myself": 7}}])
@pytest.mark.parametrize("call", list(QUESTIONS)[4:])
async def test_an_answer_that_makes_no_sense_is_odd(call: str, odd: Any) -> None:
    failed = await QUESTIONS[call](Scripted(answer(200, odd)).inspection)
    assert isinstance(failed, Failed)
    assert failed.trouble is Trouble.ODD


async def test_names_are_those_that_are_texts() -> None:
    entries = [{"name": "hub", "id": "NVIDIA A40"}, {"name": None, "id": 7}, "x", None, {}]
    scripted = Scripted(answer(200, {"secrets": entries, "gpus": entries, "registries": entries}))
    assert await scripted.inspection.read_registries() == frozenset({"NVIDIA A40"})
    assert await scripted.inspection.read_secret_names() == frozenset({"hub"})
    assert await scripted.inspection.read_types() == frozenset({"NVIDIA A40"})


def places(**levels: Any) -> list[dict[str, Any]]:
    return [{"id": name.replace("_", "-"), "availability": level} for name, level in levels.items()]


@pytest.mark.parametrize(
    ("entry", "stock"),
    [
        ({"availability": "HIGH", "dataCenters": places(EU_RO_1="NONE", US_KS_2="LOW", XX="HIGH")}, Stock.LOW),
        ({"availability": "HIGH", "dataCenters": places(XX="HIGH")}, Stock.NONE),
        ({"availability": "HIGH", "dataCenters": places(EU_RO_1="PLENTY")}, None),
        ({"availability": "HIGH", "dataCenters": places(EU_RO_1="LOW", US_KS_2="PLENTY")}, Stock.LOW),
        ({"availability": "HIGH", "dataCenters": places(EU_RO_1="NONE", US_KS_2="PLENTY")}, None),
        ({"availability": "HIGH", "dataCenters": [None, 7, {"id": []}]}, Stock.NONE),
        ({"availability": "HIGH"}, None),
    ],
)
async def test_stock_is_that_of_the_places_that_the_model_names(entry: dict[str, Any], stock: Stock | None) -> None:
    found = await Scripted(answer(200, {"gpus": [{"id": "A"} | entry]})).inspection.read_offers("qwen")
    assert found == {"A": Offer(stock=stock, usd_per_hour=None)}


async def test_what_has_no_readable_id_is_no_offer() -> None:
    entries = [{"id": "A"}, {"id": 7}, {"id": None}, {}, "id", ["id"], None]
    found = await Scripted(answer(200, {"gpus": entries})).inspection.read_offers("qwen")
    assert found == {"A": Offer(stock=None, usd_per_hour=None)}


@pytest.mark.parametrize(
    ("word", "stock"),
    [("NONE", Stock.NONE), ("MEDIUM", Stock.MEDIUM), ("medium", None), ("X", None), (3, None), ([], None)],
)
async def test_stock_anywhere_is_the_catalogs_word(word: Any, stock: Stock | None) -> None:
    anywhere = Need(cards=1, cloud=Cloud.SECURE)
    scripted = Scripted(answer(200, {"gpus": [{"id": "A", "availability": word}]}), need=anywhere)
    assert await scripted.inspection.read_offers("qwen") == {"A": Offer(stock=stock, usd_per_hour=None)}


@pytest.mark.parametrize(
    ("price", "usd"),
    [({"community": 0.35, "secure": 9}, Decimal("0.70")), ({"secure": 9}, None), ({"community": 0}, None), (7, None)],
)
async def test_a_price_is_for_the_whole_machine_in_the_models_cloud(price: Any, usd: Decimal | None) -> None:
    scripted = Scripted(answer(200, {"gpus": [{"id": "A", "price": price, "dataCenters": []}]}))
    assert await scripted.inspection.read_offers("qwen") == {"A": Offer(stock=Stock.NONE, usd_per_hour=usd)}


@pytest.mark.parametrize(
    ("myself", "funds"),
    [
        (
            {"clientBalance": 12.5, "currentSpendPerHr": 0.86, "spendLimit": 80},
            Funds(balance_usd=Decimal("12.5"), usd_per_hour=Decimal("0.86"), usd_per_hour_max=Decimal(80)),
        ),
        (
            {"clientBalance": -3, "currentSpendPerHr": 0},
            Funds(balance_usd=Decimal(-3), usd_per_hour=Decimal(0)),
        ),
        (
            {"clientBalance": "12", "currentSpendPerHr": 0},
            Failed(trouble=Trouble.ODD, text="the answer has no balance"),
        ),
        (
            {"clientBalance": True, "currentSpendPerHr": 0},
            Failed(trouble=Trouble.ODD, text="the answer has no balance"),
        ),
        ({"clientBalance": 1}, Failed(trouble=Trouble.ODD, text="the answer has no balance")),
        (None, Failed(trouble=Trouble.CREDENTIAL, text="the key belongs to nobody there")),
    ],
)
async def test_money_is_what_the_account_says_or_not_known(myself: Any, funds: Funds | Failed) -> None:
    assert await Scripted(answer(200, {"data": {"myself": myself}})).inspection.read_funds() == funds


@pytest.mark.parametrize(
    ("usd", "believed"),
    [(1_000_000_000, True), (-1_000_000_000, True), (1_000_000_000.01, False), (-1_000_000_000.01, False)],
)
async def test_a_balance_is_at_most_a_thousand_million_either_way(usd: float, believed: bool) -> None:
    shown = {"clientBalance": usd, "currentSpendPerHr": 0}
    funds = await Scripted(answer(200, {"data": {"myself": shown}})).inspection.read_funds()
    assert isinstance(funds, Funds) is believed


@pytest.mark.parametrize(
    ("api", "address"),
    [
        ("https://api.runpod.io/v2", "https://api.runpod.io"),
        ("http://127.0.0.1:9000/v2", "http://127.0.0.1:9000"),
        ("http://[::1]:9000/x/v2", "http://[::1]:9000"),
    ],
)
def test_the_old_door_is_beside_the_api(api: str, address: str) -> None:
    assert graphql_address(api) == address


@pytest.mark.parametrize("number", ["1e9999999", "-1e9999999", "NaN", "Infinity"])
async def test_a_balance_beyond_all_numbers_is_none_and_breaks_nothing(number: str) -> None:
    body = f'{{"data": {{"myself": {{"clientBalance": {number}, "currentSpendPerHr": 0}}}}}}'
    funds = await Scripted(httpx.Response(200, content=body.encode())).inspection.read_funds()
    assert isinstance(funds, Failed)
