"""The daemon: what `gpuwarden run` is made of.

`launches` joins config, provider and model server; `build` wires the parts on the seams; `modes` decides how it may
start; `serving` adds sockets, signals and notifications.
"""

from pathlib import Path


def main(config: Path | None) -> int:
    """Run the daemon until a signal; returns the exit code."""
    from controller.daemon.serving import main as serve  # the CLI imports this package for its name alone

    return serve(config)
