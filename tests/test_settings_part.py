"""Is what is left of a bad config safe to look around with?"""

from pathlib import Path

import pytest

from controller.settings.part import load_in_part
from tests.test_settings import SHORT

OTHER = '[models."a.b"]\nmodel = "x/y"\nimage = "vllm/vllm-openai:v0.31.0"\ngpus = ["NVIDIA A40"]\ncontext = 4096\n'


def left(tmp_path: Path, text: str, **environment: str) -> tuple[list[str] | None, int]:
    """The aliases that are left, and how many problems there are."""
    file = tmp_path / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    settings, problems = load_in_part(file, environment)
    return None if settings is None else list(settings.models), len(problems)


def test_a_good_config_is_whole(tmp_path: Path) -> None:
    assert left(tmp_path, SHORT + OTHER) == (["qwen", "a.b"], 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gpus = [", "gpuss = ["),
        ("context = 4096", "context = 1"),
        ('v0.31.0"\ngpus = ["NVIDIA A40', 'v0.1.0"\ngpus = ["NVIDIA A40'),
        ('model = "x/y"', ""),
    ],
)
def test_a_model_at_fault_is_left_out(tmp_path: Path, old: str, new: str) -> None:
    aliases, problems = left(tmp_path, (SHORT + OTHER).replace(old, new))
    assert (aliases, problems > 0) == (["qwen"], True)


@pytest.mark.parametrize("more", ["[policy]\nlease = 3\n", '[gateway]\nlisten = "0.0.0.0:0"\n', "[alarms]\nx = 1\n"])
def test_a_section_that_names_no_account_falls_back_to_its_defaults(tmp_path: Path, more: str) -> None:
    assert left(tmp_path, SHORT + more) == (["qwen"], 1)


@pytest.mark.parametrize(
    "text",
    [
        SHORT + "[runpod]\nbase_url = 3\n",
        SHORT + '[runpodd]\nbase_url = "http://127.0.0.1:1/v2"\n',
        SHORT.replace("name =", "nam ="),
        SHORT.replace("acme", "Acme"),
        "state_dir = 3\n" + SHORT,
        'models = 3\nname = "acme"\n',
        SHORT + "[models",
    ],
)
def test_nothing_is_left_where_the_account_or_its_place_is_in_doubt(tmp_path: Path, text: str) -> None:
    aliases, problems = left(tmp_path, text)
    assert (aliases, problems > 0) == (None, True)


@pytest.mark.parametrize("name", ["GPUWARDEN_RUNPOD__BASEURL", "GPUWARDEN_POLICY__LEASE"])
def test_nothing_is_left_where_the_environment_is_at_fault(tmp_path: Path, name: str) -> None:
    assert left(tmp_path, SHORT, **{name: "x"})[0] is None


def test_a_file_that_others_may_write_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(SHORT)
    file.chmod(0o666)
    settings, problems = load_in_part(file, {})
    assert (settings, len(problems)) == (None, 1)
