"""Does systemd understand the units whole, and how exposed are they?

`systemd-analyze verify` ends well on keys and values it does not know and only prints a line, so any line is a failure.
No systemd needs to run for either question.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
BOTH = ("gpuwarden.service", "gpuwarden-gateway.service")
PROGRAM = "/usr/lib/gpuwarden/bin/gpuwarden"
EXPOSURE_MAX = 2.0

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here"),
]


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The shipped units, with a program that exists on this machine."""
    for unit in UNITS.iterdir():
        (tmp_path / unit.name).write_text(unit.read_text().replace(PROGRAM, "/bin/true"))
    return tmp_path


def complaints(units: Path) -> str:
    answer = analyze("verify", *sorted(units.iterdir()))
    return answer.stdout + answer.stderr


def test_systemd_has_nothing_to_say_about_the_units(units: Path) -> None:
    assert complaints(units) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("WatchdogSec=60", "WatchDogSecs=60"), ("Type=notify", "Type=notified"), ("/bin/true", "/no/such/program")],
)
def test_a_mistake_in_a_unit_is_heard(units: Path, right: str, wrong: str) -> None:
    daemon = units / "gpuwarden.service"
    daemon.write_text(daemon.read_text().replace(right, wrong))
    assert complaints(units) != ""


@pytest.mark.parametrize("unit", BOTH)
def test_exposure_stays_low(units: Path, unit: str) -> None:
    answer = analyze("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX * 10:.0f}", units / unit)
    exposure = re.search(r"Overall exposure level[^:]*: ([\d.]+)", answer.stdout)
    assert exposure is not None, answer.stderr
    assert float(exposure[1]) <= EXPOSURE_MAX
    assert answer.returncode == 0


def settings_of(unit: str) -> list[tuple[str, str]]:
    lines = (UNITS / unit).read_text().splitlines()
    return [(key, value) for key, _, value in (line.partition("=") for line in lines if not line.startswith("#"))]


def test_the_gateway_s_unit_knows_no_key_that_can_rent() -> None:
    daemon, gateway = (dict(settings_of(unit)) for unit in BOTH)
    provider_key = Path(daemon["LoadCredential"].partition(":")[2])
    loaded = Path(gateway["LoadCredential"].partition(":")[2])
    assert loaded not in (provider_key, *provider_key.parents)
    assert gateway["User"] != daemon["User"]
    assert "SupplementaryGroups" not in gateway


@pytest.mark.parametrize("unit", BOTH)
def test_a_service_stays_up_but_for_a_config_at_fault(unit: str) -> None:
    settings = dict(settings_of(unit))
    assert settings["Restart"] == "always"
    assert settings["StartLimitIntervalSec"] == "0"
    assert settings["RestartPreventExitStatus"] == "78"


def test_both_services_belong_to_the_target() -> None:
    target = dict(settings_of("gpuwarden.target"))
    assert target["Wants"].split() == list(BOTH)
    for unit in BOTH:
        settings = dict(settings_of(unit))
        assert settings["PartOf"] == settings["WantedBy"] == "gpuwarden.target"
