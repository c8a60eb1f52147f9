"""How does an operator's word that a config may stop everything that runs get onto the record?

Asked and answered in one transaction: what would be stopped is what runs now. Where nothing needs a confirmation none
is kept, so that it cannot be found later by a config that stops what was started since.
"""

from collections.abc import Collection

from controller.core.removal import Confirmed, Removal, removal, running
from controller.store.transaction import Tx


def confirm(tx: Tx, *, digest: str, configured: Collection[str]) -> Removal | None:
    """Vouch for the config of this digest, which has these models. Returns what it may stop; `None` if it would not
    stop everything, and then nothing is kept."""
    found = removal(running(tx.book.live()), configured)
    if found is not None:
        tx.put_confirmed(Confirmed(digest=digest, at=tx.now))
        tx.line("config.confirmed", detail={"digest": digest, "text": found.text, "by": "operator"})
    return found
