"""Which options do several commands take, and what do the words of an option mean?

What typer cannot read by itself; a word that means nothing ends the command as wrongly used.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from controller.cli.exits import Exit, Failure

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The config file; else $GPUWARDEN_CONFIG, ./config.toml, /etc/gpuwarden."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object with a schema, for scripts.")]
NoWaitOption = Annotated[bool, typer.Option("--no-wait", help="Do not wait for proof: accepted only.")]
LimitOption = Annotated[str | None, typer.Option("--limit", help='Wait no longer than this, as in "10m".')]
Alias = Annotated[str, typer.Argument(help="The model's alias.", show_default=False)]


def places_of(given: list[str]) -> dict[str, Path]:
    found = {alias: Path(place) for alias, _, place in (text.partition("=") for text in given) if alias and place}
    if len(found) != len(given):
        raise Failure(Exit.USAGE, "write --model-files as ALIAS=PATH, once for each model")
    return found


def span_of(text: str | None) -> timedelta | None:
    from controller.settings.values import parse_span

    if text is None:
        return None
    if not (found := parse_span(text)):
        raise Failure(Exit.USAGE, f'not a duration: {text}; write it as in "90s" or "10m"')
    return found
