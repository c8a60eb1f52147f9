"""Does an examination find each fault, say how to mend it, hide none behind another, and touch nothing?"""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from controller.cli.commands import run_command_line
from controller.cli.doctor.asking import Ear
from controller.cli.doctor.finding import CHECKS
from controller.cli.doctor.recorded import Unfit, recorded
from controller.providers.runpod.inspection import NOBODYS
from tests.cli.doctor_world import CANARIES, COPY, KEY, NEW_KEY, SERVER_KEY, World, world
from tests.cli.fake_daemon import FakeDaemon, served
from tests.support.loop_clock import BEGIN, HandClock

__all__ = ["world"]


def test_all_is_well_and_every_check_says_so(world: World) -> None:
    world.pod()
    examined = world.examined()
    assert (examined.code, examined.bad, examined.err.strip()) == (0, [], "24 ok, 0 warn, 0 fail")
    assert [line.split()[1] for line in examined.lines if line.split()[1] != "permission"] == [
        check for check in CHECKS if check != "permission"
    ]
    assert examined.of("permission") == [
        "ok permission machines the key may read them",
        "ok permission billing the key may read it",
        "ok permission logs the key may read them",
        "ok permission to act the last stop on record was accepted",
    ]
    assert examined.of("stock") == ["ok stock qwen NVIDIA L40S high, NVIDIA A40 high"]
    assert examined.of("price") == ["ok price qwen NVIDIA L40S $0.86/h, NVIDIA A40 $0.40/h"]
    assert examined.of("funds") == [
        "ok funds $1000.00 left, $0.40/h now; with the dearest machine configured it lasts 32 d"
    ]


def test_nothing_but_reads_reaches_the_provider(world: World) -> None:
    world.pod()
    world.examined()
    assert {call for call in world.calls if call[0] != "GET"} == {("POST", "/graphql")}
    assert sorted({path for method, path in world.calls if method == "GET"})[:5] == [
        "/v2/account/secrets",
        "/v2/billing/pods",
        "/v2/catalog/gpus",
        "/v2/pods",
        next(path for _, path in world.calls if path.endswith("/logs")),
    ]
    assert sorted(path.name for path in (world.folder / "state").iterdir() if "-" not in path.name) == ["gpuwarden.db"]


def test_a_wrong_key_is_told_once_and_leaves_the_rest_unknown(world: World) -> None:
    world.settings["api_key"] = "another"
    examined = world.examined()
    assert [line for line in examined.lines if line.startswith("fail")] == [
        f"fail key not accepted: HTTP 401 mend: {NEW_KEY}",
        "fail listing not complete: HTTP 401 mend: nothing is proven gone and nothing starts meanwhile; ask again, then"
        " look at the account in the console",
    ]
    assert examined.of("gpus") == ["warn gpus not known: HTTP 401 mend: see `key`"]
    assert examined.of("clock") == ["ok clock as the provider's date, as far as that tells"]
    assert examined.code == 4


def test_a_provider_that_cannot_be_reached_hides_nothing_of_this_machine(world: World) -> None:
    world.refusing = True
    world.store.chmod(0o644)
    examined = world.examined()
    assert examined.of("provider") == [
        "fail provider http://127.0.0.1:9/v2 gives no usable answer: ConnectError: nobody listens mend: see whether"
        " this machine reaches the internet, and the provider's own page on its disturbances"
    ]
    assert examined.of("modes")[0].startswith("fail modes")
    assert examined.of("key") == ["warn key not known: ConnectError: nobody listens mend: see `provider`"]
    assert {line.split()[1] for line in examined.lines} == set(CHECKS)
    assert examined.code == 4


@pytest.mark.parametrize("kind", ["truncated", "html", "null", "empty", "wrong-type", "huge"])
def test_a_listing_that_is_no_whole_one_fails_and_the_rest_is_judged(world: World, kind: str) -> None:
    world.faults.append({"match": {"method": "GET", "path": "/v2/pods"}, "skip": 1, "do": {"malformed": kind}})
    world.faults.append({"match": {"method": "GET", "path": "/v2/pods"}, "do": {"malformed": kind}})
    examined = world.examined()
    assert examined.of("listing")[0].startswith("fail listing not complete: ")
    assert examined.of("tags")[0].startswith("warn tags not known: the listing is not complete")
    assert examined.of("owner")[0].startswith("warn owner not known: the listing is not complete")
    assert examined.of("funds")[0].startswith("ok")
    assert examined.code == 4


