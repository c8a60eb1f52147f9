"""Does a chat show the answer as it comes, what it waits for beside it, and an error as its code?"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from controller.cli.chat import chat, gateway_root
from controller.cli.exits import Exit, Failure
from controller.http1 import NotConnected, Outgoing, Sink, Through
from controller.settings import Settings
from tests.cli.conftest import Run
from tests.test_settings import SHORT, taken


class Spoken:
    """One answer, in pieces."""

    def __init__(self, pieces: list[bytes], status: int = 200) -> None:
        self.status = status
        self.headers = ()
        self.closed = False
        self._pieces = pieces

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def pour(self, sink: Sink, through: Through | None = None) -> None:
        async for piece in self.chunks():
            full = sink(piece)
            if full is not None:
                await full()

    async def read(self, limit: int) -> bytes:
        return b"".join(self._pieces)[:limit]

    def close(self) -> None:
        self.closed = True


class Line:
    """A wire to one answer."""

    def __init__(self, answer: Spoken | None) -> None:
        self.answer = answer
        self.sent: list[Outgoing] = []

    async def send(self, request: Outgoing) -> Spoken:
        self.sent.append(request)
        if self.answer is None:
            raise NotConnected("refused")
        return self.answer


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return taken(tmp_path, SHORT)


def said(settings: Settings, line: Line, *, alias: str = "qwen", key: str | None = None) -> Exit:
    async def ask() -> Exit:
        return await chat(settings, alias=alias, text="hi", key=key, wire=line)

    return anyio.run(ask)


def piece(words: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": words}}]}).encode() + b"\n\n"


def test_the_answer_goes_to_stdout_and_the_waiting_to_stderr(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = (
        b": the model is starting (requested, about 90 s left)\n\n" + piece("Hel") + piece("lö") + b"data: [DONE]\n\n"
    )
    line = Line(Spoken([stream[:30], stream[30:101], stream[101:]]))
    assert said(settings, line, key="sk-1") is Exit.OK
    out, err = capsys.readouterr()
    assert out == "Hellö\n"
    assert "the model is starting (requested, about 90 s left)" in err
    assert line.answer is not None
    assert line.answer.closed
    (request,) = line.sent
    assert request.url == "http://127.0.0.1:8080/v1/chat/completions"
    assert (b"authorization", b"Bearer sk-1") in request.headers
    assert json.loads(request.body)["model"] == "qwen"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("model_blocked", Exit.REFUSED), ("no_capacity", Exit.PROVIDER), ("controller_down", Exit.UNREACHABLE),
     ("wrong_key", Exit.REFUSED), ("upstream_disconnected", Exit.FAILED)],
)  # fmt: skip
@pytest.mark.parametrize("streamed", [False, True])
def test_an_error_ends_with_its_code(settings: Settings, code: str, exit_code: Exit, streamed: bool) -> None:
    error = json.dumps({"error": {"code": code, "message": "why"}}).encode()
    answer = Spoken([piece("x"), b"data: " + error + b"\n\n"]) if streamed else Spoken([error], status=503)
    with pytest.raises(Failure, match=f"{code}: why") as failure:
        said(settings, Line(answer))
    assert failure.value.code is exit_code


def test_an_answer_that_is_no_json_has_failed(settings: Settings) -> None:
    with pytest.raises(Failure, match="status 502") as failure:
        said(settings, Line(Spoken([b"<html>"], status=502)))
    assert failure.value.code is Exit.FAILED


def test_a_gateway_that_does_not_answer_is_code_3(settings: Settings) -> None:
    with pytest.raises(Failure, match="the gateway does not answer at") as failure:
        said(settings, Line(None))
    assert failure.value.code is Exit.UNREACHABLE


def test_an_adapter_is_asked_for_by_its_models_name_and_its_own(tmp_path: Path) -> None:
    settings = taken(tmp_path, SHORT + 'adapters = { sql = "org/sql" }\n')
    line = Line(Spoken([piece("a")]))
    assert said(settings, line, alias="qwen:sql") is Exit.OK
    assert json.loads(line.sent[0].body)["model"] == "qwen:sql"
    with pytest.raises(Failure, match="no model qwen:fr; there are: qwen, qwen:sql"):
        said(settings, line, alias="qwen:fr")


def test_a_model_that_is_not_configured_is_not_asked_for(settings: Settings) -> None:
    line = Line(Spoken([]))
    with pytest.raises(Failure, match="no model none; there are: qwen"):
        said(settings, line, alias="none")
    assert line.sent == []


@pytest.mark.parametrize(
    ("listen", "root"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("[::]:80", "http://[::1]:80"),
        ("gw.example:80", "http://gw.example:80"),
    ],
)
def test_the_address_to_call_follows_from_the_one_listened_on(listen: str, root: str) -> None:
    assert gateway_root(listen) == root


def test_a_clients_key_comes_from_a_private_file_only(run: Run, folder: Path) -> None:
    key = folder / "key"
    key.write_text("sk-1\n")
    key.chmod(0o644)
    ended = run("chat", "qwen", "hi", "--key-file", str(key))
    assert ended.code == 78
    assert "its mode 0644 lets others in" in ended.err
