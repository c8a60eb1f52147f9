"""What every test shares: async tests run on asyncio, the loop the daemon runs on."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {}
