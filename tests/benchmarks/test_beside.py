"""Does the comparison run without its peers, and what does it make of its figures?"""

import pytest

from benchmarks import comparison, peers
from benchmarks.beside import SHORT, _run, main

DIRECT = {"p50_ms_1": 0.1, "p99_ms_1": 1.0, "rps_32": 20_000.0, "cpu_us_request_32": 10.0}
OURS = {"p50_ms_1": 0.6, "p99_ms_1": 3.0, "rps_32": 2_000.0, "cpu_us_request_32": 280.0, "cpu_us_event": 70.0}
OURS |= {"idle_mib": 61.0}
NGINX = {"rps_32": 10_001.0, "cpu_us_request_32": 35.0}
LITELLM = {"cpu_us_request_32": 28_000.0}


@pytest.mark.process
async def test_a_short_round_measures_every_figure_of_the_gateway() -> None:
    direct, gateway = await _run(SHORT, ())
    figures = {each.name: comparison.middle(each.found) for each in (direct, gateway)}
    cells = [cells[1] for _, cells in comparison.lines(figures)]
    assert (len(cells), "" in cells) == (16, False)
    assert {row.what for row in comparison.targets(figures)} == {
        "p50 added, 1 connection",
        "CPU of an event, 256 streams",
        "memory at rest",
    }


def test_each_target_is_met_at_its_bound_and_not_beyond_it() -> None:
    figures = {"direct": DIRECT, "gateway": OURS, "nginx": NGINX, "litellm": LITELLM}
    found = {row.what.partition(",")[0]: row.ok for row in comparison.targets(figures)}
    assert found == {
        "p50 added": True,
        "CPU of a request at 32 connections": True,
        "requests/s at 32 connections": False,
        "CPU of an event": True,
        "memory at rest": False,
    }


def test_the_middle_of_the_rounds_is_told() -> None:
    assert comparison.middle({"a": [9.0, 1.0, 2.0]}) == {"a": 2.0}


def test_delays_are_told_beside_the_direct_way() -> None:
    found = dict(comparison.lines({"direct": DIRECT, "gateway": {**OURS}}))
    assert found["p99, 1 connections, ms (direct; added)"] == ["1.00", "+2.00"]


def test_a_peer_that_is_not_installed_is_named_with_how_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "NGINX_PLACES", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert main([]) == 1
    assert "apt install --no-install-recommends nginx-light" in capsys.readouterr().err
