"""Is the tiny model a well-formed file that says words?"""

import struct
from pathlib import Path

from controller.emulators.llama.tiny_gguf import write_tiny_model


def test_the_same_seed_writes_the_same_small_file(tmp_path: Path) -> None:
    one, same, other = tmp_path / "one", tmp_path / "same", tmp_path / "other"
    write_tiny_model(one)
    write_tiny_model(same)
    write_tiny_model(other, seed=2)
    assert one.read_bytes() == same.read_bytes() != other.read_bytes()
    assert one.stat().st_size < 700_000


def test_the_file_says_what_it_is_and_how_much_it_holds(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "tiny")
    magic, version, tensors, facts = struct.unpack("<4sIQQ", (tmp_path / "tiny").read_bytes()[:24])
    assert (magic, version, tensors, facts) == (b"GGUF", 3, 21, 23)