def test_many_faults_at_once_are_all_told_and_the_config_comes_first(world: World) -> None:
    world.rewrite('"NVIDIA A40"]', '"NVIDIA A4O"]')
    world.settings.update(balance=0.5, clock_offset_seconds=-3600, secrets={})
    world.pod(**COPY)
    world.store.write_bytes(b"no database at all, but long enough to be opened as one")
    world.fault("/v2/billing/pods", answer=500)
    examined = world.examined()
    failed = {line.split()[1] for line in examined.lines if line.startswith("fail")}
    assert failed == {"store", "clock", "owner", "secrets", "gpus", "funds"}
    assert len(examined.of("secrets")) == 2
    assert examined.of("permission")[1].startswith("warn permission billing not known: HTTP 500 mend: ask again")
    assert examined.code == 78


def test_a_provider_that_hangs_on_everything_ends_the_examination_in_time(world: World) -> None:
    world.fault("*", method="*", hang=3600)
    examined = world.examined()
    assert world.seconds <= 31
    assert examined.of("provider")[0].startswith("fail provider")
    assert "no whole answer within 10 s" in examined.of("provider")[0]


def test_one_question_that_hangs_keeps_no_other_from_its_answer(world: World) -> None:
    world.fault("/v2/account/secrets", hang=3600)
    assert world.examined().bad == [
        "warn secrets not known: no whole answer within 10 s mend: see `provider`",
    ]


def test_a_provider_that_asks_us_to_wait_is_no_fault(world: World) -> None:
    world.fault("/v2/*", answer=429, headers={"Retry-After": "60"})
    examined = world.examined()
    assert examined.of("provider")[0].startswith("warn provider http://127.0.0.1:9/v2 asks us to wait: ")
    assert [line.split()[1] for line in examined.lines if line.startswith("fail")] == ["listing"]


@pytest.mark.parametrize("as_json", [False, True])
def test_no_secret_is_ever_printed(world: World, as_json: bool) -> None:
    """Environments with the secrets' values in them, and a provider that repeats what it was sent."""
    world.pod()
    world.settings["echo_env"] = "resolved"
    words = " ".join(CANARIES)
    body = {"title": words, "status": 500, "detail": words, "errors": [words]}
    kind = {"content-type": "application/problem+json"}
    for path in ("/v2/billing/*", "/v2/catalog/*", "/v2/account/*", "/graphql"):
        world.fault(path, method="*", answer=500, body=body, headers=kind)
    world.faults.append(
        {"match": {"path": "/v2/pods"}, "skip": 1, "do": {"answer": 500, "body": body, "headers": kind}}
    )
    world.record(json.dumps({"event": "stop.answered", "detail": {"answer": "refused", "text": f"HTTP 403: {words}"}}))
    for name in ("runpod", "qwen"):
        (world.folder / "keys" / f"{name}.bak").write_text(KEY)
    (world.folder / "keys" / "probe").chmod(0o644)
    world.rewrite('name = "acme-prod-7f3a"', f'name = "acme-prod-7f3a"\nlog_level = "{SERVER_KEY}"')
    examined = world.examined(as_json=as_json)
    assert examined.code == 78
    shown = examined.out + examined.err
    assert [canary for canary in CANARIES if canary in shown] == []
    assert "HTTP 500" in shown


def test_json_has_every_line_with_its_mend(world: World) -> None:
    world.settings["balance"] = 0.0
    examined = world.examined(as_json=True)
    shown = json.loads(examined.out)
    assert (shown["schema"], shown["exit"], shown["counts"]) == (1, 4, {"ok": 23, "warn": 0, "fail": 1})
    assert shown["at"] == "2026-11-29T12:00:00Z"
    assert {tuple(check) for check in shown["checks"]} == {("check", "verdict", "text", "mend", "subject")}
    (funds,) = [check for check in shown["checks"] if check["check"] == "funds"]
    assert (funds["verdict"], funds["mend"]) == ("fail", "pay in; at zero the provider ends every machine")
    assert {check["check"] for check in shown["checks"]} == set(CHECKS)


def test_without_a_store_all_machines_of_our_name_are_anothers(world: World) -> None:
    world.store.unlink()
    world.pod()
    examined = world.examined()
    assert examined.of("store") == [f"ok store {world.store}: not in use yet; the first start makes it so"]
    assert examined.of("owner")[0].startswith(
        "fail owner 1 machine carries our name acme-prod-7f3a and installation 0011223344556677; here is no store yet"
    )
    assert examined.of("permission")[3].startswith("warn permission to act not known")
    assert not world.store.exists()


