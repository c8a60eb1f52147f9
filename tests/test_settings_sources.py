"""Is a config or a secret taken only from where nobody else could have written or read it?"""

import os
from pathlib import Path

import pytest

from controller.settings import ConfigProblems, find_config, load
from controller.settings.places import places
from controller.settings.source import FILE_BYTES_MAX
from tests.test_settings import SHORT, refused, taken

SECRET = "rpa_0123456789"


def why(path: Path) -> str:
    with pytest.raises(ConfigProblems) as problems:
        load(path, {})
    (problem,) = problems.value.problems
    assert problem.file == str(path)
    return f"{problem.why}; {problem.mend}"


def written(tmp_path: Path, *, mode: int = 0o600) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(SHORT)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o622])
def test_a_config_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, mode=mode)
    assert why(path) == f"its mode {mode:04o} lets others in; chmod {mode & 0o755:04o} {path}"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o400])
def test_a_config_that_others_can_only_read_is_taken(tmp_path: Path, mode: int) -> None:
    assert load(written(tmp_path, mode=mode), {}).written.name == "acme-prod-7f3a"


def test_a_link_to_a_config_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(written(tmp_path))
    assert why(link) == "a symbolic link; name the file itself"


def test_a_missing_config_is_refused(tmp_path: Path) -> None:
    assert why(tmp_path / "none.toml") == "there is no such file; create it, or name another"


def test_a_folder_or_a_pipe_is_no_config(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert why(tmp_path / "pipe") == "not a regular file; give a plain file"
    assert why(tmp_path).startswith(("not a regular file", "is a directory"))


def test_a_config_of_256_kib_is_taken_and_one_byte_more_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(SHORT + "#" * (FILE_BYTES_MAX - len(SHORT.encode())))
    assert load(path, {}).written.name
    path.write_text(SHORT + "#" * (FILE_BYTES_MAX - len(SHORT.encode()) + 1))
    assert why(path).startswith("larger than 262144 bytes")


def test_a_config_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(b"name = '\xff'\n")
    assert why(path) == "not UTF-8; save it as UTF-8"


def test_the_config_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigProblems, match="there is no config; write one"):
        find_config(None, {})
    written(tmp_path)
    assert find_config(None, {}) == Path("config.toml")
    assert find_config(None, {"GPUWARDEN_CONFIG": "/x"}) == Path("/x")
    assert find_config(Path("/y"), {"GPUWARDEN_CONFIG": "/x"}) == Path("/y")


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    settings = taken(
        tmp_path,
        SHORT.replace("[models.qwen]", '[models."qwen-3.8"]'),
        GPUWARDEN_NAME="123",
        GPUWARDEN_USD_PER_DAY="12.50",
        GPUWARDEN_POLICY__SETTLE="90s",
        GPUWARDEN_RUNPOD__BASE_URL="http://127.0.0.1:9/v2",
        GPUWARDEN_MODELS__QWEN_3_8__CONTEXT="4096",
        GPUWARDEN_MODELS__QWEN_3_8__GPUS='["A40"]',
        GPUWARDEN_MODELS__QWEN_3_8__ALLOW_UNPINNED="true",
        GPUWARDEN_MODELS__QWEN_3_8__REASONING_EFFORT="low",
        GPUWARDEN_CONFIG="ignored",
        GPUWARDEN_DEMO_SETUP_SECONDS="3",
        PATH="/bin",
    )
    model = settings.models["qwen-3.8"]
    assert settings.written.name == "123"
    assert (str(settings.written.usd_per_day), settings.written.policy.settle.seconds) == ("12.50", 90)
    assert settings.written.runpod.api_url == "http://127.0.0.1:9/v2"
    assert (model.context, model.gpus, model.allow_unpinned, model.reasoning_effort) == (4096, ("A40",), True, "low")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GPUWARDEN_POLICY__SETLE", "90s", "no such key; did you mean GPUWARDEN_POLICY__SETTLE?"),
        ("GPUWARDEN_POLICY", "x", "no such key"),
        ("GPUWARDEN_MODELS__OTHER__CONTEXT", "1", "no such key"),
        ("GPUWARDEN_POLICY__SETTLE", "0", '"0": not a duration'),
        ("GPUWARDEN_POLICY__SETTLE", "null", '"null": not a duration'),
        ("GPUWARDEN_USD_PER_DAY", "null", '"null": not an amount of money'),
        ("GPUWARDEN_USD_PER_DAY", "0", "0: out of bounds"),
        ("GPUWARDEN_MODELS__QWEN__CONTEXT", "many", '"many": not a whole number'),
        ("GPUWARDEN_MODELS__QWEN__IMAGE", "vllm/vllm-openai", '"vllm/vllm-openai": the image is not pinned'),
    ],
)
def test_a_bad_override_is_named_by_its_variable(tmp_path: Path, name: str, value: str, said: str) -> None:
    (problem,) = refused(tmp_path, SHORT, **{name: value})
    assert problem.startswith(f"environment: {name}")
    assert said in problem


