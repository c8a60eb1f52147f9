"""Which commands are there for every day and for trouble, and what does each take?

Declarations only: each command reads its options, imports what it needs and hands over.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.exits import Exit, Failure
from controller.cli.groups import (
    EVERYDAY,
    TROUBLE,
    app,
    awaited,
    conversed,
    evidence_app,
    settings_from,
    settings_reaching,
    wall_now,
)
from controller.cli.options import Alias, ConfigOption, JsonOption, LimitOption, NoWaitOption, span_of


@app.command(rich_help_panel=EVERYDAY)
def up(
    config: ConfigOption = None,
    leave: Annotated[bool, typer.Option("--leave", help="At the end keep what runs, and say what bills.")] = False,
) -> int:
    """Daemon and gateway together, until Ctrl-C; then everything is stopped, with proof."""
    from controller import up as composition

    return composition.main(config, leave)


@app.command(rich_help_panel=EVERYDAY)
def status(
    alias: Annotated[str | None, typer.Argument(help="One model only.", show_default=False)] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """What runs, what it costs, and what is owed."""
    from controller.cli import reading

    return reading.status(settings_reaching(config), alias=alias, as_json=as_json, now=wall_now())


@app.command(rich_help_panel=EVERYDAY)
def chat(
    alias: Alias,
    text: Annotated[str, typer.Argument(help="What to say.", show_default=False)],
    config: ConfigOption = None,
    key_file: Annotated[Path | None, typer.Option(help="A client's key (0600); else $OPENAI_API_KEY.")] = None,
) -> int:
    """Ask a model one thing, through the gateway; starts it if it is off."""
    import os

    from controller.cli import chat as chatting
    from controller.settings.keys import secret_at

    key = os.environ.get("OPENAI_API_KEY") if key_file is None else secret_at(key_file).get_secret_value()
    return awaited(partial(chatting.chat, settings_from(config), alias=alias, text=text, key=key))


@app.command(rich_help_panel=EVERYDAY)
def start(
    alias: Alias,
    config: ConfigOption = None,
    no_wait: NoWaitOption = False,
    limit: LimitOption = None,
    as_json: JsonOption = False,
) -> int:
    """Start a model, and wait until it serves."""
    from controller.cli import acting

    span = span_of(limit)
    return conversed(config, partial(acting.start, alias=alias, wait=not no_wait, limit=span, as_json=as_json))


@app.command(rich_help_panel=EVERYDAY)
def stop(  # noqa: PLR0913 - options are what a command is made of
    target: Annotated[str | None, typer.Argument(help="A model's alias or a deployment's id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything of ours.")] = False,
    immediately: Annotated[bool, typer.Option("--now", help="Do not let open requests end first.")] = False,
    no_wait: NoWaitOption = False,
    limit: LimitOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:  # fmt: skip
    """Stop a model, and wait for the proof that nothing bills any more."""
    from controller.cli import acting

    if (target is None) != everything:
        raise Failure(Exit.USAGE, "name one model or deployment, or say --all")
    asked = partial(acting.stop, target=target, immediately=immediately, wait=not no_wait)
    return conversed(config, partial(asked, limit=span_of(limit), as_json=as_json))


@app.command(rich_help_panel=EVERYDAY)
def restart(
    alias: Alias,
    config: ConfigOption = None,
    no_wait: NoWaitOption = False,
    limit: LimitOption = None,
    as_json: JsonOption = False,
) -> int:
    """Replace what serves a model without an outage: a new one serves before the old one is stopped."""
    from controller.cli import restarting

    span = span_of(limit)
    return conversed(config, partial(restarting.restart, alias=alias, wait=not no_wait, limit=span, as_json=as_json))


@app.command(rich_help_panel=EVERYDAY)
def explain(alias: Alias, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Why a model is as it is, and what happens next."""
    from controller.cli import reading

    return reading.explain(settings_reaching(config), alias=alias, as_json=as_json, now=wall_now())


@app.command(rich_help_panel=TROUBLE)
def owed(
    config: ConfigOption = None,
    every: Annotated[bool, typer.Option("--ended", help="Those that have ended, too.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Every duty to stop something that is not proven yet."""
    from controller.cli import reading

    return reading.owed(settings_reaching(config), every=every, as_json=as_json, now=wall_now())


@app.command("confirm-stopped", rich_help_panel=TROUBLE)
def confirm_stopped(
    obligation: Annotated[str, typer.Argument(metavar="ID", help="The obligation, as in `owed`.", show_default=False)],
    reference: Annotated[str, typer.Option(help="Where it can be looked up: a ticket, a mail, an invoice.")],
    force: Annotated[bool, typer.Option(help="Although it was seen alive; goes on record.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say on record that something is gone, when no proof can come."""
    from controller.cli import acting

    return conversed(
        config, partial(acting.confirm, obligation=obligation, reference=reference, force=force, as_json=as_json)
    )


@app.command(rich_help_panel=TROUBLE)
def claim(
    installation: Annotated[str | None, typer.Argument(help="The id that its machines carry.")] = None,
    account: Annotated[bool, typer.Option("--account", help="Confirm that the account is still ours.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Take over what another installation of the same name left behind."""
    from controller.cli import acting

    if (installation is None) != account:
        raise Failure(Exit.USAGE, "name an installation, or say --account")
    return conversed(config, partial(acting.claim, installation=installation, as_json=as_json))


@app.command(rich_help_panel=TROUBLE)
def unblock(
    alias: Annotated[str | None, typer.Argument(help="One model; without it, all.", show_default=False)] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """End a hold: a model that failed, or whose start was refused, may start again."""
    from controller.cli import acting

    return conversed(config, partial(acting.unblock, alias=alias, as_json=as_json))


@app.command(rich_help_panel=TROUBLE)
def doctor(
    live: Annotated[bool, typer.Option("--live", help="Rent one cheap machine to find out; stops it.")] = False,
    spend_limit: Annotated[str | None, typer.Option(help="US dollars that --live may cost.")] = None,
    model: Annotated[str | None, typer.Option(help="--live: shape the machine as this model.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Would it work? Config, keys, files, store, daemon, and all that asking the provider tells; rents nothing.

    Each line is ok, warn or fail, with the mend. Ends with 0 unless something failed: 78 config, 4 provider, 1 others.
    """
    if live or spend_limit is not None or model is not None:
        from controller.cli.doctor.live import run_live, wished

        return awaited(partial(run_live, config, wished(spend_limit, live=live, model=model, as_json=as_json)))
    from controller.cli import doctor as examining

    return awaited(partial(examining.doctor, config, as_json=as_json, seams=examining.Seams()))


@evidence_app.callback()
def evidence(
    context: typer.Context,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the newest lines.")] = 20,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the newest evidence."""
    from controller.cli import evidence as recorded

    if context.invoked_subcommand is not None:
        context.obj = config
        return Exit.OK
    settings = settings_reaching(config)
    if follow:
        return awaited(partial(recorded.follow, settings, lines=lines, as_json=as_json))
    return awaited(partial(recorded.show, settings, lines=lines, as_json=as_json))


@evidence_app.command("verify")
def evidence_verify(context: typer.Context, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Prove that no line was changed, removed or put in."""
    from controller.cli import evidence as recorded

    return awaited(partial(recorded.verify, settings_reaching(config or context.obj), as_json=as_json))
