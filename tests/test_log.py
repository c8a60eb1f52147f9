"""Is what must not be logged kept out, however deep it lies, and can the rest be read?"""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from controller import log

CANARY = "rpa_CANARY0123456789"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    root = logging.getLogger()
    sinks, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = sinks, level
    log.forget_secrets()
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def logged(**fields: Any) -> dict[str, Any]:
    out = io.StringIO()
    log.configure(stream=out)
    structlog.get_logger().info("pass_failed", **fields)
    line: dict[str, Any] = json.loads(out.getvalue())
    return line


def test_an_event_is_one_line_of_json_with_its_time_and_level() -> None:
    line = logged(task="observer", failures=3)
    assert (line["event"], line["level"], line["task"], line["failures"]) == ("pass_failed", "info", "observer", 3)
    assert line["at"].endswith("Z")


@pytest.mark.parametrize(
    "fields",
    [
        {"key": CANARY},
        {"api_key": CANARY},
        {"Authorization": f"Bearer {CANARY}"},
        {"env": {"VLLM_API_KEY": CANARY}},
        {"request": {"headers": {"authorization": CANARY}}},
        {"deep": [({"x-api-key": CANARY},)]},
        {"messages": [{"role": "user", "content": CANARY}]},
        {"prompt": CANARY},
        {"request_body": CANARY},
        {"hf_token": CANARY},
    ],
    ids=str,
)
def test_what_is_named_like_a_secret_or_a_prompt_is_blanked(fields: dict[str, Any]) -> None:
    assert CANARY not in json.dumps(logged(**fields))


@pytest.mark.parametrize(
    "fields", [{"detail": f"refused {CANARY}!"}, {"x": [{CANARY: 1}]}, {"error": ValueError(CANARY)}], ids=str
)
def test_a_registered_secret_is_replaced_wherever_it_turns_up(fields: dict[str, Any]) -> None:
    log.register_secret(CANARY)
    assert CANARY not in json.dumps(logged(**fields))


def test_a_registered_secret_is_replaced_in_a_traceback() -> None:
    log.register_secret(CANARY)
    out = io.StringIO()
    log.configure(stream=out)
    try:
        raise RuntimeError(f"no answer for {CANARY}")
    except RuntimeError:
        structlog.get_logger().exception("pass_failed")
    assert "RuntimeError: no answer for [redacted]" in json.loads(out.getvalue())["exception"]


def test_an_ordinary_field_is_left_as_it_is() -> None:
    line = logged(resource_key="runpod/main/x/y", deployment="qwen-1", usd="0.79", keyboard="de", none=None)
    assert line["resource_key"] == "runpod/main/x/y"
    assert (line["deployment"], line["usd"], line["keyboard"], line["none"]) == ("qwen-1", "0.79", "de", None)


def test_a_terminal_gets_words() -> None:
    out = Terminal()
    log.configure(stream=out)
    structlog.get_logger().warning("stop_submitted", deployment="qwen-1", detail="two words")
    assert out.getvalue().endswith("warning stop_submitted deployment=qwen-1 detail='two words'\n")


def test_lines_below_the_level_are_not_written() -> None:
    out = io.StringIO()
    log.configure("warning", stream=out)
    structlog.get_logger().info("noise")
    assert out.getvalue() == ""


def test_what_libraries_say_goes_the_same_way_without_secrets() -> None:
    log.register_secret(CANARY)
    out = io.StringIO()
    log.configure(stream=out)
    try:
        raise RuntimeError(CANARY)
    except RuntimeError:
        logging.getLogger("uvicorn.error").exception("no answer for %s", CANARY)
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("no answer for [redacted]", "error", "uvicorn.error")
    assert CANARY not in out.getvalue()


def test_importing_it_does_not_bring_rich_along() -> None:
    code = "import sys; import controller.log; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
