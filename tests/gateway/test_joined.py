"""Are the metrics of several workers told as one without a lie?"""

from prometheus_client.parser import text_string_to_metric_families

from controller.gateway.exposition import Moment, exposition
from controller.gateway.joined import joined
from controller.gateway.tally import Tally


def of_one(waiting: int, alias: str = "m1") -> bytes:
    tally = Tally()
    tally.models[alias].first_bytes.observe(0.3)
    moment = Moment(open_requests={alias: 1}, waiting={alias: waiting}, upstream_answers=0, daemon_reachable=True)
    return exposition(tally, moment)


def samples(text: bytes) -> dict[tuple[str, str | None, str | None], float]:
    return {
        (sample.name, sample.labels.get("worker"), sample.labels.get("model")): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_each_sample_says_whose_it_is_and_none_is_added_up() -> None:
    found = samples(joined({"0": of_one(2), "1": of_one(5)}))
    assert found["gpuwarden_gateway_waiting", "0", "m1"] == 2
    assert found["gpuwarden_gateway_waiting", "1", "m1"] == 5
    assert {worker for _, worker, _ in found} == {"0", "1"}


def test_nothing_of_a_worker_is_lost() -> None:
    alone = list(text_string_to_metric_families(of_one(2).decode()))
    together = list(text_string_to_metric_families(joined({"0": of_one(2), "1": of_one(5)}).decode()))
    count = sum(len(family.samples) for family in alone)
    assert sum(len(family.samples) for family in together) == 2 * count + 2
    assert {family.name: family.type for family in alone}.items() <= {f.name: f.type for f in together}.items()


def test_a_worker_that_did_not_answer_is_told_as_down() -> None:
    found = samples(joined({"0": of_one(2), "1": None}))
    assert found["gpuwarden_gateway_worker_up", "0", None] == 1
    assert found["gpuwarden_gateway_worker_up", "1", None] == 0


def test_an_alias_with_signs_of_the_format_keeps_its_labels() -> None:
    alias = 'a} b" {,worker="9"'
    found = samples(joined({"0": of_one(3, alias)}))
    assert found["gpuwarden_gateway_waiting", "0", alias] == 3
