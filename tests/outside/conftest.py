"""When are the programs of others installed? Before the first test that asks for one, outside of every test's limit."""

import pytest

from tests.outside.programs import bring


@pytest.fixture(scope="session", autouse=True)
def _programs_of_others() -> None:
    bring()
