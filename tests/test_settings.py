"""Does a good config yield what it says, and does a bad one name key, value, line and mend?"""

import hashlib
import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from controller.core.policy import StopEvidence
from controller.settings import ConfigProblems, Settings, derived, load, load_accepted
from controller.settings.sizes import container_disk_gb, startup_deadline

# The short config of the design, as it stands there.
SHORT = """\
name = "acme-prod-7f3a"          # owner: one per environment, made by `gpuwarden init`
usd_per_day = 40                 # beyond it nothing new starts

[models.qwen]
model = "Qwen/Qwen3-8B"
image = "vllm/vllm-openai:v0.31.0"
gpus  = ["NVIDIA L40S", "NVIDIA A40"]   # in this order, never another
context = 32768
"""
LINES = SHORT.count("\n")


def taken(tmp_path: Path, text: str, **environment: str) -> Settings:
    file = tmp_path / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    return load(file, environment)


def refused(tmp_path: Path, text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigProblems) as problems:
        taken(tmp_path, text, **environment)
    return [str(problem).replace(str(tmp_path / "config.toml"), "config.toml") for problem in problems.value.problems]


def test_the_short_config_is_enough(tmp_path: Path) -> None:
    settings = taken(tmp_path, SHORT)
    policy, model = settings.hosting_policy(), settings.model_policies()["qwen"]
    assert (policy.owner, policy.usd_per_day, policy.max_active) == ("acme-prod-7f3a", Decimal(40), 2)
    assert model.offers == ("NVIDIA L40S", "NVIDIA A40")
    assert (model.idle_after, model.max_lifetime) == (timedelta(minutes=30), timedelta(days=7))
    assert (model.startup_deadline, model.wait, model.queue) == (timedelta(seconds=1800), timedelta(seconds=570), 64)
    assert model.served_name == "Qwen/Qwen3-8B"
    assert (settings.key_secret("qwen"), settings.disk_gb("qwen")) == ("vllm_qwen", 80)


def test_a_config_without_a_spending_limit_has_one(tmp_path: Path) -> None:
    without = SHORT.replace("usd_per_day = 40", "")
    assert taken(tmp_path, without).hosting_policy().usd_per_day == Decimal(40)


