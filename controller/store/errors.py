"""What can the store refuse, and what can its caller do next?"""

from pathlib import Path


class StoreError(Exception):
    """The store could not do it."""


class StoreInUse(StoreError):
    """Another daemon holds this file: end it, or give this one a `state_dir` of its own."""

    def __init__(self, path: Path, holder: str | None) -> None:
        by = f" by process {holder}" if holder else ""
        super().__init__(f"{path} is in use{by}: one daemon a store; stop the other one or set another state_dir")
        self.path = path


class StoreTaken(StoreError):
    """Another daemon began on this file after this one: nothing that this one remembers of it is true any more."""

    ends_daemon = True
    """Supervision ends the daemon at once: trying again would be acting on what is another's."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"another daemon has taken over {path}: this one must end; was its .lock file removed?")
        self.path = path


class StoreNewer(StoreError):
    """A newer version wrote it: upgrade, or restore the backup made before that upgrade."""

    def __init__(self, path: Path, found: str, known: str) -> None:
        super().__init__(
            f"{path} has schema {found}, this version knows {known}: upgrade gpuwarden or restore a backup"
        )
        self.path = path


class StoreDamaged(StoreError):
    """It is not the database that was written: restore a backup."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} is damaged ({problem}): restore a backup; nothing is created meanwhile")
        self.path = path


class StoreForeign(StoreError):
    """It is another owner's: name the copy that was meant, or the config that it belongs to."""

    def __init__(self, path: Path, whose: str) -> None:
        super().__init__(f"{path} belongs to {whose}, not to this config: nothing was changed")
        self.path = path


class StoreUnwritable(StoreError):
    """It could not be written now (disk full, locked, read-only); nothing of the transaction was kept."""

    passing = True
    """A new process would meet it as well: supervision goes on trying."""


class StoreUnreadable(StoreError):
    """It could not be read now (locked, a failing disk)."""

    passing = True
    """As above: to end for it would leave what is owed to nobody."""


class Stale(StoreError):
    """Somebody was faster: the row is not what the decision rested on. Drop the decision and look again."""


class Overtaken(Stale):
    """Another process wrote to the file: what is on record is read anew before the next decision."""
