"""Does a config check say what would run, and what stands in its way?"""

import json
from pathlib import Path

from tests.cli.conftest import Run


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
