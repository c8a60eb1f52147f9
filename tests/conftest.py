"""What every test shares: async tests run on asyncio, the loop the daemon runs on, and real processes one by one.

Properties are tried on the same few examples each time, so that a run says the same twice; `--hypothesis-profile=deep`
looks for new ones.
"""

import signal
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from _pytest.nodeid import coerce_node_id
from hypothesis import settings

from tests.support.as_found import changed, found
from tests.support.memory import lie_in_memory
from tests.support.rows import row_of, turn

lie_in_memory()

settings.register_profile("short", derandomize=True, max_examples=60, deadline=None, database=None)
settings.register_profile("deep", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("short")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in the background so. Children would inherit it, and what interrupts them wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that start real processes and wait real seconds run one after another, beside all others. Those with the
    programs of others, and those of the simulation, wait for nothing in our own daemons: each have a row of their own.

    The group stands behind the name, where `--dist loadgroup` reads it. Its own mark is without effect: what
    pytest-xdist 3.8 writes the group to, pytest 9.2 does not read.
    """
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        if item.get_closest_marker("process") is not None:
            group = next((row for row in ("outside", "simulation") if row in item.path.parts), "process")
            item._id = coerce_node_id(f"{item.nodeid}@{group}")
    items.sort(key=lambda item: turn(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`: rows as they are collected."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

    config.option.loadscopereorder = False
    found = LoadGroupScheduling(config, log)
    found._split_scope = row_of
    return found


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A command that sets the log up leaves it with a stream of its test, which is closed when the next one logs."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True, scope="module")
def _process_as_found() -> Iterator[None]:
    before = found()
    yield
    assert not (left := changed(before, found())), f"this file of tests left changed: {', '.join(left)}"


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {}
