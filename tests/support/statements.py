"""How is each statement of the store compiled once for all the stores of a run?

An engine keeps what it compiled for as long as it lives. A daemon has one; tests open a store for each, and would spend
a sixth of their time on compiling the same statements for each. Here all engines on aiosqlite keep theirs together: the
dialect is left out of what each is kept under, because it is the same in all of them but for its identity.
"""

from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Connection, Dialect, Engine


class Compiled(dict[Any, Any]):
    """What SQLAlchemy keeps statements in."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_of_any(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_of_any(key), compiled)


def _of_any(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return key[1:] if isinstance(key[0], Dialect) else key


_COMPILED: Final = Compiled()


@event.listens_for(Engine, "engine_connect")
def _keep_together(connection: Connection) -> None:
    if connection.dialect.driver == "aiosqlite":
        connection.execution_options(compiled_cache=_COMPILED)
