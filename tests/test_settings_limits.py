"""Can any limit be argued away: left out, null, 0, negative, infinite or misspelt? (B27)"""

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import BaseModel

from controller.settings.models import ModelSection
from controller.settings.sections import GatewaySection, PolicySection
from controller.settings.values import parse_span, write_span
from controller.settings.written import Written
from tests.test_settings import LINES, SHORT, refused, taken

ZERO_IS_SAID = {"gateway.wait", "policy.drain_limit", "models.qwen.wait", "models.qwen.drain_limit"}
"""Where 0 has a meaning of its own: tell at once, cut at once."""


def bounded(section: type[BaseModel], table: str) -> list[tuple[str, str]]:
    """Every key of the section that holds a span, a count or money."""
    return [
        (table, name)
        for name, entry in section.model_fields.items()
        if any(kind in str(entry.annotation) for kind in ("timedelta", "int", "Decimal"))
    ]


LIMITS = [
    *bounded(PolicySection, "policy"),
    *bounded(GatewaySection, "gateway"),
    *bounded(ModelSection, "models.qwen"),
    ("", "usd_per_day"),
]


def written_with(table: str, key: str, value: str) -> tuple[str, int]:
    """The short config with one more line, and that line's number."""
    line = f"{key} = {value}\n"
    if table == "":
        return re.sub(r"usd_per_day.*\n", line, SHORT), 2
    if table == "models.qwen":
        text = re.sub(rf"(?m)^{key} = .*\n", "", SHORT) + line
        return text, text.count("\n")
    return f"{SHORT}\n[{table}]\n{line}", LINES + 3


def test_the_limits_tried_here_are_all_there_are() -> None:
    assert len(LIMITS) == 55
    assert all(isinstance(Written.model_fields[name].default, Decimal | None) for name in ("usd_per_day",))


FOR_EVER = ("0", '"0s"', "-1", '"-1s"', "inf", '"inf"', '"unlimited"', '""', "true")
REFUSED = [
    (table, key, value)
    for table, key in LIMITS
    for value in FOR_EVER
    if not (value == '"0s"' and (f"{table}.{key}" if table else key) in ZERO_IS_SAID)
]


@pytest.mark.parametrize(("table", "key", "value"), REFUSED, ids=str)
def test_a_limit_that_would_mean_for_ever_is_refused_by_name_and_line(
    tmp_path: Path, table: str, key: str, value: str
) -> None:
    path = f"{table}.{key}" if table else key
    text, number = written_with(table, key, value)
    problems = refused(tmp_path, text)
    assert any(problem.startswith(f"config.toml:{number}: {path}") for problem in problems), problems
    assert all("; " in problem for problem in problems)


@pytest.mark.parametrize("null", ["null", "nil", "None", "null # no limit"])
def test_null_is_refused_by_name_line_and_mend(tmp_path: Path, null: str) -> None:
    for table, key in LIMITS:
        text, number = written_with(table, key, null)
        (problem,) = refused(tmp_path, text)
        assert problem.startswith(f"config.toml:{number}: {key}"), problem
        assert problem.endswith("TOML has no null, and nothing here is unlimited; remove the line to get the default")


def test_a_misspelt_limit_is_refused_with_the_right_name(tmp_path: Path) -> None:
    for table, key in LIMITS:
        misspelt = f"{key}x"
        text, number = written_with(table, misspelt, '"1s"')
        (problem,) = refused(tmp_path, text.replace("usd_per_day = 40\n", ""))
        path = f"{table}.{misspelt}" if table else misspelt
        assert problem.startswith(f"config.toml:{number}: {path}"), problem
        assert problem.endswith(f"did you mean {key}?"), problem


def test_every_limit_left_out_is_finite(tmp_path: Path) -> None:
    settings = taken(tmp_path, SHORT.replace("usd_per_day = 40", ""))
    policy, model = settings.hosting_policy(), settings.model_policies()["qwen"]
    assert timedelta(0) < model.idle_after <= timedelta(hours=24)
    assert timedelta(0) < model.max_lifetime <= timedelta(days=7)
    assert timedelta(0) < model.startup_deadline <= timedelta(hours=6)
    assert Decimal(0) < policy.usd_per_day <= 1000
    assert 0 < policy.max_active <= 4096


def test_zero_is_taken_where_it_means_at_once(tmp_path: Path) -> None:
    text = SHORT + 'wait = "0s"\ndrain_limit = "0s"\n[gateway]\nwait = "0s"\n[policy]\ndrain_limit = "0s"\n'
    assert taken(tmp_path, text).model_policies()["qwen"].wait == timedelta(0)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("250ms", timedelta(milliseconds=250)),
        ("1d2h3m4s5ms", timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=5)),
        ("0s", timedelta(0)),
    ],
)
def test_a_span_is_read_and_written(text: str, span: timedelta) -> None:
    assert parse_span(text) == span
    assert parse_span(write_span(span)) == span


@pytest.mark.parametrize(
    "text", ["", "5", "s", "1 h", "30m1h", "1h1h", "-1s", "1.5h", "1w", "1H", "1s ", "\u0661s", "9" * 12 + "s"]
)
def test_what_is_no_span_is_none(text: str) -> None:
    assert parse_span(text) is None


@pytest.mark.parametrize(
    ("foreign", "hides"),
    [
        ("g", True),
        ("gpuwarden-", True),
        ("gpuwarden-q", True),
        ("gpuwarden-qwen-", True),
        ("gpuwarden-qwen-r0", True),
        ("gpuwarden-qwen-legacy-", False),
        ("gpuwarden-qwen2", False),
        ("gpuwarden-legacy-", False),
        ("vast-", False),
    ],
)
def test_no_prefix_of_another_program_hides_machines_of_our_own(tmp_path: Path, foreign: str, hides: bool) -> None:
    """What is named so is never stopped: its creates would end unknown, and their machines bill for ever."""
    text = f'{SHORT}\n[runpod]\nforeign_prefixes = ["{foreign}"]\n'
    if hides:
        (told,) = refused(tmp_path, text)
        assert told.startswith(f"config.toml:{LINES + 3}: runpod.foreign_prefixes = ")
    else:
        assert taken(tmp_path, text).written.runpod.foreign_prefixes == (foreign,)