M, P, G, R = "[models.qwen]", "[policy]", "[gateway]", "[runpod]"
BAD_LINES = [
    (M, 'idel_after = "30m"', 'models.qwen.idel_after = "30m": no such key; did you mean idle_after?'),
    (M, "idle_after = 90", "models.qwen.idle_after = 90: a duration is a text with its unit, not a number"),
    (M, "idle_after = 90", 'write "90s" if seconds are meant'),
    (M, 'idle_after = "90"', 'models.qwen.idle_after = "90": not a duration; write a number and a unit'),
    (M, 'idle_after = "1 hour"', 'models.qwen.idle_after = "1 hour": not a duration'),
    (M, 'idle_after = "25h"', 'models.qwen.idle_after = "25h": out of bounds; write a duration from "1s"'),
    (M, "replicas = true", "models.qwen.replicas = true: not a whole number; write a whole number from 1"),
    (M, 'replicas = "2"', 'models.qwen.replicas = "2": not a whole number'),
    (M, "replicas = 1.5", "models.qwen.replicas = 1.5: not a whole number"),
    (M, "queue = 4097", "models.qwen.queue = 4097: out of bounds; write a whole number from 1 to 4096"),
    (M, "gpu_util = nan", "models.qwen.gpu_util = NaN: out of bounds; write a number from 0.1 to 1.0"),
    (M, "gpu_util = 1.01", "models.qwen.gpu_util = 1.01: out of bounds"),
    (M, "max_usd_per_hour = inf", "models.qwen.max_usd_per_hour = Infinity: out of bounds"),
    (M, "max_usd_per_hour = 0.1234567", "models.qwen.max_usd_per_hour = 0.1234567: finer than a micro"),
    (M, 'thinking = "maybe"', 'models.qwen.thinking = "maybe": not one of the words allowed here; write'),
    (M, "thinking = true", "models.qwen.thinking = true: not one of the words"),
    (M, 'allow_unpinned = "yes"', 'models.qwen.allow_unpinned = "yes": neither true nor false; write true'),
    (M, 'wires = ["chat", "chat"]', 'models.qwen.wires = ["chat", "chat"]: the list names something twice'),
    (M, 'wires = ["chat", "talk"]', 'models.qwen.wires = ["chat", "talk"]: entry 2 is not of the right'),
    (M, "wires = []", "models.qwen.wires = []: a list of 0; list from 1 to 6 texts"),
    (M, 'extra_args = ["--api-key=x"]', 'models.qwen.extra_args = "--api-key": set by gpuwarden, or a'),
    (M, 'sampling = "{"', 'models.qwen.sampling = "{": not a JSON object'),
    (M, "sampling = [1]", "models.qwen.sampling = [1]: not a JSON object"),
    (M, 'environment = { MY_TOKEN = "x" }', 'models.qwen.environment = "MY_TOKEN": its name says'),
    (M, 'environment = { RUNPOD_X = "x" }', 'models.qwen.environment = "RUNPOD_X": a mark of the'),
    (M, 'tool_calling = "parsed"', 'models.qwen.tool_calling = "parsed": vLLM needs to know how; add'),
    (M, 'tool_call_parser = "hermes"', 'models.qwen.tool_call_parser = "hermes": only for vLLM with'),
    (M, 'model_file = "a.gguf"', 'models.qwen.model_file = "a.gguf": only for llama_cpp; remove it'),
    (M, "max_num_batched_tokens = 7", "models.qwen.max_num_batched_tokens = 7: less than max_num_seqs"),
    (M, "long_prefill_token_threshold = 32769", "threshold = 32769: more than context; lower it"),
    (M, "model_size_gb = 1600", "models.qwen.model_size_gb = 1600: needs a larger container disk"),
    (M, "policy.settle = 3", "models.qwen.policy: no such key; "),
    (P, 'lease = "60s"\nlease_renewal = "1s"', 'policy.lease = "1m": does not fit; it must be longer than two call'),
    (P, 'lease_renewal = "150s"', 'policy.lease_renewal = "2m30s": does not fit; it must be less than half of'),
    (P, 'listing_steady = "14s"', 'policy.listing_steady = "14s": does not fit; it must be at least listing_fast'),
    (P, 'stop_evidence = "none"', 'policy.stop_evidence = "none": not one of the words allowed here; write one'),
    (P, "max_actve = 3", "policy.max_actve = 3: no such key; did you mean max_active?"),
    (G, 'listen = "127.0.0.1"', 'gateway.listen = "127.0.0.1": not of the right shape; write an address and'),
    (G, 'listen = "127.0.0.1:0"', 'gateway.listen = "127.0.0.1:0": no such port; write a port from 1'),
    (G, 'keys = ["sk-1234"]', "gateway.keys: "),
    (R, 'base_url = "http://example.com"', 'runpod.base_url = "http://example.com": keys would travel in the'),
    (R, 'proxy_url = "https://x.net"', 'runpod.proxy_url = "https://x.net": does not name {pod} and {port}'),
    (R, 'key_fiel = "/x"', "runpod.key_fiel: no such key; did you mean key_file?"),
    ("[rumpod]", "x = 1", "rumpod: no such key; did you mean runpod?"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "line", "said"), BAD_LINES, ids=lambda value: str(value)[:40])
def test_a_bad_line_is_named_with_key_value_line_and_mend(tmp_path: Path, table: str, line: str, said: str) -> None:
    at_end = table == "[models.qwen]"
    text = SHORT + (f"{line}\n" if at_end else f"\n{table}\n{line}\n")
    number = LINES + (1 if at_end else 2 if table == "[rumpod]" else 3)
    problems = refused(tmp_path, text)
    assert len(problems) == 1
    assert problems[0].startswith(f"config.toml:{number}: ")
    assert said in problems[0]


@pytest.mark.parametrize(
    ("former", "latter", "said"),
    [
        ("v0.31.0", "v0.21.9", 'config.toml:6: models.qwen.image = "vllm/vllm-openai:v0.21.9": vLLM before 0.22'),
        (":v0.31.0", "", 'config.toml:6: models.qwen.image = "vllm/vllm-openai": the image is not pinned'),
        (":v0.31.0", ":latest", "config.toml:6: models.qwen.image"),
        ("[models.qwen]", "[models.runpod]", 'config.toml:4: models.runpod = "runpod": keys/runpod is the account'),
        ("[models.qwen]", "[models.Qwen]", 'config.toml:4: models.Qwen = "Qwen": not an alias; use 1 to 64 of a-z'),
        ("[models.qwen]", '[models."-q"]', 'config.toml:4: models.-q = "-q": not an alias'),
        ("[models.qwen]", '[models.".."]', 'config.toml:4: models."..": not an alias'),
        ("context = 32768", "", "config.toml:4: models.qwen.context: missing; add context = …"),
        ("context = 32768", "context = 127", "config.toml:8: models.qwen.context = 127: out of bounds"),
        ('name = "acme-prod-7f3a"', "name = 7", 'config.toml:1: name = 7: not a text; in quotes: write 1 to 64 of'),
        ('name = "acme-prod-7f3a"', "", "config.toml: name: missing; add name = …"),
        ('name = "acme-prod-7f3a"', "name = acme", "config.toml:1: name = acme: not a TOML value; texts need quotes"),
        ("[models.qwen]", "[models.qwen", "config.toml:4: [models.qwen: the name of this table is not closed; write"),
        ("context = 32768", "context = 1 2", "config.toml:8: context: not TOML: "),
        ("[models.qwen]", "[models]\nqwen = 3\n[x]", "config.toml:5: models.qwen = 3: not a table; write it as"),
    ],
)  # fmt: skip
def test_a_spoilt_line_is_named_with_key_value_line_and_mend(
    tmp_path: Path, former: str, latter: str, said: str
) -> None:
    problems = refused(tmp_path, SHORT.replace(former, latter))
    assert any(problem.startswith(said.replace('"..":', '".." = "..":')) for problem in problems), problems


