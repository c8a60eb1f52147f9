"""Does each way to get a config wrong end with words that a newcomer can act on?

The files lie in `broken_configs/`. Each begins with what has to be said of it: the key, the value where one is written
and is no secret, the line where there is one, and how to mend it.
"""

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Run

FOLDER = Path(__file__).parent / "broken_configs"
BROKEN = sorted(FOLDER.glob("*.toml"))


def test_there_are_enough_of_them() -> None:
    assert len(BROKEN) >= 20


@pytest.mark.parametrize("broken", BROKEN, ids=lambda path: path.stem)
def test_a_broken_config_ends_with_78_and_names_key_value_line_and_mend(run: Run, folder: Path, broken: Path) -> None:
    text = broken.read_text()
    said = dict(re.findall(r"(?m)^# (key|value|line|mend): (.+)$", text))
    (folder / "config.toml").write_text(text)
    ended = run("config", "check")
    assert ended.code == 78
    subject = f"{said['key']} = {said['value']}" if "value" in said else said["key"]
    place = f"{folder}/config.toml:{said['line']}" if "line" in said else f"{folder}/config.toml"
    (line,) = [line for line in ended.err.splitlines() if line.startswith(f"{place}: {subject}: ")]
    assert line.endswith(f"; {said['mend']}")
    assert "rpa_" not in ended.err
