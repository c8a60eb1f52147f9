"""Does what was written agree with what was true?

The design's invariants, asked of the emulator's truth, the store's rows and the evidence file together, after the
daemon has ended. A scenario that stages what a rule excepts (a provider that lies, two resources of one slot) names
that exception.
"""

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from controller.core.evidence_chain import BEFORE_THE_FIRST, RESTORED, forgotten, verify

Line = dict[str, Any]
OWNER = "acme-test"


@dataclass
class Scene:
    """Everything that is known after a scenario."""

    state: Path
    truth: dict[str, Any]
    secrets: tuple[str, ...]
    excepted: frozenset[str] = field(default=frozenset())

    @cached_property
    def lines(self) -> list[Line]:
        path = self.state / "evidence.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @cached_property
    def stored(self) -> list[Line]:
        """The lines of the store: of a restored one only what it does not forget."""
        return [json.loads(row["line"]) for row in self.rows("SELECT line FROM evidence ORDER BY seq")]

    @cached_property
    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["id"]: pod for pod in self.truth["pods"]}

    def told(self, event: str) -> list[Line]:
        return [line for line in self.lines if line["event"] == event]

    def rows(self, query: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.state / "gpuwarden.db")) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]


def check(scene: Scene) -> None:
    """Raises AssertionError at the first rule that does not hold."""
    _file_tells_what_the_store_holds(scene)
    _each_create_has_one_obligation_before_it(scene)
    _each_obligation_is_open_or_ended_for_a_reason(scene)
    _epochs_never_repeat(scene)
    _nothing_billed_is_discharged(scene)
    _only_ours_was_stopped(scene)
    _one_at_a_time(scene)
    _no_secret_is_written(scene)


def _file_tells_what_the_store_holds(scene: Scene) -> None:
    assert verify(scene.lines, BEFORE_THE_FIRST) is None
    gaps = [line for before, line in pairwise([{"seq": 0}, *scene.lines]) if line["seq"] != before["seq"] + 1]
    assert [line for line in gaps if line["event"] != RESTORED] == []
    lost = {seq for line in scene.lines for seq in forgotten(line)}
    assert [line for line in scene.lines if line["seq"] not in lost] == scene.stored


def _each_create_has_one_obligation_before_it(scene: Scene) -> None:
    opened = defaultdict(list)
    for line in scene.told("obligation.opened"):
        if line.get("deployment"):
            opened[line["request"]].append(line["seq"])
    submitted, breaks = scene.told("create.submitted"), [line["seq"] for line in scene.told(RESTORED)]
    for line in submitted:
        before = [seq for seq in opened[line["request"]] if seq < line["seq"]]
        again = [seq for seq in opened[line["request"]] if seq > line["seq"]]
        assert len(before) == 1, line
        assert all(any(line["seq"] < broken < seq for broken in breaks) for seq in again), line
    if "lost-store" in scene.excepted:
        return
    calls = [call for call in scene.truth["calls"] if call["method"] == "POST" and call["path"] == "/v2/pods"]
    assert len(calls) <= len(submitted)
    made = {call["pod"] for call in calls if call["effect"] == "created"}
    requests = {line["request"] for line in submitted}
    assert {scene.pods[pod]["env"]["GPUWARDEN_REQUEST"] for pod in made} <= requests


def _each_obligation_is_open_or_ended_for_a_reason(scene: Scene) -> None:
    ends = defaultdict(list)
    for line in scene.stored:
        event, _, ending = line["event"].partition(".")
        if event == "obligation" and ending in {"discharged", "transferred", "void"}:
            ends[line["obligation"]].append((ending, line.get("evidence")))
    for row in scene.rows("SELECT * FROM obligations"):
        told = ends.pop(row["id"], [])
        assert [ending for ending, _ in told] == ([] if row["ending"] is None else [row["ending"]]), row
        if row["ending"] == "discharged":
            assert row["evidence"] is not None
            assert (told[0][1] or {}).get("kind")
    assert not ends


def _epochs_never_repeat(scene: Scene) -> None:
    holders: dict[int, str] = {}
    latest: Counter[str] = Counter()
    for line in scene.lines:
        lease, epoch = line.get("deployment") or line.get("obligation"), line.get("epoch")
        if not lease or not epoch:
            continue
        assert holders.setdefault(epoch, lease) == lease, line
        assert epoch >= latest[lease], line
        latest[lease] = epoch
    granted = [row["epoch"] for row in scene.rows("SELECT epoch FROM leases")]
    assert len(granted) == len(set(granted))


def _nothing_billed_is_discharged(scene: Scene) -> None:
    if "lying-provider" in scene.excepted:
        return
    for line in scene.told("obligation.discharged"):
        at = datetime.fromisoformat(line["at"]).timestamp()
        for pod in _pods_of(scene, line):
            over = pod["status"] == "TERMINATED" or (pod["deleted_at"] is not None and pod["deleted_at"] <= at)
            assert over, (line, pod)


def _pods_of(scene: Scene, line: Line) -> list[dict[str, Any]]:
    """What an obligation was for: its exact resource, else all with its request. What only waits bills nothing."""
    if line.get("resource"):
        incarnation = line["resource"]["incarnation"]
        return [] if incarnation.startswith("queued:") else [scene.pods[incarnation]]
    return [pod for pod in scene.pods.values() if pod["env"].get("GPUWARDEN_REQUEST") == line["request"]]


def _only_ours_was_stopped(scene: Scene) -> None:
    named = (line["resource"]["incarnation"].removeprefix("queued:") for line in scene.told("stop.submitted"))
    intended = Counter(named)
    asked = Counter(call["path"].rpartition("/")[2] for call in scene.truth["calls"] if call["method"] == "DELETE")
    # Who is killed while nothing can be written takes along what it sent (invariant 4).
    assert asked <= intended or "unrecorded-stop" in scene.excepted
    waiting = {entry["id"]: entry["name"] for entry in scene.truth["queued"]}
    requests = {line["request"] for line in scene.told("create.submitted")}
    for pod in asked:
        if pod in waiting:
            assert waiting[pod].rpartition("-")[2] in requests
        else:
            assert scene.pods[pod]["env"]["GPUWARDEN_OWNER"] == OWNER


def _one_at_a_time(scene: Scene) -> None:
    """Of the resources that we made for one model no two were alive together, but what replaces and what is replaced;
    and no third beside those. What fills a volume stands beside what serves, and alone in its place."""
    if "two-at-once" in scene.excepted:
        return
    names = {line["request"]: line["deployment"] for line in scene.told("create.submitted")}
    declared = {line["deployment"]: line["detail"] for line in scene.told("deployment.declared")}
    replaced = {name: detail.get("replaces") for name, detail in declared.items()}
    models = {
        line["request"]: (line["model"], declared.get(line["deployment"], {}).get("fills"))
        for line in scene.told("create.submitted")
    }
    lives = defaultdict(list)
    for pod in scene.pods.values():
        request = pod["env"].get("GPUWARDEN_REQUEST", "")
        if request in models:
            lives[models[request]].append((pod["created_at"], pod["deleted_at"] or float("inf"), names[request]))
    for spans in lives.values():
        for began, _, name in spans:
            beside = [other for begins, ends, other in spans if other != name and begins <= began < ends]
            assert beside in ([], [replaced.get(name)]), (name, spans)


def _no_secret_is_written(scene: Scene) -> None:
    for path in scene.state.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [secret for secret in scene.secrets if secret.encode() in data], path
