"""Do the files beside the units say what the tools that read them expect?"""

import getpass
import grp
import os
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
LOGROTATE = shutil.which("logrotate", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@pytest.mark.process
@pytest.mark.skipif(LOGROTATE is None, reason="logrotate is not installed here")
@pytest.mark.parametrize(
    ("right", "wrong", "understood"), [("", "", True), ("delaycompress", "delaycompression", False)]
)
def test_logrotate_reads_the_rule(tmp_path: Path, right: str, wrong: str, understood: bool) -> None:
    rule = (DEPLOY / "logrotate.d" / "gpuwarden").read_text().replace(right, wrong)
    # The daemon's user does not exist on a developer's machine.
    owner = f"{getpass.getuser()} {grp.getgrgid(os.getgid()).gr_name}"
    rule = rule.replace("su gpuwarden gpuwarden\n", "").replace("gpuwarden gpuwarden", owner)
    written = tmp_path / "rule"
    written.write_text(rule.replace("/var/log/gpuwarden", str(tmp_path)))
    (tmp_path / "evidence.jsonl").write_text("{}\n")
    answer = subprocess.run(
        [str(LOGROTATE), "-d", "-s", str(tmp_path / "state"), str(written)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ("error" not in answer.stderr) is understood, answer.stderr


def test_rotation_renames_and_asks_for_a_reopen() -> None:
    rule = (DEPLOY / "logrotate.d" / "gpuwarden").read_text()
    directives = {line.split()[0] for line in rule.splitlines() if line.strip() and not line.startswith("#")}
    assert {"create", "delaycompress", "su"} <= directives
    assert "copytruncate" not in directives
    assert "--signal=USR1" in rule


def test_both_users_of_the_units_are_declared() -> None:
    declared = {
        line.split()[1]
        for line in (DEPLOY / "sysusers.d" / "gpuwarden.conf").read_text().splitlines()
        if line.startswith("u ")
    }
    units = (unit.read_text() for unit in (DEPLOY / "systemd").glob("*.service"))
    used = {line.partition("=")[2] for unit in units for line in unit.splitlines() if line.startswith("User=")}
    assert used == declared
