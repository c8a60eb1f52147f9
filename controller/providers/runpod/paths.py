"""Under which path does Runpod keep this resource?"""

from typing import Final
from urllib.parse import quote

from controller.core.identity import ResourceKey
from controller.providers.runpod import queue

PODS_PATH: Final = "/pods"


def resource_path(key: ResourceKey) -> str:
    if queue.is_queued(key):
        return queue.queued_path(key)
    # A dot is escaped too: `..` is a step up in a path, whatever it is as an id.
    return f"{PODS_PATH}/{quote(key.incarnation, safe='').replace('.', '%2E')}"
