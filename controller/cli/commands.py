"""How does a command line become an exit code?

The commands hang in one tree: those for every day first, so that the help begins with them. Whatever one raises becomes
words on stderr and a code here.
"""

import sys
from functools import cache

import typer

from controller.cli import everyday, key_commands, running
from controller.cli.exits import Exit, Failure
from controller.cli.groups import app

DECLARED = (everyday, running, key_commands)
"""Imported for what they hang into the tree, in this order."""
tree = cache(typer.main.get_command)
"""Of all that is declared. One process runs one command, but for tests, which run hundreds."""


def run_command_line(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    from controller.settings.problems import ConfigProblems

    try:
        result = tree(app).main(args=arguments, prog_name="gpuwarden", standalone_mode=False)
        return int(result) if isinstance(result, int) else Exit.OK
    except Failure as failure:
        return _ended(failure.words, failure.code)
    except ConfigProblems as problems:
        return _ended(str(problems), Exit.BAD_CONFIG)
    except typer.Abort:
        return _ended("interrupted", Exit.INTERRUPTED)
    except typer.TyperException as error:
        return _ended(error.format_message(), Exit.USAGE)


def _ended(words: str, code: Exit) -> Exit:
    print(words, file=sys.stderr)
    return code
