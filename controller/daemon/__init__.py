"""The daemon: what `gpuwarden run` is made of.

`launches` joins config, provider and model server; `build` makes a daemon (`built`) on the seams, with the tasks that
`wiring` puts together; `modes` decides how it may start; `serving` adds sockets, signals and notifications.
"""

import gc
from pathlib import Path


def main(config: Path | None) -> int:
    """Run the daemon until a signal; returns the exit code."""
    # Importing makes very many objects and drops none: looking for garbage meanwhile was a fifth of the start.
    gc.disable()
    import controller.log  # noqa: F401 - first, so that no other importer of structlog brings rich along
    from controller.daemon.serving import main as serve

    gc.enable()
    gc.freeze()
    return serve(config)