def test_a_store_that_was_made_and_never_used_is_no_fault(world: World) -> None:
    world.sql("DELETE FROM meta")
    assert world.examined().of("store") == [f"ok store {world.store}: not in use yet; the first start makes it so"]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda world: world.store.write_bytes(b"no database, but long enough to be one" * 9), "damaged: file is not"),
        (lambda world: world.sql("DROP TABLE alembic_version"), "damaged: no such table"),
        (lambda world: world.record('{"event":"stop.answered"}'), "damaged: "),
    ],
)
def test_a_store_that_cannot_be_used_is_told(world: World, damage: Callable[[World], object], why: str) -> None:
    damage(world)
    (line,) = world.examined().of("store")
    assert line.startswith(f"fail store {world.store}: {why}")


def test_a_store_that_takes_too_long_to_read_ends_the_look(world: World) -> None:
    class Hurried(HandClock):
        def boot(self) -> timedelta:
            self.advance(timedelta(seconds=6))
            return super().boot()

    world.sql(
        "INSERT INTO evidence (at_ms, event, line, hash) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        " WHERE i < 20000) SELECT 0, 'x', '{}', '' FROM n"
    )
    with pytest.raises(Unfit, match="cannot be read: interrupted"):
        recorded(world.store, Hurried())


def test_what_has_ended_is_not_owed(world: World) -> None:
    world.sql(
        "INSERT INTO obligations (id, opened_at_ms, epoch, stop_attempts, version, ended_at_ms, ending)"
        " VALUES ('o1', 0, 1, 0, 0, 1, 'void')"
    )
    assert world.examined().of("daemon") == ["ok daemon does not run, and nothing is owed"]


@pytest.mark.parametrize(("mode", "verdict"), [(0o640, "ok"), (0o600, "ok"), (0o660, "fail"), (0o644, "fail")])
def test_the_evidence_may_be_read_by_its_group_and_written_by_nobody_else(
    world: World, mode: int, verdict: str
) -> None:
    evidence = world.store.with_name("evidence.jsonl")
    evidence.touch()
    evidence.chmod(mode)
    assert world.examined().of("modes")[0].startswith(verdict)


def test_the_log_of_somebody_elses_machine_is_left_alone(world: World) -> None:
    world.pod(name="else", env={}, id="foreign01")
    world.examined()
    assert [path for _, path in world.calls if path.endswith("/logs")] == [f"/v2/pods/{NOBODYS}/logs"]


def test_the_date_that_came_fastest_is_believed() -> None:
    clock = HandClock()
    ear = Ear(clock)
    for seconds, round_trip in ((0, 3), (9, 1), (5, 2)):
        ear(BEGIN + timedelta(seconds=seconds), round_trip=timedelta(seconds=round_trip))
        ear(None, round_trip=timedelta())
    assert ear.best is not None
    assert ear.best.said == BEGIN + timedelta(seconds=9)


def test_an_installation_that_was_claimed_is_ours(world: World) -> None:
    world.pod(**COPY)
    world.sql("INSERT INTO claims (installation, at_ms) VALUES ('ffee', 0)")
    assert world.examined().bad == []


@pytest.mark.parametrize("key", ["missing", "open to others"])
def test_without_its_key_the_rest_is_examined_and_the_provider_left_alone(world: World, key: str) -> None:
    path = world.folder / "keys" / "runpod"
    path.unlink() if key == "missing" else path.chmod(0o640)
    world.store.chmod(0o644)
    examined = world.examined()
    why, mend = ("the account's key is missing", "put it there with mode 0600, or name key_file")
    if key != "missing":
        why, mend = ("its mode 0640 lets others in", f"chmod 0600 {path}")
    assert examined.of("account-key") == [f"fail account-key {path}: {why} mend: {mend}"]
    assert examined.of("provider") == ["warn provider not asked: there is no key to ask with mend: see `account-key`"]
    assert examined.of("modes")[0].startswith("fail")
    assert (examined.code, world.calls) == (78, [])


def test_a_systemd_credential_is_no_fault_outside_its_service(world: World) -> None:
    world.rewrite("[runpod]", '[runpod]\nkey_credential = "runpod"')
    world.rewrite("context", 'key_credential = "model_qwen"\ncontext')
    examined = world.examined()
    assert examined.of("account-key")[0].startswith("warn account-key a systemd credential: not there outside")
    assert examined.of("model-keys") == [
        "ok model-keys those to be seen are private; systemd credentials, not there outside their service: qwen"
    ]
    assert (examined.code, world.calls) == (0, [])
    world.environment["CREDENTIALS_DIRECTORY"] = str(world.folder / "keys")
    inside = world.examined()
    assert (inside.of("key"), inside.code) == (["ok key accepted"], 0)
    (world.folder / "keys" / "model_qwen").write_text("two words")
    (world.folder / "keys" / "model_qwen").chmod(0o600)
    assert world.examined().of("model-keys")[0].startswith("fail model-keys")


