"""What is sent to Runpod, what never is, and whether what was made is what was ordered."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from controller.core.identity import RequestId, Tags
from controller.providers.errors import BadOrder
from controller.providers.runpod.order import (
    Cloud,
    NetworkVolume,
    Ordered,
    RunpodModel,
    create_body,
    declared,
    difference,
    fitting,
    resource_name,
    secret_reference,
)
from controller.providers.runpod.wire import Pod, Reader
from tests.support.runpod_samples import ARGV, GPU, MODEL, NAME, NAMESPACE, ORDER, REQUEST, TAGS, pod, raw

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def body(model: RunpodModel = MODEL, **changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(raw_body(model, **changes))
    return content


def raw_body(model: RunpodModel = MODEL, **changes: Any) -> bytes:
    asked: dict[str, Any] = {
        "offer": GPU,
        "tags": TAGS,
        "argv": ARGV,
        "environment": ORDER.launch.environment,
        "name": NAME,
    } | changes
    return create_body(model, **asked)


def made(**changes: Any) -> Pod:
    found = Reader(NAMESPACE).pod(raw(pod(**changes)), now=NOW)
    assert isinstance(found, Pod)
    return found


ORDERED = Ordered(offer=GPU, argv=ARGV, usd_per_hour_max=None)


def differing(model: RunpodModel = MODEL, *, order: Ordered = ORDERED, **changes: Any) -> str | None:
    return difference(made(**changes), model, order)


def mounted(volume: str, path: str = "/w") -> dict[str, Any]:
    return {"network": [{"volumeId": volume, "path": path}]}


VOLUMES = (
    NetworkVolume(id="v1", data_center="EU-RO-1", path="/w"),
    NetworkVolume(id="v2", data_center="US-TX-3", path="/w"),
)


def test_the_least_model_gives_exactly_this_body() -> None:
    assert body() == {
        "name": "gpuwarden-qwen-r0123456789abcdef",
        "image": "vllm/vllm-openai:v0.31.0",
        "cloud": "SECURE",
        "gpu": {"id": "NVIDIA L40S", "count": 1},
        "disk": 80,
        "ports": ["8000/http"],
        "env": {
            "VLLM_API_KEY": "{{ RUNPOD_SECRET_vllm_qwen }}",
            "GPUWARDEN_OWNER": "acme-prod-7f3a",
            "GPUWARDEN_INSTALLATION": "0011223344556677",
            "GPUWARDEN_EPOCH": "3",
            "GPUWARDEN_REQUEST": "r0123456789abcdef",
        },
        "entrypoint": ["vllm"],
        "cmd": ["serve", "Qwen/Qwen3-8B", "--port", "8000"],
    }


def test_a_model_that_says_more_gives_exactly_these_fields_more() -> None:
    model = replace(
        MODEL,
        gpu_count=2,
        cloud=Cloud.COMMUNITY,
        data_center_ids=("EU-RO-1",),
        registry="reg1",
        min_cuda="12.8",
        environment={"VLLM_LOGGING_LEVEL": "DEBUG"},
    )
    more = body(model)
    assert more["gpu"] == {"id": GPU, "count": 2, "minCudaVersion": "12.8"}
    assert more["cloud"] == "COMMUNITY"
    assert more["dataCenterIds"] == ["EU-RO-1"]
    assert more["registry"] == "reg1"
    assert more["env"]["VLLM_LOGGING_LEVEL"] == "DEBUG"


def test_a_models_own_environment_wins_over_the_model_servers() -> None:
    model = replace(MODEL, environment={"NCCL_P2P_DISABLE": "0"})
    assert body(model, environment={"NCCL_P2P_DISABLE": "1"})["env"]["NCCL_P2P_DISABLE"] == "0"


def test_each_volume_is_asked_for_with_each_type_and_then_a_pod_that_fetches() -> None:
    other = MODEL.gpus[1]
    assert list(replace(MODEL, volumes=VOLUMES).machines()) == [
        f"{GPU} @ EU-RO-1",
        f"{other} @ EU-RO-1",
        f"{GPU} @ US-TX-3",
        f"{other} @ US-TX-3",
        GPU,
        other,
    ]


def test_weights_that_no_disk_holds_are_asked_for_beside_volumes_alone() -> None:
    model = replace(MODEL, gpus=(GPU,), volumes=VOLUMES[:1], disk_gb=None)
    assert list(model.machines()) == [f"{GPU} @ EU-RO-1"]


def test_a_pod_beside_a_volume_is_where_the_volume_is() -> None:
    model = replace(MODEL, volumes=VOLUMES, data_center_ids=("EU-RO-1", "US-TX-3", "EU-SE-1"))
    asked = body(model, offer=f"{GPU} @ US-TX-3")
    assert (asked["mounts"], asked["dataCenterIds"], asked["disk"]) == (mounted("v2"), ["US-TX-3"], 30)


def test_a_pod_without_a_volume_has_a_disk_for_the_weights() -> None:
    asked = body(replace(MODEL, volumes=VOLUMES))
    assert (asked.get("mounts"), asked.get("dataCenterIds"), asked["disk"]) == (None, None, 80)


@pytest.mark.parametrize(
    "variable", ["VLLM_API_KEY", "HF_TOKEN", "token", "MY_SECRET", "DB_PASSWORD", "AWS_CREDENTIALS", "KEY"]
)
@pytest.mark.parametrize("value", ["KEY_CANARY_3", "", "x {{ RUNPOD_SECRET_a }}", "{{ RUNPOD_SECRET_a }}x", "{{ a }}"])
def test_no_secret_leaves_as_it_is(variable: str, value: str) -> None:
    with pytest.raises(BadOrder) as raised:
        body(environment={variable: value})
    assert "CANARY" not in str(raised.value)
    with pytest.raises(BadOrder):
        body(replace(MODEL, environment={variable: value}))


def test_a_variable_that_only_sounds_like_a_secret_is_sent() -> None:
    assert body(environment={"TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "x"})["env"]["KEYBOARD"] == "x"


@pytest.mark.parametrize("variable", ["RUNPOD_API_KEY", "RUNPOD_POD_ID", "GPUWARDEN_OWNER", "gpuwarden_request"])
def test_the_providers_variables_and_our_marks_cannot_be_set_by_a_model(variable: str) -> None:
    with pytest.raises(BadOrder):
        body(replace(MODEL, environment={variable: "{{ RUNPOD_SECRET_x }}"}))


@pytest.mark.parametrize("argv", [(), ("vllm",), ("vllm", "--api-key", "x"), ("vllm", "--api-key=x")])
def test_a_command_without_arguments_or_with_a_key_is_not_sent(argv: tuple[str, ...]) -> None:
    with pytest.raises(BadOrder):
        body(argv=argv)


@pytest.mark.parametrize("offer", ["NVIDIA B200", f"{GPU} @ EU-SE-1", f"{GPU} @ ", "@ EU-RO-1", ""])
def test_an_offer_that_was_not_declared_is_not_sent(offer: str) -> None:
    with pytest.raises(BadOrder):
        body(replace(MODEL, volumes=VOLUMES), offer=offer)


@pytest.mark.parametrize("missing", ["owner", "installation", "epoch", "request"])
def test_an_order_without_one_of_its_tags_is_not_sent(missing: str) -> None:
    with pytest.raises(BadOrder):
        body(tags=replace(TAGS, **{missing: None}))


def test_a_body_is_sent_up_to_the_providers_bound_and_not_beyond() -> None:
    spare = 102_400 - len(raw_body(argv=(*ARGV, ""), environment={}))
    raw_body(argv=(*ARGV, "x" * spare), environment={})
    with pytest.raises(BadOrder):
        raw_body(argv=(*ARGV, "x" * (spare + 1)), environment={})


@pytest.mark.parametrize("length", [1, 191])
def test_a_name_is_sent_up_to_the_providers_bound(length: int) -> None:
    assert len(body(name="n" * length)["name"]) == length


@pytest.mark.parametrize("length", [0, 192])
def test_no_name_and_one_beyond_the_bound_are_not_sent(length: int) -> None:
    with pytest.raises(BadOrder):
        body(name="n" * length)


def test_fifty_variables_are_sent_and_not_one_more() -> None:
    body(environment={f"V{number}": "x" for number in range(46)})
    with pytest.raises(BadOrder):
        body(environment={f"V{number}": "x" for number in range(47)})


@pytest.mark.parametrize("name", ["", "a b", "1x", "x}}", "é", "x" * 192])
def test_a_reference_to_a_secret_that_cannot_exist_is_refused(name: str) -> None:
    with pytest.raises(BadOrder):
        secret_reference(name)


def test_a_model_names_its_secrets_by_reference() -> None:
    model = replace(MODEL, hub_token_secret="hf.main")
    assert (model.key_reference, model.hub_token_reference) == (
        "{{ RUNPOD_SECRET_vllm_qwen }}",
        "{{ RUNPOD_SECRET_hf.main }}",
    )
    assert body(model, environment={"HF_TOKEN": model.hub_token_reference})["env"]["HF_TOKEN"]
    assert replace(MODEL, hub_token_secret=None).hub_token_reference is None


def test_another_image_or_an_undeclared_model_is_not_ordered() -> None:
    assert declared(ORDER.spec, MODEL) is MODEL
    with pytest.raises(BadOrder):
        declared(replace(ORDER.spec, image="vllm/vllm-openai:v0.32.0"), MODEL)
    with pytest.raises(BadOrder):
        declared(ORDER.spec, None)


def test_a_name_is_readable_and_ends_in_the_request_id() -> None:
    assert resource_name("gpuwarden-", "qwen", REQUEST) == NAME
    assert Tags(request=RequestId(NAME.rpartition("-")[2])).request == REQUEST


def test_what_was_ordered_differs_in_nothing() -> None:
    assert differing() is None


@pytest.mark.parametrize(
    "unsaid",
    [{"image": ...}, {"gpu": ...}, {"gpu": {}}, {"disk": None}, {"mounts": ...}, {"cloud": ...}, {"cost": ...}],
)
def test_what_is_not_said_differs_in_nothing(unsaid: dict[str, Any]) -> None:
    assert differing(**unsaid) is None


@pytest.mark.parametrize(
    "other",
    [
        {"image": "vllm/vllm-openai:latest"},
        {"gpu": {"id": "NVIDIA A40", "count": 1}},
        {"gpu": {"id": GPU, "count": 2}},
        {"disk": 20},
        {"cloud": "COMMUNITY"},
        {"mounts": {"persistent": {"size": 20, "path": "/workspace"}}},
        {"mounts": {"network": [{"volumeId": "v", "path": "/workspace"}]}},
        {"cmd": ["serve", "something-else"]},
    ],
)
def test_what_was_made_otherwise_is_told(other: dict[str, Any]) -> None:
    assert differing(**other) is not None


@pytest.mark.parametrize(
    ("mounts", "same"),
    [
        ({"network": [{"volumeId": "v1", "path": "/w", "name": "weights"}], "persistent": None}, True),
        (mounted("v2"), False),
        (mounted("v1", "/elsewhere"), False),
        ({}, False),
    ],
)
def test_an_ordered_volume_must_be_the_one_that_is_mounted(mounts: dict[str, Any], same: bool) -> None:
    model, order = replace(MODEL, volumes=VOLUMES, volume_disk_gb=80), replace(ORDERED, offer=f"{GPU} @ EU-RO-1")
    assert (differing(model, order=order, mounts=mounts) is None) is same


def test_a_pod_that_was_to_fetch_and_has_a_volume_is_told() -> None:
    assert differing(replace(MODEL, volumes=VOLUMES), mounts=mounted("v1")) is not None


def test_a_pod_in_another_data_centre_than_its_volume_is_told() -> None:
    model, order = replace(MODEL, volumes=VOLUMES, volume_disk_gb=80), replace(ORDERED, offer=f"{GPU} @ EU-RO-1")
    assert differing(model, order=order, mounts=mounted("v1"), dataCenterId="US-TX-3") is not None


@pytest.mark.parametrize(
    ("shown", "offers"),
    [
        ({}, {GPU}),
        ({"gpu": {"id": MODEL.gpus[1], "count": 1}}, {MODEL.gpus[1]}),
        ({"gpu": {}}, set(MODEL.gpus)),
        ({"disk": 30, "mounts": mounted("v1")}, {f"{GPU} @ EU-RO-1"}),
        ({"disk": 30, "mounts": mounted("v2")}, set()),
        ({"disk": 20}, set()),
        ({"cmd": ["serve", "whatever"]}, {GPU}),
    ],
)
def test_a_pod_fits_the_offers_that_could_have_made_it(shown: dict[str, Any], offers: set[str]) -> None:
    assert fitting(made(**shown), replace(MODEL, volumes=VOLUMES)) == offers


def test_another_data_centre_than_those_named_is_told() -> None:
    assert differing(replace(MODEL, data_center_ids=("EU-RO-1", "US-TX-3"))) is None
    assert differing(replace(MODEL, data_center_ids=("US-TX-3",))) is not None


@pytest.mark.parametrize(("ceiling", "fits"), [("0.79", True), ("0.789", False), (None, True)])
def test_a_machine_dearer_than_the_ceiling_is_told(ceiling: str | None, fits: bool) -> None:
    order = replace(ORDERED, usd_per_hour_max=None if ceiling is None else Decimal(ceiling))
    assert (differing(order=order) is None) is fits
