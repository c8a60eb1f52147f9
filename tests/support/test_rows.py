"""Are the tests handed out in rows, the longest first?"""

import pytest

from tests.support.rows import row_of, turn


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("tests/core/test_idle.py::test_it", "tests/core/test_idle.py"),
        ("tests/core/test_idle.py::test_it[a::b]", "tests/core/test_idle.py"),
        ("tests/core/test_idle.py::test_it[user@host]", "tests/core/test_idle.py"),
        ("tests/cli/test_gateway.py::test_it@process", "process"),
        ("tests/cli/test_gateway.py::test_it[user@host]@process", "process"),
    ],
)
def test_a_row_is_a_file_or_what_a_test_was_put_into(name: str, row: str) -> None:
    assert row_of(name) == row


def test_real_processes_are_begun_first_then_what_takes_long_then_all_others() -> None:
    names = [
        "tests/api/test_acts.py::test_it",
        "tests/scenarios/test_idle.py::test_it",
        "tests/mutation/test_mutation.py::test_it",
        "tests/simulation/test_campaign.py::test_it@simulation",
        "tests/outside/test_mcp_server.py::test_it@outside",
        "tests/api/test_serve.py::test_it@process",
    ]
    assert sorted(names, key=turn) == names[::-1]
