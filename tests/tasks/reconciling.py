"""How does a test take one pass of the reconciler?"""

from typing import Any

from controller.core.errors import Code
from controller.tasks.reconciler import Reconciler
from tests.tasks.world import Bench


async def reconciler(bench: Bench, **charter: Any) -> Reconciler:
    return bench.reconciler(await bench.executor(), **charter)


async def asked(bench: Bench, task: Reconciler, *, look: bool = True) -> None:
    """Somebody wants it; look, pass, and let the calls be made."""
    bench.wants.ask("qwen", now=bench.clock.now())
    await passed(bench, task, look=look)


async def passed(bench: Bench, task: Reconciler, *, look: bool = True) -> None:
    if look:
        await bench.look()
    await task.run_pass()
    await bench.settle()


def creates(bench: Bench) -> int:
    return bench.provider.calls["create"]


def refusal(task: Reconciler) -> tuple[Code, bool] | None:
    refused = task.refusals.get("qwen")
    return None if refused is None else (refused.code, refused.final)
