"""What do the metrics of a model server look like?

The names and labels of vLLM 0.32 and llama.cpp b11434 as they were recorded from the running programs, with the pod's
own counts in them; those that nothing here measures are left out or 0.
"""

from __future__ import annotations

from typing import Final

from controller.emulators.runpod.pods import Pod, server_since

KIND: Final = "text/plain; version=0.0.4; charset=utf-8"


def vllm(pod: Pod, name: str, now: float) -> str:
    seen = pod.upstream
    own = f'engine="0",model_name="{name}"'
    running = float(_running(pod))
    done = float(seen.requests - len(seen.open))
    lines = [
        "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {server_since(pod, now)}",
        *_gauge("vllm:num_requests_running", own, running, "Number of requests in model execution batches."),
        *_gauge("vllm:num_requests_waiting", own, 0.0, "Number of requests waiting to be processed."),
        *_gauge("vllm:kv_cache_usage_perc", own, min(1.0, running / 100), "KV-cache usage. 1 means 100 percent usage."),
        *_counter("vllm:prompt_tokens", own, float(seen.prompt_words), now, "Number of prefill tokens processed."),
        *_counter("vllm:generation_tokens", own, float(seen.words), now, "Number of generation tokens processed."),
        *_counter("vllm:num_preemptions", own, 0.0, now, "Cumulative number of preemption from the engine."),
        *_counter("vllm:prefix_cache_queries", own, float(seen.prompt_words), now, "Prefix cache queries."),
        *_counter("vllm:prefix_cache_hits", own, 0.0, now, "Prefix cache hits."),
        "# HELP vllm:request_success_total Count of successfully processed requests.",
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="{name}"}} 0.0',
        f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="{name}"}} {done}',
        f'vllm:request_success_total{{engine="0",finished_reason="abort",model_name="{name}"}} 0.0',
    ]
    return "\n".join(lines) + "\n"


def llama(pod: Pod) -> str:
    seen = pod.upstream
    lines = [
        *_plain("llamacpp:prompt_tokens_total", "counter", seen.prompt_words, "Number of prompt tokens processed"),
        *_plain("llamacpp:tokens_predicted_total", "counter", seen.words, "Number of generation tokens processed"),
        *_plain("llamacpp:n_decode_total", "counter", seen.words, "Total number of llama_decode() calls"),
        *_plain("llamacpp:prompt_tokens_seconds", "gauge", 0, "Average prompt throughput in tokens/s"),
        *_plain("llamacpp:predicted_tokens_seconds", "gauge", 0, "Average generation throughput in tokens/s"),
        *_plain("llamacpp:requests_processing", "gauge", _running(pod), "Number of requests processing"),
        *_plain("llamacpp:requests_deferred", "gauge", 0, "Number of requests deferred"),
    ]
    return "\n".join(lines) + "\n"


def _running(pod: Pod) -> int:
    """An engine that hangs counts no more: what it said last stays."""
    return pod.upstream.frozen_running if pod.upstream.state == "hung" else len(pod.upstream.open)


def _gauge(name: str, labels: str, value: float, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name}{{{labels}}} {value}"]


def _counter(name: str, labels: str, value: float, now: float, about: str) -> list[str]:
    return [
        f"# HELP {name}_total {about}",
        f"# TYPE {name}_total counter",
        f"{name}_total{{{labels}}} {value}",
        f"# TYPE {name}_created gauge",
        f"{name}_created{{{labels}}} {now}",
    ]


def _plain(name: str, kind: str, value: int, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value}"]
