"""Who else uses up the calls that the account may make?

The quotas are small, and another user of the account eats each window down to what a controller keeps for stops: reads
and creates have to wait for the next one. Nothing excuses a stop that is not sent meanwhile.
"""

import random
from functools import partial
from typing import Final

from tests.simulation.provider_faults import HOUR, MINUTE
from tests.simulation.stage import Kind, Stage, Trouble, spread

SPARED: Final = {"minute": 10, "hour": 30}
"""So many of the quotas below are kept for stops."""
LONG: Final = 0.4
"""In so many of the cases an hour's calls are gone too, after 20 minutes."""
LONG_QUOTAS: Final = {"minute": 300, "hour": 6000}


def _eaten(stage: Stage, draw: random.Random) -> bool:
    quotas = LONG_QUOTAS if draw.random() < LONG else {"minute": draw.randint(40, 120)}
    trouble = stage.setting("quota-eaten", {"quotas": quotas}, lasts=spread(draw, 10 * MINUTE, 4 * HOUR))
    _eat(stage, draw, trouble)
    return True


def _eat(stage: Stage, draw: random.Random, trouble: Trouble) -> None:
    """Once in each minute, at any moment of it."""
    if trouble.over:
        return
    provider = stage.provider
    now = provider.now()
    left = provider.counted.left(provider.settings.quotas, now)
    for _ in range(min(left[window] - spared for window, spared in SPARED.items())):
        provider.counted.count(now)
    stage.kernel.after(MINUTE - now % MINUTE + draw.uniform(0, MINUTE), partial(_eat, stage, draw, trouble))


KINDS: Final[dict[str, Kind]] = {
    "quota-eaten": Kind("another user of the account eats what calls it may make", _eaten, 0.2, 0.6),
}
