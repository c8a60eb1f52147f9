"""Real llama.cpp as a model server on loopback, with the model's key and a tiny model."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.gateway.world import MODEL_KEY
from tests.processes.box import free_port

START_LIMIT_S = 30.0


@contextmanager
def llama_server(folder: Path, *, alias: str = "org/m1") -> Iterator[int]:
    """The port it listens on."""
    port = free_port()
    words = ["--model", str(folder / "tiny.gguf"), "--make", "--port", str(port), "--alias", alias]
    with (folder / "llama.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "controller.emulators.llama", *words],
            env={**os.environ, "LLAMA_API_KEY": MODEL_KEY},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _wait(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until and process.returncode is None:
        try:
            with opener.open(f"http://127.0.0.1:{port}/health", timeout=2):
                return
        except OSError:  # it does not listen yet, or says 503: a moment, or its end
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
    raise AssertionError("llama.cpp does not answer")
