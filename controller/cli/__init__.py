"""How does an operator speak to gpuwarden?

Data goes to stdout, words to stderr; every command ends with one of the codes of `exits`. What a command needs is
imported when it runs, so that `status` does not pay for the daemon.
"""


def main() -> int:
    """The console script. Returns the exit code."""
    from controller.cli.commands import run_command_line

    return run_command_line()
