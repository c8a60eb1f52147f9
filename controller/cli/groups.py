"""Under which heading does a command stand, and what does it take hold of first?

The tree that commands are hung into, and the ways from a `--config` to the settings or the daemon. What a command needs
is imported when it runs.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from controller.cli.exits import Exit

if TYPE_CHECKING:
    from controller.cli.link import Daemon
    from controller.settings import Settings

EVERYDAY: Final = "Everyday"
TROUBLE: Final = "Trouble"
ADMIN: Final = "Admin"

app = typer.Typer(
    name="gpuwarden",
    help="Starts billed GPU machines when a model is asked for, and never loses the duty to stop them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
evidence_app = typer.Typer(help="The record of everything that costs or ends something.", invoke_without_command=True)
config_app = typer.Typer(help="The config file.", no_args_is_help=True)
emulate_app = typer.Typer(help="Stand-ins for the outside.", no_args_is_help=True)
app.add_typer(evidence_app, name="evidence", rich_help_panel=TROUBLE)
app.add_typer(config_app, name="config", rich_help_panel=ADMIN)
app.add_typer(emulate_app, name="emulate", rich_help_panel=ADMIN)


def settings_from(config: Path | None) -> "Settings":
    from controller.cli.link import settings_of

    return settings_of(config)


def settings_reaching(config: Path | None) -> "Settings":
    from controller.cli.link import settings_to_reach

    return settings_to_reach(config)


def wall_now() -> datetime:
    from controller.clock import SystemClock

    return SystemClock().now()


def awaited(act: Callable[[], Awaitable[Exit | None]]) -> Exit:
    import anyio

    return anyio.run(act) or Exit.OK


def conversed(config: Path | None, act: "Callable[[Daemon], Awaitable[Exit]]") -> Exit:
    from controller.cli.link import asked

    return asked(settings_reaching(config), act)
