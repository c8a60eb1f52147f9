"""What do the metrics of several workers look like as one?

Each sample with a label `worker`, so that no count is lost, added up wrongly or jumps back with whichever worker
happened to be asked; who reads them adds up what can be added. A worker that did not answer is told as down.
"""

import re
from collections.abc import Mapping
from typing import Final

SAMPLE: Final = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (.+)")
UP: Final = b"gpuwarden_gateway_worker_up"


def joined(texts: Mapping[str, bytes | None]) -> bytes:
    """In the order of the workers; None for one that did not answer."""
    families: dict[bytes, list[bytes]] = {}
    for worker, text in texts.items():
        name = b""
        for line in (text or b"").splitlines():
            if line.startswith((b"# HELP ", b"# TYPE ")):
                name = line.split(b" ", 3)[2]
                held = families.setdefault(name, [])
                if line not in held:
                    held.append(line)
            elif (found := SAMPLE.fullmatch(line)) is not None:
                families.setdefault(name, []).append(_labelled(found, worker))
    lines = [line for family in families.values() for line in family]
    lines += [b"# HELP %b 1 for a worker that answered." % UP, b"# TYPE %b gauge" % UP]
    lines += [b'%b{worker="%b"} %d' % (UP, worker.encode(), text is not None) for worker, text in texts.items()]
    return b"\n".join(lines) + b"\n"


def _labelled(found: re.Match[bytes], worker: str) -> bytes:
    name, labels, value = found.groups()
    own = b'worker="%b"' % worker.encode()
    return b"%b{%b} %b" % (name, b"%b,%b" % (labels, own) if labels else own, value)
