"""Are the hours of a schedule read as they are written, and refused where they are not?"""

from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo, reset_tzpath

import pytest

from controller.core.schedule import Window
from controller.settings import ConfigProblems, load
from controller.settings.windows import window, zone
from tests.support.zones import CENTRAL_EUROPE, zone_file

CONFIG = """
name = "acme"
usd_per_day = 40

[models.qwen]
model = "Qwen/Qwen3-8B"
image = "vllm/vllm-openai:v0.31.0"
gpus = ["NVIDIA L40S"]
context = 32768
"""
ALL = frozenset(range(7))


def made(days: frozenset[int], begin: int, end: int) -> Window:
    return Window(days=days, begin_minute=begin, end_minute=end)


def problem(tmp_path: Path, line: str) -> tuple[str, str, int | None]:
    """Why it is refused, how it is mended, and on which line."""
    path = tmp_path / "config.toml"
    path.write_text(CONFIG + line)
    path.chmod(0o600)
    with pytest.raises(ConfigProblems) as refused:
        load(path, {})
    (found,) = refused.value.problems
    return found.why, found.mend, found.line


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Mon-Fri 08:00-18:00", made(frozenset({0, 1, 2, 3, 4}), 480, 1080)),
        ("Sat,Sun", made(frozenset({5, 6}), 0, 1440)),
        ("22:00-06:00", made(ALL, 1320, 1800)),
        ("Fri-Mon 00:00-24:00", made(frozenset({4, 5, 6, 0}), 0, 1440)),
        ("Mon,Wed-Thu 23:59-00:00", made(frozenset({0, 2, 3}), 1439, 1440)),
        ("Sun-Sun 00:01-00:00", made(frozenset({6}), 1, 1440)),
    ],
)
def test_a_window_is_days_and_hours(text: str, read: Window) -> None:
    assert window(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "mon 08:00-18:00", "Mon-Fri  08:00-18:00", "Mon-Fri08:00-18:00", "8:00-18:00", "08:00",
        "08:00-18:00 Mon", "Mon-Fri, 08:00-18:00", "Mon-Fri 08:00 - 18:00", "Funday", "Mon 08:00-18:00\n", "always",
    ],
)  # fmt: skip
def test_nothing_else_is_a_window(tmp_path: Path, text: str) -> None:
    line = f"off = [{text.encode('unicode_escape').decode()!r}]".replace("'", '"')
    why, mend, number = problem(tmp_path, line)
    assert (why, number) == ("entry 1 is not a window", 10)
    assert '"Mon-Fri 08:00-18:00"' in mend


@pytest.mark.parametrize("hours", ["24:00-06:00", "29:00-06:00", "08:00-24:01"])
def test_an_hour_that_no_clock_shows_is_refused(tmp_path: Path, hours: str) -> None:
    why, _, _ = problem(tmp_path, f'keep_warm = ["{hours}"]')
    assert why == "entry 1 names an hour that no clock shows"


def test_a_window_without_length_is_refused(tmp_path: Path) -> None:
    why, mend, _ = problem(tmp_path, 'keep_warm = ["Mon", "08:00-08:00"]')
    assert (why, mend) == ("entry 2 begins when it ends", "leave the hours out for whole days, or name two times")


def test_at_most_32_windows_are_taken(tmp_path: Path) -> None:
    windows = ", ".join(f'"{hour:02}:{minute:02}-23:59"' for hour in range(11) for minute in (0, 1, 2))
    assert problem(tmp_path, f"off = [{windows}]")[0] == "a list of 33"


# Zones


@pytest.fixture
def zones(tmp_path: Path) -> Path:
    """A machine that knows one zone."""
    folder = tmp_path / "zoneinfo"
    (folder / "Europe").mkdir(parents=True)
    (folder / "Europe" / "Testburg").write_bytes(zone_file(CENTRAL_EUROPE))
    return folder


@pytest.fixture(autouse=True)
def _paths_as_before() -> Iterator[None]:
    yield
    reset_tzpath()
    ZoneInfo.clear_cache()


def test_a_zone_of_this_machine_is_taken(tmp_path: Path, zones: Path) -> None:
    reset_tzpath([zones])
    path = tmp_path / "config.toml"
    path.write_text(CONFIG + 'zone = "Europe/Testburg"\nkeep_warm = ["Mon-Fri 08:00-18:00"]\n')
    path.chmod(0o600)
    schedule = load(path, {}).model_policies()["qwen"].schedule
    assert (str(schedule.zone), schedule.warm) == ("Europe/Testburg", (window("Mon-Fri 08:00-18:00"),))


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("Europe/Testberg", 'did you mean "Europe/Testburg"?'),
        ("Mars", 'write one as in "Europe/Berlin"'),
        ("Europe", None),
        ("../etc/passwd", 'write one as in "Europe/Berlin"'),
    ],
)
def test_a_zone_that_is_none_is_refused_with_the_nearest(
    tmp_path: Path, zones: Path, name: str, mend: str | None
) -> None:
    reset_tzpath([zones])
    why, said, number = problem(tmp_path, f'zone = "{name}"')
    assert (why, number) == ("no time zone", 10)
    assert mend is None or said == mend


def test_a_machine_without_any_zone_says_so_and_still_knows_utc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    monkeypatch.setattr("zoneinfo.ZoneInfo", _none)
    why, mend, _ = problem(tmp_path, 'zone = "Europe/Berlin"')
    assert why == "this machine has no data of time zones"
    assert "install tzdata" in mend
    assert str(zone("UTC")) == "UTC"


def _none(name: str) -> object:
    raise FileNotFoundError(name)
