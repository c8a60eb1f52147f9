"""Does Runpod's own Python package, which still speaks GraphQL, take the emulator for Runpod?"""

from typing import Any

import pytest

from tests.outside.programs import run_python
from tests.processes.box import Box, box

pytestmark = pytest.mark.process

SCRIPT = """
import json, os, runpod
runpod.api_key = os.environ["RUNPOD_API_KEY"]
{body}
print(json.dumps(found))
"""


async def told(world: Box, body: str) -> Any:
    return await run_python(SCRIPT.format(body=body), provider=world.provider, folder=world.folder)


async def test_it_lists_reads_stops_and_terminates_pods() -> None:
    async with box(limit=240, configure=False) as world:
        await world.put_pod({"id": "podone", "name": "one", "status": "RUNNING", "env": {"A": "b"}})
        await world.put_pod({"id": "podtwo", "name": "two", "status": "RUNNING"})
        found = await told(
            world,
            """
listed = runpod.get_pods()
read = runpod.get_pod("podone")
stopped = runpod.stop_pod("podone")
runpod.terminate_pod("podtwo")
found = [listed, read, stopped, runpod.get_pods()]
""",
        )
        listed, read, stopped, left = found
        assert {pod["id"]: pod["desiredStatus"] for pod in listed} == {"podone": "RUNNING", "podtwo": "RUNNING"}
        assert (read["name"], read["env"], read["machine"]["gpuDisplayName"]) == ("one", ["A=b"], "A40")
        assert stopped == {"id": "podone", "desiredStatus": "EXITED"}
        assert [(pod["id"], pod["desiredStatus"]) for pod in left] == [("podone", "EXITED")]
        assert [pod["id"] for pod in await world.alive()] == ["podone"]


async def test_it_creates_and_resumes_a_pod_of_a_type_that_it_looked_up() -> None:
    async with box(limit=240, configure=False) as world:
        made, resumed = await told(
            world,
            """
made = runpod.create_pod(
    "from-outside", "vllm/vllm-openai:v0.31.0", "NVIDIA A40", ports="8000/http,22/tcp",
    env={"K": "v"}, docker_args="org/m --port 8000", container_disk_in_gb=30, volume_in_gb=20,
)
runpod.stop_pod(made["id"])
found = [made, runpod.resume_pod(made["id"], 1)]
""",
        )
        (pod,) = await world.alive()
        assert (pod["id"], pod["name"], pod["env"]) == (made["id"], "from-outside", {"K": "v"})
        assert (resumed["id"], resumed["desiredStatus"]) == (made["id"], "RUNNING")


async def test_it_says_so_when_there_is_no_such_pod_and_when_the_key_is_wrong() -> None:
    async with box(limit=240, configure=False, api_key="another") as world:
        refused = await told(
            world,
            """
try:
    runpod.get_pods()
except runpod.error.AuthenticationError:
    found = "wrong key"
runpod.api_key = "another"
try:
    runpod.terminate_pod("none")
except runpod.error.QueryError as error:
    found = [found, str(error)]
""",
        )
        assert refused == ["wrong key", "pod not found to terminate"]
