"""May this daemon be relied on now?

Not ready means that something an operator has to mend keeps it from its work: the store cannot be written, it only
stops or starts nothing, or a task is silent or fails. A provider that was not listed yet is no reason.
"""

from controller.api.panel import Panel
from controller.core.removal import CONFIG_REFUSED


def reasons(panel: Panel) -> list[str]:
    """Why it is not ready; empty when it is."""
    now = panel.clock.now()
    found = []
    if panel.store.unwritable_since is not None:
        found.append(f"the store cannot be written since {panel.store.unwritable_since.isoformat(timespec='seconds')}")
    if panel.stop_only:
        found.append("stop-only: nothing is started, what is owed is stopped")
    elif panel.barred is not None:
        found.append(f"{panel.barred}; see the alarm {CONFIG_REFUSED}")
    if (trouble := panel.store.clock.trouble) is not None and not panel.store.clock.sound:
        found.append(f"the time is in doubt: {trouble}")
    for pulse in panel.pulses:
        if pulse.failures:
            found.append(f"task {pulse.name} failed {pulse.failures} times in a row: {pulse.problem}")
        elif pulse.silent(now):
            found.append(f"task {pulse.name} is silent since {pulse.last_pass_at.isoformat(timespec='seconds')}")
    return found
