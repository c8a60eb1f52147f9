"""Does a config check say what would run, and what stands in its way?"""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Ended, Run
from tests.core import model_samples as samples
from tests.test_settings import SHORT

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
SIZED = f"{SHORT}model_size_gb = 16.4\nmax_usd_per_hour = 0.99\n"


def test_config_check_shows_the_models_and_what_keys_are_missing(run: Run) -> None:
    ended = run("config", "check")
    assert ended.code == 78
    for words in ("qwen", "vllm/vllm-openai:v0.31.0", "NVIDIA L40S, NVIDIA A40", "30m", "usd_per_day 40"):
        assert words in ended.out
    assert "keys/runpod: the account's key is missing" in ended.err
    assert json.loads(run("config", "check", "--json").out)["models"][0]["idle_after"] == "30m"


def test_config_check_passes_once_the_keys_are_there_and_private(run: Run, folder: Path) -> None:
    (folder / "keys").mkdir()
    for name in ("runpod", "qwen"):
        (folder / "keys" / name).write_text("a-key")
        (folder / "keys" / name).chmod(0o600)
    assert run("config", "check").code == 0
    (folder / "keys" / "qwen").chmod(0o644)
    loose = run("config", "check")
    assert (loose.code, "keys/qwen" in loose.err) == (78, True)


def test_a_credential_is_no_fault_outside_its_service(run: Run, folder: Path) -> None:
    with (folder / "config.toml").open("a") as config:
        config.write('key_credential = "model_qwen"\n[runpod]\nkey_credential = "runpod"\n')
    ended = run("config", "check")
    assert ended.code == 0
    assert "model_qwen" in ended.err


def test_config_check_foresees_what_the_windows_say(run: Run, folder: Path) -> None:
    with (folder / "config.toml").open("a") as config:
        config.write('off = ["00:00-24:00"]\n')
    ended = run("config", "check")
    assert re.search(r"qwen: off until \d{4}-\d\d-\d\d \d\d:\d\d UTC \(windows in UTC\)", ended.err)
    assert json.loads(run("config", "check", "--json").out)["models"][0]["schedule"]["stance"] == "off"


@pytest.fixture
def keyed(run: Run, folder: Path) -> Run:
    """With the keys there, what is told is about the config alone."""
    (folder / "keys").mkdir()
    for name in ("runpod", "qwen"):
        (folder / "keys" / name).write_text("a-key")
        (folder / "keys" / name).chmod(0o600)
    return run


def files(folder: Path, **contents: object) -> Path:
    """The model's files where they are looked for, each by its name with __ for . in it."""
    place = folder / "models" / "qwen"
    place.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (place / name.replace("__", ".")).write_text(json.dumps(content))
    return place


def columns(ended: Ended, first: str) -> dict[str, str]:
    """The first model's row of the table whose second column is `first`, by the header's words."""
    lines = ended.out.splitlines()
    (number,) = [number for number, line in enumerate(lines) if line.split()[1:2] == [first]]
    split = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[number : number + 2]]
    return dict(zip(*split, strict=True))


def test_the_example_is_checked_into_a_table_of_sizes_and_one_of_prices(keyed: Run, folder: Path) -> None:
    shutil.copyfile(EXAMPLE, folder / "config.toml")
    ended = keyed("config", "check")
    assert ended.code == 0
    assert columns(ended, "weights") == {
        "model": "qwen",
        "weights": "unknown",
        "cache a request": "cannot size",
        "cards": "1 × NVIDIA L40S (48 GB), NVIDIA A40 (48 GB)",
        "fits": "unknown",
        "room left a card": "unknown",
        "requests at once": "unknown",
    }
    assert columns(ended, "disk") == {
        "model": "qwen",
        "disk": "80 GB",
        "volume": "-",
        "$/h in the catalog": "unknown",
        "$/h at most": "the catalog's",
        "start within": "30m, at most 1h",
        "a start costs at most": "the day's limit",
    }
    assert f"qwen: cannot size its cache: there is no config.json of the model; put it into {folder}" in ended.err


def test_a_model_with_its_files_is_sized_and_priced(keyed: Run, folder: Path) -> None:
    (folder / "config.toml").write_text(SIZED)
    files(folder, config__json=samples.QWEN3_8B)
    ended = keyed("config", "check")
    assert ended.code == 0
    memory, money = columns(ended, "weights"), columns(ended, "disk")
    assert (memory["weights"], memory["cache a request"], memory["fits"]) == ("16.4 GB", "4.9 GB", "yes")
    assert (memory["room left a card"], memory["requests at once"]) == ("19.8 GB", "5")
    # 300 s + 16.4 × 45 s = 17m18s, and twice that at 0.99 an hour.
    assert (money["disk"], money["$/h at most"]) == ("52 GB", "$0.99")
    assert (money["start within"], money["a start costs at most"]) == ("17m18s, at most 34m36s", "$0.58")


