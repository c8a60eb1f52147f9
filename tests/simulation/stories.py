"""What are the main stories of a daemon's life?

Short, and told from outside: what clients, operators and the provider do. Each may be cut short at any point by the
daemon's end, so it waits for what is true in the end and never for what a daemon has in mind.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.crash_stage import Stage

CREATE: Final = {"method": "POST", "path": "/v2/pods"}
DELETE: Final = {"method": "DELETE", "path": "/v2/pods/*"}


Play = Callable[[Stage], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Story:
    """`settings` are the provider's."""

    name: str
    play: Play
    settings: dict[str, Any] = field(default_factory=dict)


STORIES: Final[dict[str, Story]] = {}


def story(**settings: Any) -> Callable[[Play], Play]:
    def tell(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        STORIES[name] = Story(name, play, settings)
        return play

    return tell


def _begin(stage: Stage, **config: Any) -> None:
    stage.configure("m1", **config)
    stage.box.start_daemon()
    stage.box.start_gateway(["m1"])


async def _served(stage: Stage) -> None:
    assert await stage.chat() == 200


async def _over(stage: Stage, *, within: float = 600.0) -> None:
    await stage.until(stage.over, within=within, what="nothing bills and nothing is owed")


@story()
async def start(stage: Stage) -> None:
    _begin(stage)
    await _served(stage)


@story()
async def adopt(stage: Stage) -> None:
    """The create's answer is lost, and it made one."""
    stage.provider.add_faults([{"match": CREATE, "times": 1, "do": {"drop": "after", "effect": True}}])
    _begin(stage)
    await _served(stage)


@story()
async def late_create(stage: Stage) -> None:
    """The provider is at it for longer than a restart takes."""
    stage.provider.add_faults([{"match": CREATE, "times": 1, "do": {"delay": 12}}])
    _begin(stage)
    await _served(stage)


@story()
async def fruitless_create(stage: Stage) -> None:
    """The create's answer is lost, and it made nothing."""
    stage.provider.add_faults([{"match": CREATE, "times": 1, "do": {"drop": "before"}}])
    _begin(stage)
    await _served(stage)


@story(stock={"NVIDIA L40S": 0})
async def next_type(stage: Stage) -> None:
    _begin(stage)
    await _served(stage)


@story(stock={"NVIDIA L40S": 0, "NVIDIA A40": 0})
async def no_capacity(stage: Stage) -> None:
    """A round is refused whole; later there is one."""
    stage.kernel.after(12, lambda: stage.provider.change_settings({"stock": {}}))
    _begin(stage)
    await _served(stage)


@story()
async def idle_stop(stage: Stage) -> None:
    _begin(stage)
    await _served(stage)
    await _over(stage)


@story()
async def stop_refused(stage: Stage) -> None:
    for deed in ({"answer": 500}, {"answer": 429, "headers": {"retry-after": "3"}}, {"drop": "before"}):
        stage.provider.add_faults([{"match": DELETE, "times": 1, "do": deed}])
    _begin(stage)
    await _served(stage)
    await _over(stage)


@story()
async def stop_ignored(stage: Stage) -> None:
    stage.provider.add_faults([{"match": DELETE, "times": 2, "do": {"ignore": True}}])
    _begin(stage)
    await _served(stage)
    await _over(stage)


@story()
async def replaced_by_age(stage: Stage) -> None:
    """Its lifetime ends while it is used; whoever asks next gets another."""
    _begin(stage, extra='max_lifetime = "30s"\ndrain_limit = "10s"')
    for _ in range(6):
        await stage.chat()
        await stage.sleep(5)


@story()
async def replace(stage: Stage) -> None:
    """An operator restarts what streams; another serves before it goes."""
    _begin(stage)
    await _served(stage)
    asked = stage.town.clients.start(stage.chat(stream=True, max_tokens=1000))
    await stage.sleep(3)
    old = stage.ours()
    await stage.order("/v1/models/m1/restart", {})
    await asked
    await stage.until(lambda: old != stage.ours() and len(stage.ours()) < 2, within=900, what="another alone")
    await _served(stage)
    await _over(stage)


@story()
async def replace_changed(stage: Stage) -> None:
    """The config asks for another image; the answer to its create is lost, and the old one serves on meanwhile."""
    _begin(stage)
    await _served(stage)
    stage.box.config.write_text(stage.box.config.read_text().replace(":v0.31.0", ":v0.32.0"))
    stage.provider.add_faults([{"match": CREATE, "times": 1, "do": {"drop": "after", "effect": True}}])
    stage.box.end_daemon()
    await stage.until(lambda: stage.box.program is None, within=60, what="the daemon's end")
    stage.box.restart_if_down()
    await stage.sleep(20)
    await _served(stage)
    await _over(stage)


@story()
async def model_removed(stage: Stage) -> None:
    _begin(stage)
    await _served(stage)
    stage.configure()
    stage.box.end_daemon()
    await stage.until(lambda: stage.box.program is None, within=60, what="the daemon's end")
    stage.box.restart_if_down()
    await _over(stage)
    stage.configure("m1")
    stage.box.end_daemon()
    await stage.until(lambda: stage.box.program is None, within=60, what="the daemon's end")
    stage.box.restart_if_down()
    await _served(stage)


@story(upstream={"crash_every_seconds": 40}, ready_seconds=1e6)
async def crash_loop(stage: Stage) -> None:
    """The container starts over and over; it is stopped, and a fresh start serves."""
    _begin(stage, extra='crash_window = "310s"')  # 300 s are those of the idle time, and made shorter
    text = stage.box.config.read_text().replace('startup_deadline = "60s"', 'startup_deadline = "600s"')
    stage.box.config.write_text(text)
    stage.box.end_daemon()
    asked = stage.town.clients.start(stage.chat())
    await stage.until(stage.ours, within=120, what="a machine")
    stage.provider.change_settings({"upstream": {}, "ready_seconds": 3})
    await stage.until(lambda: any(call.method == "DELETE" for call in stage.provider.calls), within=600, what="a stop")
    assert await asked == 200


@story()
async def orphan(stage: Stage) -> None:
    """Its epoch is none that a lost part of the store could have granted: nothing is to be adopted."""
    _begin(stage)
    await stage.until(lambda: stage.book, within=60, what="the daemon")
    stage.provider.put_pod({"name": "gpuwarden-m1-r0123456789abcdef", "env": stage.tags(epoch="0")})
    await stage.until(stage.stray_on_the_books, within=300, what="its stop is owed as an orphan's")
    await _over(stage)


@story()
async def forgotten(stage: Stage) -> None:
    """A pod that tells of a part of the store that was lost is adopted, and idles out."""
    _begin(stage)
    await stage.until(lambda: stage.book, within=60, what="the daemon")
    stage.provider.put_pod({"name": "gpuwarden-m1-r0123456789abcdef", "env": stage.tags()})
    await _over(stage)


@story()
async def claim(stage: Stage) -> None:
    """A pod of another installation is claimed by command, and adopted."""
    stage.excepted.add("lost-store")
    _begin(stage)
    await stage.until(lambda: stage.book, within=60, what="the daemon")
    env = stage.tags(installation="0123456789abcdef")
    stage.provider.put_pod({"name": "gpuwarden-m1-r0123456789abcdef", "env": env})
    await stage.until(lambda: stage.book and stage.book.sightings, within=120, what="its sighting")
    await stage.order("/v1/installations/0123456789abcdef/claim", {})
    await _over(stage)


@story()
async def take_over(stage: Stage) -> None:
    """The daemon is stopped and loses its file; another takes over, and the first is continued."""
    _begin(stage)
    await _served(stage)
    program = stage.box.program
    if program is not None:
        stage.take_over(program, seconds=30)
    await stage.sleep(15)
    await _served(stage)
    await stage.sleep(60)
    await _over(stage)


@story()
async def stop_now(stage: Stage) -> None:
    _begin(stage)
    await _served(stage)
    await stage.order("/v1/models/m1/stop", {"now": True})
    await _over(stage)


@story()
async def drain(stage: Stage) -> None:
    """An operator stops what still streams."""
    _begin(stage)
    await _served(stage)
    asked = stage.town.clients.start(stage.chat(stream=True, max_tokens=1000))
    await stage.sleep(3)
    await stage.order("/v1/models/m1/stop", {})
    await asked
    await _over(stage)


@story(upstream={"state": "open"})
async def unprotected(stage: Stage) -> None:
    """It serves whoever asks, without a key: it is stopped, and the next one is right."""
    _begin(stage)
    asked = stage.town.clients.start(stage.chat())
    await stage.until(stage.ours, within=120, what="a machine")
    stage.provider.change_settings({"upstream": {}})
    await asked


@story(upstream={"state": "refusing-key"})
async def key_refused(stage: Stage) -> None:
    _begin(stage)
    asked = stage.town.clients.start(stage.chat())
    await stage.until(stage.ours, within=120, what="a machine")
    stage.provider.change_settings({"upstream": {}})
    await _over(stage)
    await stage.order("/v1/models/m1/unblock", {})
    assert await asked == 200


@story(ready_seconds=1e6)
async def startup_deadline(stage: Stage) -> None:
    _begin(stage)
    asked = stage.town.clients.start(stage.chat())
    await stage.until(stage.ours, within=120, what="a machine")
    stage.provider.change_settings({"ready_seconds": 3})
    assert await asked == 200


@story()
async def vanished(stage: Stage) -> None:
    """Gone by itself: two complete listings and a read have to say so before another is started."""
    _begin(stage)
    await _served(stage)
    for pod in stage.ours():
        stage.provider.change_pod(pod, {"vanish": True})
    await _over(stage)
    await _served(stage)


@story()
async def exited(stage: Stage) -> None:
    _begin(stage)
    await _served(stage)
    for pod in stage.ours():
        stage.provider.change_pod(pod, {"status": "EXITED"})
    await _over(stage)


@story()
async def moved(stage: Stage) -> None:
    """The provider gives it another id."""
    stage.excepted.add("two-at-once")
    _begin(stage)
    await _served(stage)
    for pod in stage.ours():
        stage.provider.change_pod(pod, {"migrate": True})
    await _over(stage)


@story()
async def disowned(stage: Stage) -> None:
    """A newer lease elsewhere took it: it is handed over, and never stopped here."""
    _begin(stage)
    await _served(stage)
    for pod in stage.ours():
        taken = {"GPUWARDEN_INSTALLATION": "0123456789abcdef", "GPUWARDEN_EPOCH": "99"}
        stage.provider.change_pod(pod, {"env": stage.provider.pods[pod].env | taken})
        stage.spared.add(pod)
    await stage.until(lambda: stage.book and not stage.book.live(), within=600, what="its handing over")
