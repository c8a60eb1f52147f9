"""Which commands hand out keys to clients?

Declarations only, as in `everyday`: the work is in `client_keys`.
"""

from typing import Annotated

import typer

from controller.cli.groups import ADMIN, app, settings_from
from controller.cli.options import ConfigOption, JsonOption

keys_app = typer.Typer(help="Clients' keys for the gateway, and what each may do.", no_args_is_help=True)
app.add_typer(keys_app, name="keys", rich_help_panel=ADMIN)

Name = Annotated[str, typer.Argument(help="Whose key it is: what logs and metrics say.", show_default=False)]


@keys_app.command("add")
def add(
    name: Name,
    models: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these models (ALIAS, or ALIAS:ADAPTER). Default: all.")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(metavar="N", help="In any 60 seconds, for each process of the gateway.")
    ] = None,
    concurrent: Annotated[
        int | None, typer.Option(metavar="N", help="At once, for each process of the gateway.")
    ] = None,
    usd_per_day: Annotated[
        str | None, typer.Option(metavar="USD", help="Its share of the machines that it uses, each UTC day.")
    ] = None,
    config: ConfigOption = None,
) -> int:
    """Make a key, and show it this once. With the first one the gateway begins to ask for keys."""
    from controller.cli import client_keys

    limits = client_keys.Limits(models, requests_per_minute, concurrent, usd_per_day)
    return client_keys.add(settings_from(config), name, limits)


@keys_app.command("list")
def list_keys(config: ConfigOption = None, as_json: JsonOption = False) -> int:
    """The keys that were handed out, and what each may do; never a key itself."""
    from controller.cli import client_keys

    return client_keys.show(settings_from(config), as_json=as_json)


@keys_app.command("revoke")
def revoke(name: Name, config: ConfigOption = None) -> int:
    """Take a key back. Requests that are open end as they would; the gateway goes on asking for keys."""
    from controller.cli import client_keys

    return client_keys.revoke(settings_from(config), name)
