"""Which commands does it take to run and look after an installation, and what does each take?

Declarations only, as in `everyday`.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.groups import (
    ADMIN,
    app,
    config_app,
    conversed,
    emulate_app,
    settings_from,
    settings_reaching,
    wall_now,
)
from controller.cli.options import Alias, ConfigOption, JsonOption, LimitOption, NoWaitOption, places_of, span_of


@app.command(rich_help_panel=ADMIN)
def run(config: ConfigOption = None) -> int:
    """The daemon."""
    from controller import daemon

    return daemon.main(config)


@app.command(rich_help_panel=ADMIN)
def backup(
    path: Annotated[Path, typer.Argument(help="A file that does not exist yet.", show_default=False)],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Copy the store to a file, also while the daemon runs, and say what the copy holds."""
    from controller.cli import backups

    return backups.backup(settings_reaching(config), to=path, as_json=as_json, now=wall_now())


@app.command(rich_help_panel=ADMIN)
def restore(
    path: Annotated[Path, typer.Argument(help="A copy made by `backup`.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put a copy back as the store while the daemon is down; the present store is kept beside it."""
    from controller.cli import backups

    return backups.restore(settings_reaching(config), copy=path, sure=yes, as_json=as_json, now=wall_now())


@app.command(rich_help_panel=ADMIN)
def gateway(
    config: ConfigOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Processes that serve, instead of the config's; each has queues and clients' limits of its own.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """The fixed address; several may run."""
    from controller.cli import gateway as composition

    return composition.run_gateway(settings_from(config), workers)


@app.command(rich_help_panel=ADMIN)
def prefetch(
    alias: Alias,
    place: Annotated[list[str] | None, typer.Option(help="Only the volume there; repeatable. Else every one.")] = None,
    config: ConfigOption = None,
    no_wait: NoWaitOption = False,
    limit: LimitOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put a model's weights onto its volumes before anybody asks: rents a machine beside each until it could serve."""
    from controller.cli import prefetching

    asked = partial(prefetching.prefetch, alias=alias, places=place or [], wait=not no_wait)
    return conversed(config, partial(asked, limit=span_of(limit), as_json=as_json))


@app.command(rich_help_panel=ADMIN)
def demo(
    script: Annotated[bool, typer.Option("--script", help="Play the story through, check it, and end.")] = False,
) -> int:
    """The whole story on this machine, with an emulated provider; costs nothing."""
    from controller import demo as composition

    return composition.main(script)


@emulate_app.command("runpod")
def emulate_runpod(
    listen: Annotated[str, typer.Option(help="Address and port, on loopback; port 0 takes a free one.")] = (
        "127.0.0.1:9000"
    ),
) -> int:
    """Runpod, as far as gpuwarden can tell."""
    from controller.cli import emulate

    return emulate.emulate_runpod(listen)


@config_app.command("check")
def config_check(
    config: ConfigOption = None,
    model_files: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ALIAS=PATH",
            help="Folder of a model's files, or its config.json; else models/ALIAS beside the config. Repeatable.",
        ),
    ] = None,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Ask the hub, without a key, for sizes and for who may fetch, and keep them; ask the provider, with"
            " its key, for prices.",
        ),
    ] = False,
    hub: Annotated[str, typer.Option(metavar="URL", help="Which hub --online asks.")] = "https://huggingface.co",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="It may stop everything that runs: the next start takes it.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """What the config would do, need and cost; ends with 78 and every problem if it cannot be taken. Nobody is asked
    without --online.

    Sizes come from model_size_gb, from the hub as it last said, and from each model's own files: its config.json tells
    what a request keeps in memory.

    Prices come from the provider's catalog with --online, else from the daemon as it last read them. Nothing is rented.

    A config without any of the models that have machines is not taken by a start of the daemon: this command says what
    it would stop, and ends with 6, until it was run with --confirm on exactly that config.
    """
    from controller.cli import config_check as checking

    places = places_of(model_files or [])
    asked = checking.Asked(model_files=places, hub=hub if online else None, confirm=confirm)
    return checking.config_check(settings_from(config), asked, as_json=as_json, now=wall_now())
