"""What does one probe add to what is known of a model server?

The whole proof (it turns away who has no key, and serves by the right name) is asked for while a machine starts, every
ten minutes, and after anything that looks like another server: a new container, a new process, an answer that was not
"ready". In between it is enough that it serves and counts.
"""

from dataclasses import replace
from datetime import datetime

from controller.core.deployment import SeenResource
from controller.core.readiness import Verdict, proof_stands
from controller.core.runtime import Runtime, follow
from controller.core.view import Probed
from controller.upstreams.probe import Probe


def proof_holds(former: Probed | None, seen: SeenResource, *, now: datetime) -> bool:
    """Is it enough that it still serves?"""
    if former is None or former.verdict is not Verdict.READY or former.runtime is None:
        return False
    return proof_stands(former.proven_at, container_at=seen.started_at, now=now)


def probed(former: Probed | None, probe: Probe) -> Probed:
    """What is known from now on."""
    ready, awaited_at = probe.verdict is Verdict.READY, None if former is None else former.awaited_at
    latest = Probed(
        verdict=probe.verdict,
        served=probe.served,
        detail=probe.detail,
        at=probe.observed_at,
        awaited_at=probe.observed_at if probe.answered and not ready else awaited_at,
        runtime=_runtime(former, probe),
        version=probe.version,
        proven_at=probe.observed_at if ready else None,
    )
    if former is None or probe.whole or not ready:
        return latest
    proven_at = former.proven_at if _process(former.runtime) == _process(latest.runtime) else None
    return replace(latest, served=former.served, version=former.version, proven_at=proven_at)


def _runtime(former: Probed | None, probe: Probe) -> Runtime | None:
    if probe.scrape is None:
        return None
    return follow(None if former is None else former.runtime, probe.scrape, at=probe.observed_at)


def _process(runtime: Runtime | None) -> datetime | None:
    return None if runtime is None else runtime.scrape.process_started_at