def test_an_override_that_means_two_models_is_refused(tmp_path: Path) -> None:
    model = SHORT[SHORT.index("[models.qwen]") :]
    both = SHORT + model.replace("models.qwen", "models.a-b") + model.replace("models.qwen", 'models."a.b"')
    assert len(taken(tmp_path, both).models) == 3
    (problem,) = refused(tmp_path, both, GPUWARDEN_MODELS__A_B__CONTEXT="4096")
    assert problem.startswith(
        'environment: GPUWARDEN_MODELS__A_B__CONTEXT: means models.a-b.context and models."a.b".context'
    )


def key_file(tmp_path: Path, name: str, content: bytes = SECRET.encode() + b"\n", *, mode: int = 0o600) -> Path:
    path = tmp_path / "keys" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_short_config_finds_keys_beside_itself(tmp_path: Path) -> None:
    key_file(tmp_path, "runpod")
    key_file(tmp_path, "qwen", b"model-key")
    settings = taken(tmp_path, SHORT)
    assert settings.runpod_key().get_secret_value() == SECRET
    assert settings.server_key("qwen").get_secret_value() == "model-key"
    assert settings.probe_key("qwen") is None


def test_the_short_config_finds_the_credential_first(tmp_path: Path) -> None:
    key_file(tmp_path, "runpod", b"other")
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "runpod").write_text(SECRET)
    (credentials / "runpod").chmod(0o440)
    settings = taken(tmp_path, SHORT, CREDENTIALS_DIRECTORY=str(credentials))
    assert settings.runpod_key().get_secret_value() == SECRET
    assert SECRET not in repr(settings) + str(settings.runpod_key())


def test_a_named_credential_without_systemd_is_a_problem(tmp_path: Path) -> None:
    settings = taken(tmp_path, f'{SHORT}\n[runpod]\nkey_credential = "runpod.key"\n')
    with pytest.raises(ConfigProblems, match=r"runpod\.key: the config names a systemd credential"):
        settings.runpod_key()


def test_a_named_file_is_read_from_the_configs_folder(tmp_path: Path) -> None:
    key_file(tmp_path, "other")
    settings = taken(tmp_path, f'{SHORT}probe_key_file = "keys/other"\n\n[runpod]\nkey_file = "keys/other"\n')
    assert settings.runpod_key().get_secret_value() == SECRET
    assert (probe := settings.probe_key("qwen")) is not None
    assert probe.get_secret_value() == SECRET


def test_a_missing_key_is_named_with_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigProblems, match=r"keys/runpod: the account's key is missing; put it there with mode 0600"):
        taken(tmp_path, SHORT).runpod_key()


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    text = f'{SHORT}\n[runpod]\nkey_file = "a"\nkey_credential = "b"\n'
    assert "runpod.key_file: key_credential is given too; keep one" in refused(tmp_path, text)[0]


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (SECRET.encode(), 0o640, "its mode 0640 lets others in"),
        (SECRET.encode(), 0o604, "its mode 0604 lets others in"),
        (b"", 0o600, "does not hold one secret"),
        (b"\n", 0o600, "does not hold one secret"),
        (b"two words", 0o600, "does not hold one secret"),
        (b"one\ntwo\n", 0o600, "does not hold one secret"),
        (b"one\n\n", 0o600, "does not hold one secret"),
        (b"x" * 4097, 0o600, "does not hold one secret"),
        (b"x" * 5000, 0o600, "larger than"),
        (b"\xff", 0o600, "does not hold one secret"),
    ],
)
def test_a_loose_or_odd_key_file_is_refused(tmp_path: Path, content: bytes, mode: int, said: str) -> None:
    key_file(tmp_path, "runpod", content, mode=mode)
    with pytest.raises(ConfigProblems) as problems:
        taken(tmp_path, SHORT).runpod_key()
    assert said in str(problems.value)
    assert SECRET not in str(problems.value)