def test_a_model_at_fault_is_left_out_and_the_rest_examined(world: World) -> None:
    with world.config.open("a") as config:
        config.write('[models."b.c"]\nmodel = "x/y"\nimage = "vllm/vllm-openai"\ngpus = []\ncontext = 1\n')
    examined = world.examined()
    assert [line.split(": ")[1] for line in examined.of("config")] == [
        'models."b.c".gpus = []',
        'models."b.c".context = 1',
    ]
    assert all(" mend: " in line for line in examined.of("config"))
    assert examined.of("stock") == ["ok stock qwen NVIDIA L40S high, NVIDIA A40 high"]
    assert "left out of all other checks" in examined.err
    assert examined.code == 78


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('base_url = "http://127.0.0.1:9/v2"', 'baze_url = "http://127.0.0.1:9/v2"'),
        ("[runpod]", "[runpot]"),
        ('name = "acme-prod-7f3a"', 'name = "Not A Name"'),
        ("[models.qwen]", "[models.qwen"),
    ],
)
def test_a_fault_that_hides_whose_account_is_meant_sends_the_key_nowhere(world: World, old: str, new: str) -> None:
    world.rewrite(old, new)
    examined = world.examined()
    assert {line.split()[1] for line in examined.lines} == {"config", "provider"}
    assert examined.of("provider") == [
        "warn provider not asked, and nothing else looked at mend: mend the config first: it does not say whose account"
        " is meant, or where"
    ]
    assert (examined.code, world.calls) == (78, [])


def test_a_variable_that_means_nothing_sends_the_key_nowhere(world: World) -> None:
    world.environment["GPUWARDEN_RUNPOD__BAZE_URL"] = "http://127.0.0.1:9/v2"
    assert (world.examined().code, world.calls) == (78, [])


def test_no_config_at_all_is_told_as_such(world: World) -> None:
    world.config.unlink()
    examined = world.examined()
    assert examined.of("config") == [
        f"fail config {world.config}: there is no such file mend: create it, or name another"
    ]
    assert examined.code == 78


async def test_a_daemon_that_runs_is_asked_how_it_is(world: World) -> None:
    daemon = FakeDaemon()
    daemon.will("GET /v1/status", {"ready": True, "mode": "normal", "problems": [], "alarms": []})
    with served(daemon, world.store.parent / "api.sock"):
        world.store.parent.joinpath("api.sock").chmod(0o660)
        assert (await world.examine()).of("daemon") == ["ok daemon runs, and is ready"]
        daemon.will("GET /v1/status", {"ready": False, "mode": "stop-only", "alarms": [{"name": "stop-only"}]})
        assert (await world.examine()).of("daemon") == [
            "warn daemon runs (stop-only, not ready); alarm stop-only mend: `gpuwarden status` says more;"
            " deploy/README.md, When paged"
        ]
        daemon.refuses("GET /v1/status", "store_unavailable", "no store")
        assert (await world.examine()).of("daemon")[0].startswith("warn daemon answers strangely: no store")
    assert [call for call, _ in daemon.asked] == ["GET /v1/status"] * 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--live"], "say how much it may cost"),
        (["--spend-limit", "2"], "are for --live"),
        (["--model", "qwen"], "are for --live"),
        *(
            (["--live", "--spend-limit", amount], "not an amount of US dollars")
            for amount in ("0", "-1", "NaN", "Infinity", "two", "")
        ),
    ],
)
def test_nothing_is_rented_without_a_limit_that_makes_sense(world: World, options: list[str], words: str) -> None:
    assert run_command_line(["doctor", "--config", str(world.config), *options]) == 2
    assert words in world.capture.readouterr().err


@pytest.mark.parametrize(
    ("models", "code", "words"), [("", 6, "no model is configured"), ("[models.qwen]\n", 78, "models.qwen.image")]
)
def test_a_run_that_is_refused_ends_with_its_code_and_words_and_no_traceback(
    world: World, models: str, code: int, words: str
) -> None:
    world.config.write_text(f'name = "acme"\nusd_per_day = 1\n{models}')
    assert run_command_line(["doctor", "--live", "--spend-limit", "2", "--config", str(world.config)]) == code
    assert words in world.capture.readouterr().err


def test_the_command_itself_speaks_over_sockets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens at the address of this config."""
    monkeypatch.setattr("os.environ", {})
    assert run_command_line(["doctor", "--json", "--config", str(world.config)]) == 4
    shown = json.loads(world.capture.readouterr().out)
    (provider,) = [check for check in shown["checks"] if check["check"] == "provider"]
    assert (provider["verdict"], "ConnectError" in provider["text"]) == ("fail", True)
