"""What is written down of the keys that were handed out, and who may have written it."""

import json
import os
import stat
import threading
from decimal import Decimal
from pathlib import Path

import pytest

from controller.ids import SystemRandomness
from controller.settings import ConfigProblems, HandedKey
from controller.settings.client_keys import PREFIX, change_keys, digest_of, made_key, read_keys
from tests.test_settings import SHORT, taken

DIGEST = f"sha256:{'1' * 64}"


def written(folder: Path, content: object, mode: int = 0o600) -> Path:
    path = folder / "clients.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


def holding(*names: str) -> dict[str, object]:
    return {"schema": 1, "keys": [{"name": name, "digest": digest_of(name)} for name in names]}


def test_a_key_has_256_random_bits_and_is_known_by_its_beginning() -> None:
    keys = {made_key(SystemRandomness()) for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith(PREFIX) and len(key) == len(PREFIX) + 64 for key in keys)


def test_what_is_written_is_read_back_is_private_and_holds_no_key(tmp_path: Path) -> None:
    path = tmp_path / "state" / "clients.json"
    key = HandedKey(
        name="alice", digest=digest_of("secret-key"), models=("qwen",), concurrent=2, usd_per_day=Decimal("0.50")
    )
    change_keys(path, lambda keys: (*keys, key))
    assert read_keys(path) == (key,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret-key" not in path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == ["clients.json"]


def test_where_nothing_was_handed_out_there_is_no_file(tmp_path: Path) -> None:
    assert read_keys(tmp_path / "clients.json") is None


def test_many_who_add_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "clients.json"

    def add(name: str) -> None:
        change_keys(path, lambda keys: (*keys, HandedKey(name=name, digest=digest_of(name))))

    threads = [threading.Thread(target=add, args=(f"k{number}",)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.name for key in read_keys(path) or ()} == {f"k{number}" for number in range(20)}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not JSON"),
        ("[]", "valid dictionary"),
        ({"schema": 2, "keys": []}, "schema"),
        ({"schema": 1, "keys": [], "more": 1}, "more"),
        ({"schema": 1, "keys": [{"name": "a", "digest": DIGEST, "unlimited": True}]}, "keys.0.unlimited"),
        ({"schema": 1, "keys": [{"name": "a", "digest": "sk-plain-key"}]}, "keys.0.digest"),
        ({"schema": 1, "keys": [{"name": "a b", "digest": DIGEST}]}, "keys.0.name"),
        ({"schema": 1, "keys": [{"name": "a", "digest": DIGEST, "concurrent": 0}]}, "keys.0.concurrent"),
        ({"schema": 1, "keys": [{"name": "a", "digest": DIGEST, "usd_per_day": 0}]}, "keys.0.usd_per_day"),
        ({"schema": 1, "keys": [{"name": "a", "digest": DIGEST, "models": []}]}, "keys.0.models"),
        (holding("a", "a"), "names a key twice"),
    ],
)
def test_a_file_at_fault_is_refused_and_its_content_not_repeated(tmp_path: Path, content: object, words: str) -> None:
    with pytest.raises(ConfigProblems) as problems:
        read_keys(written(tmp_path, content))
    assert words in str(problems.value)
    assert "sk-plain-key" not in str(problems.value)


def test_a_file_that_others_may_read_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, holding("a"), mode=0o640)
    with pytest.raises(ConfigProblems, match="mode 0640 lets others in"):
        read_keys(path)
    path.chmod(0o600)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    with pytest.raises(ConfigProblems, match="a symbolic link"):
        read_keys(link)


def test_root_writes_for_whoever_owns_the_folder_and_nobody_else_may_own_the_file(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    path = tmp_path / "clients.json"
    change_keys(path, lambda keys: (*keys, HandedKey(name="a", digest=DIGEST)))
    assert path.stat().st_uid == 12345
    assert read_keys(path) is not None
    os.chown(path, 12346, 12346)
    with pytest.raises(ConfigProblems, match="owned by another user"):
        read_keys(path)


def test_a_key_that_was_handed_out_is_key_enough_beyond_loopback(tmp_path: Path) -> None:
    settings = taken(tmp_path, f'{SHORT}\n[gateway]\nlisten = "0.0.0.0:80"\n')
    with pytest.raises(ConfigProblems, match="everybody who reaches this address could spend"):
        settings.client_keys()
    change_keys(settings.places.clients, lambda keys: (*keys, HandedKey(name="a", digest=DIGEST)))
    assert [key.name for key in settings.client_keys() or ()] == ["a"]
    change_keys(settings.places.clients, lambda keys: ())
    with pytest.raises(ConfigProblems, match="everybody who reaches this address could spend"):
        settings.client_keys()


def test_on_loopback_all_keys_taken_back_leave_nobody_and_no_file_leaves_everybody(tmp_path: Path) -> None:
    settings = taken(tmp_path, SHORT)
    assert settings.client_keys() is None
    change_keys(settings.places.clients, lambda keys: ())
    assert settings.client_keys() == ()