@pytest.mark.parametrize("content", [b"x" * 4096, b"x" * 4096 + b"\n", b"x\r\n"])
def test_a_key_of_4096_bytes_and_a_newline_is_taken(tmp_path: Path, content: bytes) -> None:
    key_file(tmp_path, "runpod", content)
    assert taken(tmp_path, SHORT).runpod_key().get_secret_value() == content.decode().strip()


def test_a_link_to_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(SECRET)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "runpod").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigProblems, match="a symbolic link"):
        taken(tmp_path, SHORT).runpod_key()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(key_file(tmp_path, "runpod"), 12345, 12345)
    with pytest.raises(ConfigProblems, match="owned by another user; chown it to uid 0"):
        taken(tmp_path, SHORT).runpod_key()


def test_client_keys_come_from_the_config_and_a_file(tmp_path: Path) -> None:
    one, two = "1" * 64, "2" * 64
    (tmp_path / "clients").write_text(f"# clients\n\nsha256:{two} alice's laptop\n")
    settings = taken(
        tmp_path, f'{SHORT}\n[gateway]\nlisten = "0.0.0.0:80"\nkeys_file = "clients"\nkeys = ["sha256:{one}"]\n'
    )
    found = settings.client_keys() or ()
    assert [(key.name, key.digest) for key in found] == [
        (f"sha256-{one[:12]}", f"sha256:{one}"),
        ("alices", f"sha256:{two}"),
    ]


def test_a_plain_key_among_the_clients_keys_is_refused_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "clients").write_text(f"# clients\n{SECRET}\n")
    settings = taken(tmp_path, f'{SHORT}\n[gateway]\nkeys_file = "clients"\n')
    with pytest.raises(ConfigProblems) as problems:
        settings.client_keys()
    assert f"{tmp_path / 'clients'}:2: not a digest" in str(problems.value)
    assert SECRET not in str(problems.value)


def test_an_emptied_file_of_client_keys_does_not_open_the_address(tmp_path: Path) -> None:
    (tmp_path / "clients").write_text("")
    settings = taken(tmp_path, f'{SHORT}\n[gateway]\nlisten = "0.0.0.0:80"\nkeys_file = "clients"\n')
    with pytest.raises(ConfigProblems, match="everybody who reaches this address could spend"):
        settings.client_keys()


def test_places_follow_the_config_then_systemd_then_the_configs_folder() -> None:
    systemd = {"STATE_DIRECTORY": "/s:/t", "LOGS_DIRECTORY": "/l", "RUNTIME_DIRECTORY": "/r"}
    chosen = places("own", Path("/c/config.toml"), systemd)
    assert (str(chosen.store), str(chosen.api_socket)) == ("/c/own/gpuwarden.db", "/c/own/api.sock")
    unit = places(None, Path("/c/config.toml"), systemd)
    assert (str(unit.store), str(unit.evidence)) == ("/s/gpuwarden.db", "/l/evidence.jsonl")
    assert str(unit.gateway_socket) == "/r/gateway.sock"
    operator = places(None, Path("/etc/gpuwarden/config.toml"), {})
    assert (str(operator.store), str(operator.api_socket)) == (
        "/var/lib/gpuwarden/gpuwarden.db",
        "/run/gpuwarden/api.sock",
    )
    person = places(None, Path("/c/config.toml"), {})
    assert str(person.evidence) == "/c/state/evidence.jsonl"


def test_a_folder_too_deep_for_a_socket_is_refused() -> None:
    with pytest.raises(ConfigProblems, match="too long for a socket's path"):
        places("x" * 100, Path("/c/config.toml"), {})
