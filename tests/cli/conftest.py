"""What do tests of commands share: a config, a daemon that answers as told, and a way to run a command line."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.cli import acting, evidence, restarting
from controller.cli.commands import run_command_line
from tests.cli.fake_daemon import FakeDaemon, served
from tests.test_settings import SHORT


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a socket lies in it."""
    made = Path(tempfile.mkdtemp(prefix="gw"))
    (made / "config.toml").write_text(SHORT)
    (made / "config.toml").chmod(0o600)
    (made / "state").mkdir()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def run(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("GPUWARDEN_CONFIG", str(folder / "config.toml"))
    monkeypatch.setattr(acting, "_LOOK_AGAIN_SECONDS", 0.005)
    monkeypatch.setattr(restarting, "_LOOK_AGAIN_SECONDS", 0.005)
    monkeypatch.setattr(evidence, "_POLL_SECONDS", 0.005)
    monkeypatch.setattr(evidence, "_ON_ITS_WAY_SECONDS", 0.05)

    def run(*arguments: str) -> Ended:
        capfd.readouterr()
        code = run_command_line(list(arguments))
        out, err = capfd.readouterr()
        return Ended(int(code), out, err)

    return run


@pytest.fixture
def daemon(folder: Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon()
    with served(fake, folder / "state" / "api.sock"):
        yield fake
