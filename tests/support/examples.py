"""How many examples does a property get whose single example is dear?

A share of what the chosen profile gives to all others, so that the deep one looks deeper here too.
"""

from hypothesis import settings


def fewer(by: int) -> settings:
    return settings(max_examples=max(settings().max_examples // by, 1))