def test_an_alias_with_a_dot_is_asked_for_in_quotes(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, SHORT.replace("[models.qwen]", "[models.qwen3.8]"))
    assert 'an alias with a dot needs quotes: [models."qwen3.8"]' in problem


def test_a_duplicate_alias_is_named_with_its_line(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, f"{SHORT}\n[models.qwen]\n")
    assert problem.startswith(f"config.toml:{LINES + 2}: [models.qwen]: this table is declared twice; give each model")


def test_a_duplicate_key_is_named_with_its_line(tmp_path: Path) -> None:
    (problem,) = refused(tmp_path, f"{SHORT}context = 4096\n")
    assert problem.startswith(f"config.toml:{LINES + 1}: context: this key is set twice")


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = SHORT.replace("v0.31.0", "latest").replace("32768", "0") + "\n[policy]\nsettle = 0\n[gateway]\nlisten = 1\n"
    keys = [line.split(": ")[1].split(" =")[0] for line in refused(tmp_path, text, GPUWARDEN_POLICY__SETLE="1s")]
    assert sorted(keys) == ["GPUWARDEN_POLICY__SETLE", "gateway.listen", "models.qwen.context", "policy.settle"]
    repaired = refused(tmp_path, text.replace("context = 0", "context = 4096"))
    assert any("models.qwen.image" in problem for problem in repaired)


def test_the_line_of_a_key_after_texts_and_lists_of_several_lines_is_right(tmp_path: Path) -> None:
    odd = 'extra_args = [\n  "--a",  # = ]\n  "--b",\n]\nsampling = """\n{"a": 1}"""\nreplicas = 0\n'
    (problem,) = refused(tmp_path, SHORT + odd)
    assert problem.startswith(f"config.toml:{LINES + 7}: models.qwen.replicas = 0")


def test_what_may_be_a_secret_is_not_repeated(tmp_path: Path) -> None:
    canary = "rpa_CANARY0123456789"
    lines = (
        f'[runpod]\nkey = "{canary}"',
        f'[runpod]\nkey_credential = "{canary} x"',
        f"[runpod]\nkey_file = {canary}",
        f'[runpod]\naccount = "x {canary}"',
        f'[gateway]\nkeys = ["{canary}"]',
        f'[gateway]\nlisten = "{canary}"',
        f'[models.qwen.environment]\nHF_TOKEN = "{canary}"',
    )
    for line in lines:
        assert canary not in "\n".join(refused(tmp_path, f"{SHORT}\n{line}\n"))


def test_defaults_of_the_gateway_and_the_policy_hold_for_models_that_say_nothing(tmp_path: Path) -> None:
    text = f'{SHORT}\n[gateway]\nqueue = 5\nwait = "0s"\n[policy]\nmax_lifetime = "2h"\ndrain_limit = "0s"\n'
    model = taken(tmp_path, text).model_policies()["qwen"]
    assert (model.queue, model.wait, model.drain_limit) == (5, timedelta(0), timedelta(0))
    assert model.max_lifetime == timedelta(hours=2)


def test_a_models_lifetime_never_exceeds_the_policys(tmp_path: Path) -> None:
    text = SHORT + 'max_lifetime = "3h"\n\n[policy]\nmax_lifetime = "2h"\nstop_evidence = "accepted"\n'
    settings = taken(tmp_path, text)
    assert settings.model_policies()["qwen"].max_lifetime == timedelta(hours=2)
    assert settings.hosting_policy().stop_evidence is StopEvidence.ACCEPTED


