"""Does each planted mistake find what it is to make wrong?

What is planted replaces something by its name. Where that is gone the process ends, which looks like a mistake that was
noticed.
"""

import multiprocessing

import pytest

from tests.simulation.planted import PLANTED, plant


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_it_can_be_planted(name: str) -> None:
    child = multiprocessing.get_context("fork").Process(target=plant, args=(name,))  # what it changes, ends with it
    child.start()
    child.join()
    assert child.exitcode == 0
