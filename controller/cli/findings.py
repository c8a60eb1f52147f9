"""What did a look at the outside add to a config?"""

from dataclasses import dataclass

from controller.settings import Problem, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    settings: Settings
    """With the sizes that were told."""
    faults: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
