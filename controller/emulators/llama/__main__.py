"""How is one model file served by llama.cpp's own server until somebody ends it?

The key comes from `LLAMA_API_KEY`, never from the command line. It dies with the process that started it, and at
SIGTERM at once: the server's threads are native and hold nothing that has to be saved.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from controller.emulators.llama.tiny_gguf import write_tiny_model
from controller.emulators.tether import die_with_parent


def main() -> int:
    options = _options()
    die_with_parent(signal.SIGTERM)
    ended = {signal.SIGTERM, signal.SIGINT}
    # Blocked before the server starts its threads, so that they inherit it and the wait below gets the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, ended)
    if options.make and not options.model.exists():
        write_tiny_model(options.model)
    if not options.model.is_file():
        sys.stderr.write(f"no such model file: {options.model}\n")
        return 1
    server = _serve(options)
    signal.sigwait(ended)
    # Without any shutdown of its own: threads that still write an answer would hold it up.
    os._exit(0 if server else 1)


def _serve(options: argparse.Namespace) -> object:
    import xllamacpp  # heavy, and only here is it needed

    wanted = xllamacpp.CommonParams()
    wanted.model.path = str(options.model)
    wanted.model_alias = {options.alias}
    wanted.hostnames = [options.host]
    wanted.port = options.port
    wanted.n_parallel = options.parallel
    wanted.n_ctx = options.context * options.parallel
    wanted.endpoint_metrics = True
    wanted.endpoint_slots = True
    wanted.cpuparams.n_threads = options.threads
    key = os.environ.get("LLAMA_API_KEY") or os.environ.get("VLLM_API_KEY")
    if key:
        wanted.api_keys = [key]
    return xllamacpp.Server(wanted)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m controller.emulators.llama")
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--make", action="store_true", help="write the tiny model there if there is no file")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", required=True, help="the name that clients say")
    parser.add_argument("--parallel", type=int, default=4, help="requests at a time")
    parser.add_argument("--context", type=int, default=1024, help="tokens for each of them")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
