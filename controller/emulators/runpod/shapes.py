"""Does a JSON value have the shape that the document asks for?

A few combinators in place of a schema library, with the words of the validator that Runpod uses: the answer to a 422
lists `$.path: what is wrong`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Shape = Callable[[object, str], list[str]]


def text(*, shortest: int = 0) -> Shape:
    def faults(value: object, at: str) -> list[str]:
        if not isinstance(value, str):
            return [f"{at}: got {_kind(value)}, want string"]
        return [f"{at}: minLength: got {len(value)}, want {shortest}"] if len(value) < shortest else []

    return faults


def whole(*, least: int, most: int | None = None) -> Shape:
    def faults(value: object, at: str) -> list[str]:
        if isinstance(value, bool) or not isinstance(value, int):
            return [f"{at}: got {_kind(value)}, want integer"]
        if most is not None and value > most:
            return [f"{at}: maximum: got {value}, want {most}"]
        return [f"{at}: minimum: got {value}, want {least}"] if value < least else []

    return faults


def flag(value: object, at: str) -> list[str]:
    return [] if isinstance(value, bool) else [f"{at}: got {_kind(value)}, want boolean"]


def one_of(*words: str) -> Shape:
    def faults(value: object, at: str) -> list[str]:
        listed = ", ".join(f"'{word}'" for word in words)
        return [] if value in words else [f"{at}: value must be one of {listed}"]

    return faults


def or_null(shape: Shape) -> Shape:
    return lambda value, at: [] if value is None else shape(value, at)


def list_of(shape: Shape, *, most: int | None = None) -> Shape:
    def faults(value: object, at: str) -> list[str]:
        if not isinstance(value, list):
            return [f"{at}: got {_kind(value)}, want array"]
        found = [fault for index, entry in enumerate(value) for fault in shape(entry, f"{at}[{index}]")]
        if most is not None and len(value) > most:
            found.append(f"{at}: maxItems: got {len(value)}, want {most}")
        return found

    return faults


def map_of(shape: Shape, *, most: int) -> Shape:
    def faults(value: object, at: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{at}: got {_kind(value)}, want object"]
        found = [fault for name, entry in value.items() for fault in shape(entry, f"{at}.{name}")]
        if len(value) > most:
            found.append(f"{at}: maxProperties: got {len(value)}, want {most}")
        return found

    return faults


def record(known: Mapping[str, Shape], *, required: tuple[str, ...] = (), fewest: int = 0) -> Shape:
    def faults(value: object, at: str) -> list[str]:
        if not isinstance(value, dict):
            return [f"{at}: got {_kind(value)}, want object"]
        found = [f"{at}: missing property '{name}'" for name in required if name not in value]
        found += [f"{at}: additional properties '{name}' not allowed" for name in value if name not in known]
        if len(value) < fewest:
            found.append(f"{at}: minProperties: got {len(value)}, want {fewest}")
        for name, shape in known.items():
            if name in value:
                found += shape(value[name], f"{at}.{name}")
        return found

    return faults


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "unknown")