def test_the_fingerprint_follows_what_shapes_a_machine_and_nothing_else(tmp_path: Path) -> None:
    def digest(extra: str) -> str:
        return taken(tmp_path, SHORT + extra).model_policies()["qwen"].fingerprint

    assert digest('idle_after = "5m"\nreplicas = 3\nqueue = 9\nmax_num_seqs = 8\n') == digest("")
    assert (
        len({digest(""), digest("max_num_seqs = 9\n"), digest("gpu_count = 2\n"), digest('environment.A = "1"\n')}) == 4
    )


def test_a_new_key_at_its_default_changes_no_fingerprint(tmp_path: Path) -> None:
    section = taken(tmp_path, SHORT).models["qwen"]
    bare = {"model": section.model, "image": section.image, "gpus": list(section.gpus), "context": 32768}
    digest = hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert derived.fingerprint(section) == digest[:16]


def test_a_models_own_zero_wins_over_the_policys_default(tmp_path: Path) -> None:
    model = taken(tmp_path, SHORT + 'drain_limit = "0s"\nwait = "0s"\n').model_policies()["qwen"]
    assert (model.drain_limit, model.wait) == (timedelta(0), timedelta(0))


def test_the_oldest_vllm_that_guards_its_key_is_taken(tmp_path: Path) -> None:
    assert taken(tmp_path, SHORT.replace("v0.31.0", "v0.22.0")).models["qwen"].image.endswith("v0.22.0")


def test_an_unpinned_image_is_taken_where_that_is_said(tmp_path: Path) -> None:
    text = SHORT.replace(":v0.31.0", "") + "allow_unpinned = true\n"
    assert taken(tmp_path, text).models["qwen"].image == "vllm/vllm-openai"


def test_a_digest_pins_an_image_behind_a_registry_with_a_port(tmp_path: Path) -> None:
    text = SHORT.replace("vllm/vllm-openai:v0.31.0", f"reg.example:5000/vllm@sha256:{'0' * 64}")
    assert taken(tmp_path, text).models["qwen"].image.startswith("reg.example:5000/")
    assert "not pinned" in refused(tmp_path, SHORT.replace("vllm/vllm-openai:v0.31.0", "reg.example:5000/vllm"))[0]


def test_a_disk_smaller_than_the_weights_and_their_company_is_refused(tmp_path: Path) -> None:
    text = f"{SHORT}model_size_gb = 55\n"
    assert taken(tmp_path, f"{text}disk_gb = 75\n").disk_gb("qwen") == 75
    assert "models.qwen.disk_gb = 74: too small" in refused(tmp_path, f"{text}disk_gb = 74\n")[0]


def test_disk_follows_from_the_size_of_the_weights() -> None:
    assert container_disk_gb(Decimal(55), on_volume=True) == 30
    assert container_disk_gb(Decimal(55), on_volume=False) == 102
    assert container_disk_gb(None, on_volume=False) == 80


def test_startup_deadline_follows_from_the_size_of_the_weights() -> None:
    assert startup_deadline(None, hf_token=False) == timedelta(seconds=1800)
    assert startup_deadline(Decimal(5), hf_token=True) == timedelta(seconds=600)
    assert startup_deadline(Decimal(55), hf_token=True) == timedelta(seconds=1400)
    assert startup_deadline(Decimal(55), hf_token=False) == timedelta(seconds=2775)
    assert startup_deadline(Decimal(20000), hf_token=False) == timedelta(hours=6)


def test_the_accepted_config_comes_back_as_it_was(tmp_path: Path) -> None:
    text = SHORT + 'gpu_util = 0.85\nmax_usd_per_hour = "0.79"\nidle_after = "1h30m"\nsampling = { top_p = 0.8 }\n'
    settings = taken(tmp_path, text, GPUWARDEN_POLICY__SETTLE="90s")
    again = load_accepted(settings.accepted(), {})
    assert again.hosting_policy() == settings.hosting_policy()
    assert again.model_policies() == settings.model_policies()
    assert again.places == settings.places
    assert again.accepted() == settings.accepted()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"file": "x", "config": 3}', '{"file": "x", "config": {"a": 1}}'])
def test_an_accepted_config_that_cannot_be_read_back_is_a_problem_and_no_crash(text: str) -> None:
    with pytest.raises(ConfigProblems, match="the last accepted config"):
        load_accepted(text, {})


def test_a_config_has_a_digest_that_tells_what_it_says_and_not_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    settings = taken(tmp_path, SHORT)
    same = taken(tmp_path / "elsewhere", f"# moved\n{SHORT}\n[gateway]\nbody_limit_mib = 9\n")
    assert settings.digest() == same.digest() == load_accepted(settings.accepted(), {}).digest()
    assert settings.digest() != taken(tmp_path, SHORT.replace("40", "41")).digest()
    assert settings.digest() != taken(tmp_path, SHORT, GPUWARDEN_USD_PER_DAY="39").digest()
