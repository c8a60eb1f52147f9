"""How is gpuwarden started without its command on the PATH? As `python -m controller`, with the same arguments."""

import sys

from controller.cli import main

if __name__ == "__main__":
    sys.exit(main())
