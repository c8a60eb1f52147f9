"""When would a config stop everything that runs, and when may it?"""

from decimal import Decimal

import pytest

from controller.core.identity import DeploymentId
from controller.core.lifecycle import Phase
from controller.core.removal import Machine, Removal, removal, running
from tests.core.samples import record, spec

QWEN = Machine(model="qwen", usd_per_hour=Decimal("0.79"))
LLAMA = Machine(model="llama", usd_per_hour=Decimal("1.20"))
COMING = Machine(model="llama", usd_per_hour=None)


def test_a_config_without_any_model_that_runs_would_stop_all_of_it() -> None:
    assert removal([LLAMA, QWEN, COMING], ["other"]) == Removal(
        models=("llama", "qwen"), machines=3, usd_per_hour=Decimal("1.99"), unpriced=1
    )


@pytest.mark.parametrize("configured", [["qwen"], ["llama", "other"], ["qwen", "llama"]])
def test_a_config_that_keeps_one_model_that_runs_is_an_edit(configured: list[str]) -> None:
    assert removal([QWEN, LLAMA], configured) is None


def test_where_nothing_runs_an_emptied_config_stops_nothing() -> None:
    assert removal([], []) is None


@pytest.mark.parametrize("phase", list(Phase))
def test_what_is_stopped_already_or_is_to_be_does_not_run(phase: Phase) -> None:
    found = running([record(phase, spec=spec(id=DeploymentId("qwen-1")), usd_per_hour=Decimal("0.79"))])
    runs = phase in {Phase.DECLARED, Phase.REQUESTED, Phase.ACTIVE, Phase.UNCERTAIN}
    assert found == ([QWEN] if runs else [])


@pytest.mark.parametrize(
    ("machines", "text"),
    [
        ([QWEN], "qwen: 1 machine, $0.79 an hour"),
        ([QWEN, LLAMA], "llama, qwen: 2 machines, $1.99 an hour"),
        ([COMING], "llama: 1 machine at an unknown price"),
        ([LLAMA, COMING], "llama: 2 machines, $1.2 an hour and 1 of unknown price"),
    ],
)
def test_it_is_said_what_would_be_stopped_and_what_that_costs(machines: list[Machine], text: str) -> None:
    found = removal(machines, [])
    assert found is not None
    assert found.text == text
