"""How is the daemon asked to start a model, and what did it say?

The answer carries the model's view, so that a caller who wants to be told at once need not wait for the table.
"""

from datetime import timedelta
from enum import Enum

import structlog

from controller.api.client import DaemonClient, Problem, Unreachable
from controller.gateway.contact import Contact
from controller.gateway.routes import RouteTable

log = structlog.get_logger(__name__)


class Word(Enum):
    HEARD = "heard"
    UNKNOWN_MODEL = "unknown-model"
    TROUBLE = "trouble"
    """The daemon is there and cannot do it now; its reason comes with the table, if any."""
    SILENCE = "silence"


class Starts:
    def __init__(self, *, name: str, daemon: DaemonClient, contact: Contact, table: RouteTable) -> None:
        self._name = name
        self._daemon = daemon
        self._contact = contact
        self._table = table

    async def ask(self, alias: str, *, waiting: int, returning: timedelta) -> Word:
        return await self._say(alias, waiting=waiting, returning=returning, left=False)

    async def leave(self, alias: str, *, waiting: int, returning: timedelta) -> Word:
        """The last of those who waited has left without an answer: asks for nothing. Others may have come since."""
        return await self._say(alias, waiting=waiting, returning=returning, left=True)

    async def _say(self, alias: str, *, waiting: int, returning: timedelta, left: bool) -> Word:
        asked_at = self._table.version
        try:
            raw = await self._daemon.start(alias, gateway=self._name, waiting=waiting, returning=returning, left=left)
            self._table.overlay(alias, raw, asked_at=asked_at)
        except Problem as problem:
            self._contact.reached()
            log.warning("start_refused", alias=alias, answer=problem.status, code=problem.code)
            return Word.UNKNOWN_MODEL if problem.status == 404 else Word.TROUBLE
        except (Unreachable, KeyError, TypeError, ValueError) as error:
            self._contact.missed(f"{type(error).__name__}: {error}")
            return Word.SILENCE
        self._contact.reached()
        return Word.HEARD
