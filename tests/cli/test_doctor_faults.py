"""Is each fault alone found by its own check, with its own mend and code, and by no other?"""

from collections.abc import Callable
from datetime import timedelta

import pytest

from controller.store.schema import HEAD
from tests.cli.doctor_world import COPY, MAY_NOT_ACT, NEW_KEY, World, world

__all__ = ["world"]

Spoil = Callable[[World], object]
NOWHERE = {"name": "else", "env": {"GPUWARDEN_OWNER": "somebody", "GPUWARDEN_INSTALLATION": "x"}}


def with_registry(world: World, named: str) -> None:
    """The model's image is private, and pulled with this credential; the account has one."""
    world.rewrite("[models.qwen]", f'[models.qwen]\nregistry = "{named}"')
    world.settings.update(registries={"reg1": "my-hub"})


ALONE: list[tuple[str, Spoil, int, list[str]]] = [
    (
        "a secret that others may read",
        lambda world: (world.folder / "keys" / "qwen").chmod(0o644),
        78,
        ["fail model-keys KEYS/qwen: its mode 0644 lets others in mend: chmod 0600 KEYS/qwen"],
    ),
    (
        "a store that others may read",
        lambda world: world.store.chmod(0o644),
        1,
        ["fail modes STATE/gpuwarden.db: its mode 0644 lets others in mend: chmod 0600 STATE/gpuwarden.db"],
    ),
    (
        "a folder that others may write to",
        lambda world: world.store.parent.chmod(0o777),
        1,
        ["fail modes STATE: its mode 0777 lets others in mend: chmod 0755 STATE"],
    ),
    (
        "another environment's store",
        lambda world: world.sql("UPDATE meta SET owner = 'other'"),
        1,
        [
            "fail store STATE/gpuwarden.db: of other at main, not of this config mend: set name and runpod.account"
            " back, or give this environment a state_dir of its own"
        ],
    ),
    (
        "a newer store",
        lambda world: world.sql("UPDATE alembic_version SET version_num = '9999'"),
        1,
        [
            f"fail store STATE/gpuwarden.db: of a newer version (9999, this is {HEAD}) mend: install the newer"
            " gpuwarden again",
            "warn daemon does not run, and what is owed could not be read mend: see `store`",
            "warn permission to act not known: no read shows whether the key may rent and stop, and nothing was rented"
            " yet mend: see in the console that the key is not for reading only; start one cheap model and stop it",
        ],
    ),
    (
        "a stop owed while the daemon is down",
        lambda world: world.sql(
            "INSERT INTO obligations (id, opened_at_ms, epoch, stop_attempts, version) VALUES ('o1', 0, 1, 0, 0)"
        ),
        1,
        [
            "fail daemon does not run, and 1 obligation is open; `gpuwarden owed` mend: start it: `systemctl start"
            " gpuwarden.service`, or `gpuwarden up`"
        ],
    ),
    (
        "a key for reading only, as its last stop showed",
        lambda world: world.record(MAY_NOT_ACT),
        4,
        [
            "fail permission to act the last stop on record was refused: HTTP 403 mend: a key for reading only cannot"
            f" stop anything: {NEW_KEY}"
        ],
    ),
    (
        "a key that may not read bills",
        lambda world: world.fault("/v2/billing/pods", answer=403),
        4,
        [f"fail permission billing refused: HTTP 403; without it what was billed cannot stand witness mend: {NEW_KEY}"],
    ),
    (
        "a key that may not read logs",
        lambda world: world.fault("/v2/pods/*/logs", answer=403),
        4,
        [f"fail permission logs refused: HTTP 403; without it why a start fails will not be told mend: {NEW_KEY}"],
    ),
    (
        "a clock that is ahead",
        lambda world: setattr(world.clock, "ahead", timedelta(minutes=5)),
        1,
        [
            "fail clock 5 min ahead of the provider's date mend: set this machine's clock right (`timedatectl`), then"
            " restart the daemon"
        ],
    ),
    (
        "a clock that is behind",
        lambda world: world.settings.update(clock_offset_seconds=7200),
        1,
        [
            "fail clock 2 h behind the provider's date mend: set this machine's clock right (`timedatectl`), then"
            " restart the daemon"
        ],
    ),
    (
        "a listing that shows no environments",
        lambda world: world.pod().settings.update(echo_env="none"),
        4,
        [
            "fail tags 1 machine named like ours, and the listing shows the tags of none mend: whose they are cannot be"
            " told, and none is swept: stop in the console what nobody needs, and start nothing until the tags show"
        ],
    ),
    (
        "one machine without its tags",
        lambda world: world.pod().pod(id="bare01", env={}),
        0,
        [
            "warn tags 1 machine named like ours without tags, as bare01 mend: its environment was changed in the"
            " console, or another program uses runpod.prefix: see whose it is"
        ],
    ),
    (
        "a copied config",
        lambda world: world.pod(**COPY).pod(**NOWHERE),
        4,
        [
            "fail owner 1 machine carries our name acme-prod-7f3a and installation ffee; ours is 0011223344556677 mend:"
            " two environments of one name: give each a name of its own; if the other is gone for good, `gpuwarden"
            " claim ffee`"
        ],
    ),
    (
        "a secret that is not there",
        lambda world: world.settings.update(secrets={"hub": "v"}),
        4,
        [
            "fail secrets there is none named vllm_qwen, the key of qwen's server mend: make a secret vllm_qwen at the"
            " provider; machines get a reference to it, never the value"
        ],
    ),
    (
        "secrets that may not be listed",
        lambda world: world.fault("/v2/account/secrets", answer=403),
        0,
        [
            "warn secrets not known: the key may not list them (HTTP 403) mend: see in the console that they exist:"
            " hub, vllm_qwen"
        ],
    ),
    (
        "a registry credential that is there",
        lambda world: with_registry(world, "reg1"),
        0,
        [],
    ),
    (
        "a registry credential named by its name",
        lambda world: with_registry(world, "my-hub"),
        4,
        [
            "fail registry qwen there is no registry credential with the id my-hub mend: write its id, not its name,"
            " as models.qwen.registry; the provider's console shows it"
        ],
    ),
    (
        "no token for the hub",
        lambda world: world.rewrite('hf_token_secret = "hub"', ""),
        0,
        [
            "warn hub-token no Hugging Face token for qwen: one start was measured at 1646 s without and 646 s with"
            " mend: make a secret with a token at the provider, and name it as hf_token_secret"
        ],
    ),
    (
        "a type that the catalog has not",
        lambda world: world.rewrite('"NVIDIA A40"]', '"NVIDIA A4O"]'),
        78,
        ['fail gpus qwen the catalog has no "NVIDIA A4O" mend: did you mean NVIDIA A40?'],
    ),
    (
        "no stock",
        lambda world: world.settings.update(stock={"NVIDIA L40S": "NONE", "NVIDIA A40": 0}),
        0,
        [
            "warn stock qwen NVIDIA L40S none, NVIDIA A40 none mend: a start may be refused now; wait, or add a type to"
            " gpus or a data centre to data_center_ids"
        ],
    ),
    (
        "no stock for so many cards",
        lambda world: world.rewrite("context", "gpu_count = 16\ncontext"),
        0,
        [
            "warn stock qwen NVIDIA L40S none, NVIDIA A40 none mend: a start may be refused now; wait, or add a type to"
            " gpus or a data centre to data_center_ids"
        ],
    ),
    (
        "no stock where the model must be",
        lambda world: world.rewrite("context", 'data_center_ids = ["OC-AU-1"]\ncontext'),
        0,
        [
            "warn stock qwen NVIDIA L40S none, NVIDIA A40 none mend: a start may be refused now; wait, or add a type to"
            " gpus or a data centre to data_center_ids"
        ],
    ),
    (
        "a ceiling below every price",
        lambda world: world.rewrite("context", "max_usd_per_hour = 0.1\ncontext"),
        78,
        [
            "fail price qwen NVIDIA L40S $0.86/h, NVIDIA A40 $0.40/h: above max_usd_per_hour = 0.1 mend: what costs"
            " more is stopped again: raise it, or name a cheaper type"
        ],
    ),
    (
        "less than an hour's money",
        lambda world: world.settings.update(balance=0.5),
        4,
        [
            "fail funds $0.50 left, and an hour of the dearest machine configured costs $0.86: a start is refused mend:"
            " pay in; at zero the provider ends every machine"
        ],
    ),
    (
        "less than a day's money",
        lambda world: world.settings.update(balance=10.0),
        0,
        [
            "warn funds $10.00 left, $0.00/h now; with the dearest machine configured it lasts 11 h mend: pay in before"
            " it ends"
        ],
    ),
]


@pytest.mark.parametrize(("spoil", "code", "lines"), [case[1:] for case in ALONE], ids=[case[0] for case in ALONE])
def test_a_fault_alone_is_found_and_nothing_else(world: World, spoil: Spoil, code: int, lines: list[str]) -> None:
    spoil(world)
    examined = world.examined()
    wanted = [
        line.replace("KEYS", str(world.folder / "keys")).replace("STATE", str(world.store.parent)) for line in lines
    ]
    assert (examined.bad, examined.code) == (wanted, code)
