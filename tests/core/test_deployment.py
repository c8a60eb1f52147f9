"""Do request, record and observation stay three things?"""

from dataclasses import fields

import pytest

from controller.core.deployment import ProviderState, ProvisionedDeployment, SeenResource
from controller.core.errors import InvalidIdentifier
from controller.core.identity import Scope, Tags
from tests.core.samples import T0, key, record, resource, spec


@pytest.mark.parametrize("part", ["id", "provider", "account", "model", "image", "resource_name"])
def test_a_spec_refuses_a_part_that_is_no_identifier(part: str) -> None:
    with pytest.raises(InvalidIdentifier):
        spec(**{part: "two words"})


def test_a_spec_and_its_record_tell_scope_id_and_model() -> None:
    assert spec().scope == Scope(provider="runpod", account="main")
    assert (record().id, record().model) == ("qwen-1", "qwen")


def test_an_observation_of_nothing_but_existence_knows_nothing_else() -> None:
    bare = SeenResource(key=key(), tags=Tags(), namespaced=False, state=None, word="")
    seen = ProvisionedDeployment.observed(bare, ready=None, served_model=None, observed_at=T0)
    known = {field.name: getattr(seen, field.name) for field in fields(seen)}
    assert known == {
        "key": key(),
        "state": None,
        "ready": None,
        "endpoint": None,
        "served_model": None,
        "observed_at": T0,
    }


@pytest.mark.parametrize("ready", [None, False, True])
def test_readiness_is_the_probe_s_word_and_never_the_provider_s(ready: bool | None) -> None:
    running = resource(state=ProviderState.RUNNING, endpoint="https://p1.example/v1/")
    seen = ProvisionedDeployment.observed(running, ready=ready, served_model=None, observed_at=T0)
    assert seen.ready is ready


@pytest.mark.parametrize("ready", [None, False, True])
def test_without_an_endpoint_readiness_is_unknown(ready: bool | None) -> None:
    seen = ProvisionedDeployment.observed(resource(endpoint=None), ready=ready, served_model=None, observed_at=T0)
    assert seen.ready is None


def test_a_fresh_record_has_observed_nothing() -> None:
    assert (record().observed, record().key, record().usd_per_hour, record().started_at) == (None, None, None, None)
