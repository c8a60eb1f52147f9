"""Does the example config name every key, each with its true default and its why?"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.settings import derived, load
from controller.settings.models import ModelSection
from controller.settings.sections import AlarmsSection, GatewaySection, PolicySection, RunpodSection
from controller.settings.written import Written

EXAMPLE = Path(__file__).parents[1] / "config.example.toml"
SECTIONS: dict[str, type[BaseModel]] = {
    "": Written,
    "runpod": RunpodSection,
    "gateway": GatewaySection,
    "policy": PolicySection,
    "alarms": AlarmsSection,
    "models.qwen": ModelSection,
}
FIELDS = [
    (table, entry.alias or name, entry)
    for table, section in SECTIONS.items()
    for name, entry in section.model_fields.items()
    if table or name not in {"runpod", "gateway", "policy", "alarms", "models"}
]
WAITS_FOR_ANOTHER_KEY = {
    "tool_call_parser", "model_file", "key_file", "probe_key_file", "webhook_file", "adapter_rank",
}  # fmt: skip


def tables() -> dict[str, str]:
    """The text of each table of the example."""
    parts = re.split(r"(?m)^\[([a-z.]+)\]$", EXAMPLE.read_text())
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def statements(text: str) -> Iterator[tuple[str, bool, str, bool]]:
    """Key, whether it is switched off, value, and whether a comment says why."""
    lines = text.splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        if match := re.fullmatch(r"(#?)([a-z_]+) = (.+)", line):
            yield match[2], bool(match[1]), match[3], above.startswith("# ")


def written(tmp_path: Path, text: str) -> Written:
    copy = tmp_path / "config.toml"
    copy.write_text(text)
    copy.chmod(0o600)
    return load(copy, {}).written


def test_the_example_loads_as_it_stands(tmp_path: Path) -> None:
    assert written(tmp_path, EXAMPLE.read_text()).models.keys() == {"qwen"}


@pytest.mark.parametrize(("table", "key", "entry"), FIELDS, ids=lambda value: str(value)[:40])
def test_the_example_names_the_key_once_with_its_why(table: str, key: str, entry: FieldInfo) -> None:
    found = [said for said in statements(tables()[table]) if said[0] == key]
    assert len(found) == 1
    _, switched_off, _, explained = found[0]
    assert explained
    assert switched_off == (entry.default is None)


def test_what_the_example_switches_on_is_the_default(tmp_path: Path) -> None:
    required = re.findall(r"(?m)^(?:(?:name|model|image|gpus|context) = .*|\[models.qwen\])$", EXAMPLE.read_text())
    assert written(tmp_path, EXAMPLE.read_text()) == written(tmp_path, "\n".join(required))


def test_the_example_names_nothing_else() -> None:
    known = {(table, key) for table, key, _ in FIELDS}
    named = {(table, key) for table, text in tables().items() for key, _, _, _ in statements(text)}
    assert named == known


def test_every_value_that_is_switched_off_would_be_taken(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    off = {f"{key} = {value}" for part in tables().values() for key, off, value, _ in statements(part) if off}
    tried = [line for line in off if line.partition(" ")[0] not in WAITS_FOR_ANOTHER_KEY]
    assert len(tried) > 15
    for line in tried:
        assert written(tmp_path, text.replace(f"\n#{line}\n", f"\n{line}\n")) != written(tmp_path, text) or "gb" in line


@pytest.mark.parametrize("section", [*SECTIONS.values()], ids=lambda section: section.__name__)
def test_every_field_says_what_goes_wrong(section: type[BaseModel]) -> None:
    body = ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(after, ast.Expr), ast.unparse(field)


def test_every_key_of_a_model_either_shapes_its_machines_or_guides_them() -> None:
    assert set(ModelSection.model_fields) == derived.SHAPING | derived.GUIDING
    assert not derived.SHAPING & derived.GUIDING
