"""Does each command ask the right thing, print data and words apart, and end with the right code?"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from controller.cli import acting, offline
from controller.cli.exits import Exit, exit_of
from controller.core.errors import Code
from controller.store import schema
from tests.cli.conftest import Run
from tests.cli.fake_daemon import GARBLED, FakeDaemon

STATUS: dict[str, Any] = {
    "schema": 1,
    "owner": "acme",
    "ready": True,
    "mode": "normal",
    "problems": [],
    "models": [
        {"alias": "qwen", "phase": "ready", "deployments": ["qwen-1"], "open_requests": 2, "usd_per_hour": "0.79",
         "idle_stop_at": None, "why": "open requests", "blocked": None},
        {"alias": "other", "phase": "off", "deployments": [], "open_requests": 0, "why": "nobody asked"},
    ],
    "owed": 1,
    "obligations_open": 2,
    "obligations_ended": {"discharged": 7, "transferred": 3, "void": 1},
    "foreign": 0,
    "spend": {"day": "2026-11-29", "limit_usd": "40", "settled_usd": "0.5", "held_usd": "1.08"},
    "listing": {"complete": True, "ended_at": "2026-11-29T12:00:00.000Z", "problem": None},
    "tasks": [{"name": "observer", "problem": "no answer"}],
    "alarms": [{"name": "owed-stop", "since": "2026-11-29T12:00:00.000Z", "detail": "o1"}],
}  # fmt: skip
OWED: dict[str, Any] = {
    "id": "o1",
    "model": "qwen",
    "due": True,
    "due_at": "2026-11-29T12:00:00.000Z",
    "reason": "idle",
    "resource": {"incarnation": "pod1"},
    "attempts": 3,
    "waiting_for": "a complete listing",
    "ended_at": None,
}


def test_the_codes_are_those_of_the_design() -> None:
    assert sorted(int(code) for code in Exit) == [0, 1, 2, 3, 4, 5, 6, 78, 130]


@pytest.mark.parametrize("code", list(Code))
def test_every_outward_code_ends_a_command_otherwise_than_well(code: Code) -> None:
    assert exit_of(code.value) not in (Exit.OK, Exit.BAD_CONFIG, Exit.INTERRUPTED)


def test_status_prints_a_table_and_what_is_wrong(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/status", STATUS)
    ended = run("status")
    assert (ended.code, ended.err) == (0, "")
    for words in (
        "qwen",
        "ready",
        "0.79",
        "open requests",
        "$0.5 settled, $1.08 held, of $40",
        "owed-stop: o1",
        "task observer",
        "complete",
        "3, to a newer lease elsewhere",
    ):
        assert words in ended.out


def test_status_of_one_model_shows_that_one(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/status", STATUS)
    assert "other" not in run("status", "qwen").out
    assert run("status", "none").code == Exit.NOT_FOUND


def test_status_for_scripts_is_one_object_with_its_schema(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/status", STATUS)
    assert json.loads(run("status", "--json").out) == STATUS


def test_what_comes_from_outside_cannot_move_the_cursor(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/status", {**STATUS, "problems": ["\x1b[2Jgone\r\n"]})
    out = run("status").out
    assert "\x1b" not in out
    assert "\r" not in out


def test_a_daemon_that_does_not_answer_and_no_store_is_code_3(run: Run) -> None:
    ended = run("status")
    assert (ended.code, ended.out) == (3, "")
    assert "the daemon is down, and there is no store" in ended.err


@pytest.fixture
def store(folder: Path) -> Path:
    """As much of a store as commands read."""
    path = folder / "state" / "gpuwarden.db"
    rows = sqlite3.connect(path)
    rows.executescript(
        """
        CREATE TABLE meta (owner, installation);
        INSERT INTO meta VALUES ('acme', 'i1');
        CREATE TABLE deployments (id, model, slot, phase);
        INSERT INTO deployments VALUES ('qwen-1', 'qwen', 0, 'active'), ('qwen-0', 'qwen', 0, 'stopped');
        CREATE TABLE obligations (id, deployment, model, resource, request, opened_at_ms, due_at_ms, reason,
          stop_attempts, stop_submitted_at_ms, stop_answer, seen_at_ms, ended_at_ms, ending);
        INSERT INTO obligations VALUES
          ('o1', 'qwen-1', 'qwen', '["runpod","main","n","pod1"]', 'r1', 1000, 2000, 'idle',
           3, 3000, 'accepted', 4000, NULL, NULL),
          ('o0', 'qwen-0', 'qwen', NULL, 'r0', 1, NULL, NULL, 0, NULL, NULL, NULL, 5, 'void');
        CREATE TABLE evidence (seq INTEGER PRIMARY KEY, line);
        """
    )
    rows.close()
    return path


@pytest.mark.usefixtures("store")
def test_without_a_daemon_the_store_is_read_and_said_to_be_that(run: Run) -> None:
    ended = run("status", "--json")
    answer = json.loads(ended.out)
    assert ended.code == 3
    assert "the daemon is down: this is what its store holds" in ended.err
    assert (answer["schema"], answer["source"], answer["owed"]) == (1, "store", 1)
    assert answer["models"] == [{"alias": "qwen", "phase": "ready", "deployments": ["qwen-1"]}]
    assert answer["obligations_ended"] == {"discharged": 0, "transferred": 0, "void": 1}
    assert run("status").code == 3


@pytest.mark.usefixtures("store")
def test_without_a_daemon_what_is_owed_is_read_from_the_store(run: Run) -> None:
    ended = run("owed", "--json")
    (found,) = json.loads(ended.out)["obligations"]
    assert (found["id"], found["due"], found["attempts"], found["resource"]["incarnation"]) == ("o1", True, 3, "pod1")
    assert found["due_at"] == "1970-01-01T00:00:02.000Z"
    assert len(json.loads(run("owed", "--ended", "--json").out)["obligations"]) == 2
    assert "pod1" in run("owed").out


def test_what_is_read_is_what_the_store_has(folder: Path) -> None:
    path = folder / "state" / "gpuwarden.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    schema.metadata.create_all(engine)
    engine.dispose()
    assert offline.status(path)["models"] == []
    assert offline.obligations(path, ended=True) == {"obligations": []}
    assert offline.evidence(path, after=0, limit=9) == {"lines": []}


def test_reading_the_store_changes_nothing_in_it(run: Run, store: Path) -> None:
    before = (store.read_bytes(), sorted(path.name for path in store.parent.iterdir()))
    run("status")
    assert (store.read_bytes(), sorted(path.name for path in store.parent.iterdir())) == before


def test_a_store_that_cannot_be_read_is_told(run: Run, store: Path) -> None:
    store.write_bytes(b"not a database at all" * 100)
    ended = run("owed")
    assert ended.code == 3
    assert "its store cannot be read" in ended.err


def test_owed_shows_what_is_waited_for(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/obligations", {"obligations": [OWED]})
    ended = run("owed")
    assert ended.code == 0
    for words in ("o1", "pod1", "idle", "a complete listing"):
        assert words in ended.out


def test_nothing_owed_is_said(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("GET /v1/obligations", {"obligations": []})
    ended = run("owed")
    assert (ended.code, ended.out, ended.err) == (0, "", "nothing is owed\n")


def test_explain_prints_the_lines(run: Run, daemon: FakeDaemon) -> None:
    daemon.will(
        "GET /v1/models/qwen/explain", {"alias": "qwen", "lines": [{"subject": "idle", "text": "kept: 2 open"}]}
    )
    assert "kept: 2 open" in run("explain", "qwen").out
    daemon.refuses("GET /v1/models/none/explain", "unknown_model", "no model none", status=404)
    assert run("explain", "none").code == 5


def ready(phase: str = "ready", **more: Any) -> dict[str, Any]:
    return {"model": {"alias": "qwen", "phase": phase, "refusal": None, "failure": None, "starting": None, **more}}


def test_start_waits_until_the_model_serves(run: Run, daemon: FakeDaemon) -> None:
    starting = {"phase": "requested", "eta_seconds": 142.0, "usd_so_far": "0.0123"}
    daemon.will("POST /v1/models/qwen/start", ready("off"), ready("starting", starting=starting), ready())
    ended = run("start", "qwen")
    assert (ended.code, ended.out) == (0, "")
    assert "qwen: starting, about 2 min left, $0.0123 so far" in ended.err
    assert ended.err.endswith("qwen is ready\n")


def test_start_without_waiting_says_accepted_only(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/start", ready("starting"))
    ended = run("start", "qwen", "--no-wait", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["model"]["phase"] == "starting"
    assert len(daemon.asked) == 1


@pytest.mark.parametrize(
    ("code", "exit_code"), [("model_blocked", 6), ("budget_exhausted", 6), ("no_capacity", 4), ("no_funds", 4)]
)
def test_start_that_is_refused_for_good_ends_with_its_code(
    run: Run, daemon: FakeDaemon, code: str, exit_code: int
) -> None:
    daemon.will("POST /v1/models/qwen/start", ready("off", refusal={"code": code, "reason": "why", "final": True}))
    ended = run("start", "qwen")
    assert (ended.code, ended.err) == (exit_code, "qwen: why\n")


def test_start_waits_through_a_refusal_that_is_not_final(run: Run, daemon: FakeDaemon) -> None:
    refusal = {"code": "no_capacity", "reason": "none left", "final": False}
    daemon.will("POST /v1/models/qwen/start", ready("off", refusal=refusal), ready())
    assert run("start", "qwen").code == 0


def test_start_that_fails_after_we_asked_ends_and_an_older_failure_does_not(run: Run, daemon: FakeDaemon) -> None:
    old = {"version": 3, "code": "start_failed", "reason": "crash-loop"}
    new = {**old, "version": 4, "reason": "startup-deadline"}
    daemon.will("POST /v1/models/qwen/start", ready("starting", failure=old), ready("off", failure=new))
    ended = run("start", "qwen")
    assert ended.code == 1
    assert "start_failed (startup-deadline)" in ended.err


def test_start_that_takes_longer_than_the_limit_has_failed(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/start", ready("starting"))
    ended = run("start", "qwen", "--limit", "20ms")
    assert ended.code == 1
    assert "it goes on starting" in ended.err


def test_stop_waits_until_every_obligation_has_ended(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/stop", {"obligations": ["o1", "o2"]})
    gone = {**OWED, "ended_at": "2026-11-29T12:10:00.000Z", "ending": "discharged"}
    other = {**OWED, "id": "o2", "waiting_for": "open requests"}
    daemon.will("GET /v1/obligations?all=1", {"obligations": [OWED, other]}, {"obligations": [gone, other]},
                {"obligations": [gone, {**gone, "id": "o2"}]})  # fmt: skip
    ended = run("stop", "qwen")
    assert (ended.code, ended.out) == (0, "")
    assert "waiting for proof: a complete listing; open requests" in ended.err
    assert ended.err.endswith("stopped, with proof: 2 pods\n")
    assert daemon.asked[0] == ("POST /v1/models/qwen/stop", {"now": False})


def test_stop_that_is_not_proven_within_the_limit_has_failed(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/stop", {"obligations": ["o1"]})
    daemon.will("GET /v1/obligations?all=1", {"obligations": [OWED]})
    ended = run("stop", "qwen", "--limit", "20ms", "--json")
    assert ended.code == 1
    assert json.loads(ended.out)["unproven"] == ["o1"]


def test_an_obligation_that_is_no_longer_told_of_is_not_proof(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/stop", {"obligations": ["o1"]})
    daemon.will("GET /v1/obligations?all=1", {"obligations": []})
    assert run("stop", "qwen", "--limit", "20ms").code == 1


def test_stop_without_waiting_says_accepted_and_not_proven(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/stop", {"obligations": ["o1"]})
    ended = run("stop", "qwen", "--now", "--no-wait")
    assert ended.code == 0
    assert "accepted, not proven" in ended.err
    assert daemon.asked == [("POST /v1/models/qwen/stop", {"now": True})]


def test_stop_that_is_not_on_record_says_so(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/stop", {"obligations": ["o1"], "unrecorded": "disk full"})
    ended = run("stop", "qwen", "--no-wait", "--json")
    assert json.loads(ended.out)["unrecorded"] == "disk full"
    assert "the store takes no writes (disk full): what runs is stopped all the same" in ended.err


def test_stop_takes_a_deployments_id_too(run: Run, daemon: FakeDaemon) -> None:
    daemon.refuses("POST /v1/models/qwen-1/stop", "unknown_model", "no", status=404)
    daemon.will("POST /v1/deployments/qwen-1/stop", {"obligations": []})
    ended = run("stop", "qwen-1")
    assert (ended.code, ended.err) == (0, "nothing was running: no stop is owed\n")
    assert run("stop", "nothing").code == 5


def test_stop_all_asks_for_all(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/stop", {"obligations": []})
    assert run("stop", "--all").code == 0


def test_stop_goes_on_when_the_daemon_restarts(run: Run, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "_AWAY_LIMIT_SECONDS", 5.0)
    daemon.will("POST /v1/stop", {"obligations": ["o1"]})
    daemon.will("GET /v1/obligations?all=1", GARBLED, {"obligations": [{**OWED, "ended_at": "x"}]})
    ended = run("stop", "--all")
    assert ended.code == 0
    assert "the daemon is away" in ended.err


@pytest.mark.parametrize("arguments", [("stop",), ("stop", "qwen", "--all"), ("claim",), ("claim", "i", "--account"),
                                       ("stop", "qwen", "--limit", "soon"), ("bogus",), ("status", "--bogus"),
                                       ("emulate", "runpod", "--listen", "0.0.0.0:1")])  # fmt: skip
def test_a_command_that_is_used_wrongly_ends_with_2(run: Run, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err


def test_confirm_puts_the_reference_on_record(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/obligations/o1/confirm", {"ok": True})
    assert run("confirm-stopped", "o1", "--reference", "ticket 7", "--force").code == 0
    assert daemon.asked == [("POST /v1/obligations/o1/confirm", {"reference": "ticket 7", "force": True})]


def test_confirm_of_what_is_seen_alive_is_refused_with_6(run: Run, daemon: FakeDaemon) -> None:
    daemon.refuses("POST /v1/obligations/o1/confirm", "refused", "seen alive 4 s ago")
    ended = run("confirm-stopped", "o1", "--reference", "x")
    assert (ended.code, ended.err) == (6, "seen alive 4 s ago\n")


def test_unblock_ends_the_hold_of_one_model_or_of_all(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/models/qwen/unblock", {"unblocked": ["qwen"]})
    daemon.will("POST /v1/unblock", {"unblocked": []})
    assert "may start again: qwen" in run("unblock", "qwen").err
    assert "nothing was held" in run("unblock").err


def test_claim_takes_an_installation_or_the_account(run: Run, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/installations/i9/claim", {"claimed": ["pod1"]})
    daemon.will("POST /v1/account/claim", {})
    assert "claimed: pod1" in run("claim", "i9").err
    assert run("claim", "--account", "--json").out == '{"schema": 1}\n'


def test_a_bad_config_ends_every_command_with_78_and_all_problems(run: Run, folder: Path) -> None:
    with (folder / "config.toml").open("a") as config:
        config.write("idle_after = 0\nqueue = null\n".replace("null", "0"))
    for arguments in (["config", "check"], ["status"], ["stop", "--all"], ["gateway"], ["evidence"]):
        ended = run(*arguments)
        assert (ended.code, ended.out) == (78, "")
        assert "config.toml:9: models.qwen.idle_after = 0" in ended.err
        assert "config.toml:10: models.qwen.queue = 0" in ended.err


def test_a_missing_config_is_78(run: Run, folder: Path) -> None:
    assert run("status", "--config", str(folder / "none.toml")).code == 78


def test_help_is_grouped_and_names_every_command(run: Run) -> None:
    out = run("--help").out
    order = [out.index(word) for word in ("Everyday", "explain", "Trouble", "confirm-stopped", "Admin", "emulate")]
    assert order == sorted(order)


def test_no_command_imports_what_it_does_not_need() -> None:
    code = "import sys, controller.cli; print([m for m in ('typer', 'pydantic', 'sqlalchemy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.process
def test_an_interrupted_stop_ends_with_130_and_says_what_stays_owed(folder: Path, daemon: FakeDaemon) -> None:
    daemon.will("POST /v1/stop", {"obligations": ["o1"]})
    daemon.will("GET /v1/obligations?all=1", {"obligations": [OWED]})
    command = [sys.executable, "-m", "controller", "stop", "--all", "--config", str(folder / "config.toml")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as started:
        assert started.stderr is not None
        assert "waiting for proof" in started.stderr.readline()
        started.send_signal(signal.SIGINT)
        assert "o1 stay owed, and the daemon goes on trying" in started.stderr.read()
    assert started.returncode == 130
