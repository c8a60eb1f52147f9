"""How is `doctor` run against an emulated account, with everything in order unless a test spoils it?

The emulator is spoken to in process and keeps time with the test's clock; config, keys and store are real files in a
folder of their own. A run ends with what was printed, and with every call that the provider got.
"""

import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from controller.cli import doctor
from controller.emulators.runpod import Emulator, build_app
from controller.emulators.runpod import Settings as Behaviour
from tests.support.asgi_transport import AsgiTransport
from tests.support.loop_clock import BEGIN, LoopClock
from tests.support.stores import template
from tests.support.virtual_time import run_virtual

KEY = "rpa_ACCOUNT_CANARY_1"
SERVER_KEY = "SERVER.CANARY.2"
HUB_TOKEN = "HUB.CANARY.3"
WEBHOOK = "https://hooks.example/CANARY.4"
PROBE_KEY = "PROBE.CANARY.5"
CANARIES = (KEY, SERVER_KEY, HUB_TOKEN, WEBHOOK, PROBE_KEY)

OWNER, INSTALLATION = "acme-prod-7f3a", "0011223344556677"
CONFIG = f"""\
name = "{OWNER}"

[runpod]
base_url = "http://127.0.0.1:9/v2"

[alarms]
webhook_file = "keys/webhook"

[models.qwen]
model = "Qwen/Qwen3-8B"
image = "vllm/vllm-openai:v0.31.0"
gpus  = ["NVIDIA L40S", "NVIDIA A40"]
context = 32768
hf_token_secret = "hub"
probe_key_file = "keys/probe"
"""
NEW_KEY = "make a key in the provider's console with all permissions, and put it in the place of this one"
COPY = {"env": {"GPUWARDEN_OWNER": OWNER, "GPUWARDEN_INSTALLATION": "ffee"}}
CAN_ACT = '{"event":"stop.answered","detail":{"answer":"accepted","text":"runpod-terminated-x"}}'
MAY_NOT_ACT = '{"event":"stop.answered","detail":{"answer":"refused","text":"HTTP 403: access denied"}}'


@dataclass(frozen=True)
class Examined:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Without the padding, each with its mend behind it."""
        return [" ".join(line.split()) for line in self.out.replace("\n      ", " ").splitlines()]

    def of(self, check: str) -> list[str]:
        """The lines of one check."""
        return [line for line in self.lines if line.split()[1] == check]

    @property
    def bad(self) -> list[str]:
        return [line for line in self.lines if not line.startswith("ok ")]


@dataclass
class World:
    folder: Path
    capture: pytest.CaptureFixture[str]
    clock: LoopClock = field(default_factory=LoopClock)
    environment: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    refusing: bool = False
    calls: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def store(self) -> Path:
        return self.folder / "state" / "gpuwarden.db"

    def rewrite(self, old: str, new: str) -> None:
        text = self.config.read_text()
        assert old in text
        self.config.write_text(text.replace(old, new))

    def fault(self, path: str, method: str = "GET", **do: Any) -> None:
        self.faults.append({"match": {"method": method, "path": path}, "do": do})

    def pod(self, **given: Any) -> Self:
        """One that is there: ours unless said otherwise."""
        env = {"GPUWARDEN_OWNER": OWNER, "GPUWARDEN_INSTALLATION": INSTALLATION, "TOKEN": HUB_TOKEN}
        self.pods.append({"name": "gpuwarden-qwen-r0123456789abcdef", "gpu": "NVIDIA A40", "env": env} | given)
        return self

    def sql(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.store)) as rows:
            rows.execute(statement, values)
            rows.commit()

    def record(self, line: str) -> None:
        """A later line of evidence."""
        self.sql(
            "INSERT INTO evidence (at_ms, event, line, hash) VALUES (0, ?, ?, '')", json.loads(line)["event"], line
        )

    def examined(self, *, as_json: bool = False) -> Examined:
        return run_virtual(partial(self.examine, as_json=as_json))

    async def examine(self, *, as_json: bool = False) -> Examined:
        emulator = Emulator(
            clock=lambda: self.clock.true().timestamp(),
            rng=random.Random(1),
            settings=Behaviour(secrets={"vllm_qwen": SERVER_KEY, "hub": HUB_TOKEN}, api_key=KEY),
        )
        emulator.change_settings(self.settings)
        for pod in self.pods:
            emulator.put_pod(pod)
        emulator.add_faults(self.faults)
        transport = AsgiTransport(build_app(emulator))
        transport.refusing = self.refusing
        seams = doctor.Seams(clock=self.clock, transport=transport, environment=self.environment)
        self.capture.readouterr()
        began = self.clock.boot()
        code = await doctor.doctor(self.config, as_json=as_json, seams=seams)
        self.seconds = (self.clock.boot() - began).total_seconds()
        self.calls = [(call["method"], call["path"]) for call in emulator.truth()["calls"]]
        out, err = self.capture.readouterr()
        return Examined(int(code), out, err)


@pytest.fixture
def world(capfd: pytest.CaptureFixture[str]) -> Iterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="gw"))  # short: a socket lies in it
    made = World(folder, capfd)
    made.config.write_text(CONFIG)
    made.config.chmod(0o600)
    (folder / "keys").mkdir(mode=0o700)
    for name, secret in (("runpod", KEY), ("qwen", SERVER_KEY), ("webhook", WEBHOOK), ("probe", PROBE_KEY)):
        (folder / "keys" / name).write_text(secret)
        (folder / "keys" / name).chmod(0o600)
    (folder / "state").mkdir(mode=0o700)
    made.store.write_bytes(template())
    made.store.chmod(0o600)
    made.sql(
        "INSERT INTO meta (id, owner, installation, provider, account, made_at_ms, epoch_latest, account_trusted)"
        " VALUES (1, ?, ?, 'runpod', 'main', ?, 0, 1)",
        OWNER,
        INSTALLATION,
        BEGIN.timestamp() * 1000,
    )
    made.record(CAN_ACT)
    yield made
    shutil.rmtree(folder)
