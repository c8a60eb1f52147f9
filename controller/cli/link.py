"""How does a command reach the daemon?

Through the operators' socket that the config names. What the daemon refuses, and that it does not answer, becomes a
`Failure` with its code here, so that no command has to know.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import anyio

from controller.api.client import DaemonClient, Problem, Unreachable
from controller.cli.exits import Exit, Failure, exit_of
from controller.cli.output import say
from controller.http1 import Pool
from controller.settings import ConfigProblems, Settings, find_config, load

ACT_LIMIT: Final = timedelta(seconds=60)
"""An act waits for its turn to write, and gives a locked store a quarter of a minute: longer than two of these."""

Body = dict[str, Any]
T = TypeVar("T")


class Daemon(Protocol):
    """What commands ask of the daemon; raises Failure."""

    async def get(self, path: str, *, limit: timedelta | None = None) -> Body: ...

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Body: ...


class Link:
    """The daemon behind a socket."""

    def __init__(self, socket_path: Path) -> None:
        self._pool = Pool()
        self._client = DaemonClient(self._pool, f"unix:{socket_path}:")
        self._socket = socket_path

    def close(self) -> None:
        self._pool.close()

    async def get(self, path: str, *, limit: timedelta | None = None) -> Body:
        ask = self._client.get if limit is None else partial(self._client.get, limit=limit)
        return await self._answered(lambda: ask(path))

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Body:
        return await self._answered(lambda: self._client.post(path, body, limit=ACT_LIMIT))

    async def _answered(self, ask: Callable[[], Awaitable[Body]]) -> Body:
        try:
            return await ask()
        except Unreachable as error:
            raise Failure(
                Exit.UNREACHABLE,
                f"the daemon does not answer at {self._socket} ({error}); is it running? `gpuwarden up` starts it",
            ) from error
        except Problem as error:
            raise Failure(exit_of(error.code), error.detail or error.code) from error


def settings_of(config: Path | None) -> Settings:
    """Raises ConfigProblems."""
    return load(find_config(config, os.environ), os.environ)


def settings_to_reach(config: Path | None) -> Settings:
    """The same for those who only have to find the daemon: a config that went bad must not hide what is owed."""
    path = find_config(config, os.environ)
    try:
        return load(path, os.environ)
    except ConfigProblems as problems:
        from controller.daemon.modes import last_accepted  # all of the daemon, for the one call in a thousand

        found = last_accepted(path, os.environ)
        if found is None:
            raise
        say(f"{problems}\nthe last config that was accepted is used")
        return found


def asked(settings: Settings, ask: Callable[[Daemon], Awaitable[T]]) -> T:
    """Run one conversation with the daemon."""

    async def talk() -> T:
        with closing(Link(settings.places.api_socket)) as daemon:
            return await ask(daemon)

    return anyio.run(talk)
