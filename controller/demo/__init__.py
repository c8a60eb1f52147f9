"""The demo: the whole story on one machine, with a real model server and nothing rented.

`stage` sets it up in a temporary folder and takes it down; `table` shows what happens; `story` plays and checks it by
itself.
"""

import sys


def main(script: bool) -> int:
    """Run until Ctrl-C, or with `script` play the story once; returns the exit code."""
    from controller.demo.stage import run  # the CLI imports this package for its name alone

    if sys.platform != "linux":
        sys.stderr.write("the demo needs Linux\n")
        return 1
    return run(script=script)