def test_scripts_get_the_same_in_bytes(keyed: Run, folder: Path) -> None:
    (folder / "config.toml").write_text(SIZED)
    files(folder, config__json=samples.QWEN3_8B)
    found = json.loads(keyed("config", "check", "--json").out)
    card = {
        "card_gb": 48, "fits": True, "left_bytes": 19_820_678_144, "requests_at_once": 5, "usd_per_hour": None,
    }  # fmt: skip
    sizing = found["models"][0]["sizing"]
    notes = sizing.pop("notes")
    assert (found["schema"], found["faults"]) == (1, [])
    assert sizing == {
        "weights_bytes": 16_400_000_000,
        "context": 32_768,
        "cache_bytes": 4_831_838_208,
        "cannot_size": None,
        "fits": True,
        "cards": [{"gpu": "NVIDIA L40S", **card}, {"gpu": "NVIDIA A40", **card}],
        "disk_gb": 52,
        "volume_gb": None,
        "usd_per_hour": None,
        "usd_per_hour_max": "0.99",
        "price_source": None,
        "priced_at": None,
        "startup_longest": "34m36s",
        "cold_start_usd": None,
        "cold_start_usd_max": "0.58",
    }
    assert notes == ["no hf_token_secret: a download that took 646 s with a token took 1646 s without"]


def test_what_is_not_known_is_null_for_scripts(keyed: Run) -> None:
    sizing = json.loads(keyed("config", "check", "--json").out)["models"][0]["sizing"]
    unknown = ("weights_bytes", "cache_bytes", "fits", "usd_per_hour_max", "cold_start_usd_max")
    assert [sizing[key] for key in unknown] == [None] * 5
    assert sizing["cannot_size"].startswith("there is no config.json")


def test_files_may_be_named_as_a_folder_or_as_the_config_json(keyed: Run, folder: Path) -> None:
    (folder / "config.toml").write_text(SIZED)
    elsewhere = files(folder, config__json=samples.QWEN3_8B).rename(folder / "elsewhere")
    for place in (elsewhere, elsewhere / "config.json"):
        ended = keyed("config", "check", "--model-files", f"qwen={place}")
        assert columns(ended, "weights")["cache a request"] == "4.9 GB"


def test_gpu_types_that_do_not_agree_get_a_word_each(keyed: Run, folder: Path) -> None:
    (folder / "config.toml").write_text(SIZED.replace("NVIDIA A40", "NVIDIA GeForce RTX 4090"))
    files(folder, config__json=samples.QWEN3_8B)
    ended = keyed("config", "check")
    assert (ended.code, columns(ended, "weights")["fits"]) == (0, "yes, no")
    assert columns(ended, "weights")["room left a card"] == "19.8 GB, -1.8 GB"
    assert columns(ended, "weights")["requests at once"] == "5, 0"
    assert "qwen: does not fit 1 × NVIDIA GeForce RTX 4090: 1.8 GB a card are missing" in ended.err


def test_an_architecture_that_is_not_known_cannot_be_sized(keyed: Run, folder: Path) -> None:
    (folder / "config.toml").write_text(SIZED)
    files(folder, config__json={"model_type": "hyena_ssm"})
    ended = keyed("config", "check")
    assert (ended.code, columns(ended, "weights")["cache a request"]) == (0, "cannot size")
    assert "qwen: cannot size its cache: the architecture hyena_ssm is not known" in ended.err


def test_cards_that_cannot_share_the_model_end_with_78_and_the_mend(keyed: Run, folder: Path) -> None:
    (folder / "config.toml").write_text(f"{SIZED}gpu_count = 3\n")
    files(folder, config__json=samples.QWEN3_8B)
    ended = keyed("config", "check")
    assert ended.code == 78
    assert "models.qwen.gpu_count = 3: the model's 32 attention heads cannot be shared equally by 3" in ended.err
    assert "write one of 1, 2, 4, 8, 16" in ended.err
    assert json.loads(keyed("config", "check", "--json").out)["faults"][0].endswith("write one of 1, 2, 4, 8, 16")


def test_files_that_cannot_be_read_end_with_78_and_their_place(keyed: Run, folder: Path) -> None:
    (files(folder) / "config.json").write_text("{")
    ended = keyed("config", "check")
    assert (ended.code, f"{folder}/models/qwen/config.json: not JSON; give the folder" in ended.err) == (78, True)
    gone = keyed("config", "check", "--model-files", f"qwen={folder}/gone")
    assert (gone.code, f"{folder}/gone: no such file or directory; give the folder" in gone.err) == (78, True)


@pytest.mark.parametrize(("given", "code"), [("qwen", 2), ("=x", 2), ("qwen=", 2), ("other=x", 5)])
def test_files_of_no_model_are_told_so(keyed: Run, given: str, code: int) -> None:
    ended = keyed("config", "check", "--model-files", given)
    assert (ended.code, "--model-files" in ended.err) == (code, True)


def test_words_of_a_model_s_files_cannot_move_the_cursor(keyed: Run, folder: Path) -> None:
    files(folder, config__json={"model_type": "a\x1b[2J\nqwen: fits"})
    ended = keyed("config", "check")
    assert "\x1b" not in ended.out + ended.err
    assert "the architecture with an odd model_type is not known" in ended.err
