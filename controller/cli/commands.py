"""Which commands are there, and what does each take?

Declarations only: each command reads its options, imports what it needs and hands over. Whatever it raises becomes
words on stderr and a code here.
"""

import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.exits import Exit, Failure
from controller.cli.options import Alias, ConfigOption, JsonOption, LimitOption, NoWaitOption, places_of, span_of

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


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    from controller.settings.problems import ConfigProblems

    try:
        result = typer.main.get_command(app).main(args=arguments, prog_name="gpuwarden", standalone_mode=False)
        return int(result) if isinstance(result, int) else Exit.OK
    except Failure as failure:
        return _ended(failure.words, failure.code)
    except ConfigProblems as problems:
        return _ended(str(problems), Exit.BAD_CONFIG)
    except typer.Abort:
        return _ended("interrupted", Exit.INTERRUPTED)
    except typer.TyperException as error:
        return _ended(error.format_message(), Exit.USAGE)


def _ended(words: str, code: Exit) -> Exit:
    print(words, file=sys.stderr)
    return code


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

    return reading.status(_reaching(config), alias=alias, as_json=as_json, now=_now())


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
    return _awaited(partial(chatting.chat, _settings(config), alias=alias, text=text, key=key))


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
    return _conversed(config, partial(acting.start, alias=alias, wait=not no_wait, limit=span, as_json=as_json))


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
    return _conversed(config, partial(asked, limit=span_of(limit), as_json=as_json))


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
    return _conversed(config, partial(restarting.restart, alias=alias, wait=not no_wait, limit=span, as_json=as_json))


@app.command(rich_help_panel=EVERYDAY)
def explain(alias: Alias, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Why a model is as it is, and what happens next."""
    from controller.cli import reading

    return reading.explain(_reaching(config), alias=alias, as_json=as_json, now=_now())


@app.command(rich_help_panel=TROUBLE)
def owed(
    config: ConfigOption = None,
    every: Annotated[bool, typer.Option("--ended", help="Those that have ended, too.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Every duty to stop something that is not proven yet."""
    from controller.cli import reading

    return reading.owed(_reaching(config), every=every, as_json=as_json, now=_now())


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

    return _conversed(
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
    return _conversed(config, partial(acting.claim, installation=installation, as_json=as_json))


@app.command(rich_help_panel=TROUBLE)
def unblock(
    alias: Annotated[str | None, typer.Argument(help="One model; without it, all.", show_default=False)] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """End a hold: a model that failed, or whose start was refused, may start again."""
    from controller.cli import acting

    return _conversed(config, partial(acting.unblock, alias=alias, as_json=as_json))


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

        return _awaited(partial(run_live, config, wished(spend_limit, live=live, model=model, as_json=as_json)))
    from controller.cli import doctor as examining

    return _awaited(partial(examining.doctor, config, as_json=as_json, seams=examining.Seams()))


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
    settings = _reaching(config)
    if follow:
        return _awaited(partial(recorded.follow, settings, lines=lines, as_json=as_json))
    return _awaited(partial(recorded.show, settings, lines=lines, as_json=as_json))


@evidence_app.command("verify")
def evidence_verify(context: typer.Context, config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """Prove that no line was changed, removed or put in."""
    from controller.cli import evidence as recorded

    return _awaited(partial(recorded.verify, _reaching(config or context.obj), as_json=as_json))


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

    return backups.backup(_reaching(config), to=path, as_json=as_json, now=_now())


@app.command(rich_help_panel=ADMIN)
def restore(
    path: Annotated[Path, typer.Argument(help="A copy made by `backup`.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Put a copy back as the store while the daemon is down; the present store is kept beside it."""
    from controller.cli import backups

    return backups.restore(_reaching(config), copy=path, sure=yes, as_json=as_json, now=_now())


@app.command(rich_help_panel=ADMIN)
def gateway(config: ConfigOption = None) -> int:
    """The fixed address; several may run."""
    from controller.cli import gateway as composition

    return composition.run_gateway(_settings(config))


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
    return _conversed(config, partial(asked, limit=span_of(limit), as_json=as_json))


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
        bool, typer.Option("--online", help="Ask the hub, without a key, for sizes and for who may fetch; keep them.")
    ] = False,
    hub: Annotated[str, typer.Option(metavar="URL", help="Which hub --online asks.")] = "https://huggingface.co",
    as_json: JsonOption = False,
) -> int:
    """What the config would do, need and cost; ends with 78 and every problem if it cannot be taken. Nobody is asked
    without --online.

    Sizes come from model_size_gb, from the hub as it last said, and from each model's own files: its config.json tells
    what a request keeps in memory.
    """
    from controller.cli import config_check as checking

    asked, places = (hub if online else None), places_of(model_files or [])
    return checking.config_check(_settings(config), as_json=as_json, model_files=places, now=_now(), hub=asked)


def _settings(config: Path | None) -> "Settings":
    from controller.cli.link import settings_of

    return settings_of(config)


def _reaching(config: Path | None) -> "Settings":
    from controller.cli.link import settings_to_reach

    return settings_to_reach(config)


def _now() -> datetime:
    from controller.clock import SystemClock

    return SystemClock().now()


def _awaited(act: Callable[[], Awaitable[Exit | None]]) -> Exit:
    import anyio

    return anyio.run(act) or Exit.OK


def _conversed(config: Path | None, act: "Callable[[Daemon], Awaitable[Exit]]") -> Exit:
    from controller.cli.link import asked

    return asked(_reaching(config), act)
