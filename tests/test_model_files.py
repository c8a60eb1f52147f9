"""Is what a model's files say read, whether the weights lie there or not, and is what is odd told with its place?"""

import json
import os
from pathlib import Path

import pytest

from controller.settings import ConfigProblems
from controller.settings.model_files import ModelFiles, read_model_files

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n"


def put(folder: Path, **files: object) -> Path:
    """Each file by its name, with __ for . in it: a text as it stands, all else as JSON."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def sized(folder: Path, **sizes: int) -> Path:
    for name, size in sizes.items():
        with (folder / name.replace("__", ".").replace("_of_", "-of-")).open("wb") as opened:
            opened.truncate(size)
    return folder


def weights(folder: Path, *, gguf: bool = False, model_file: str | None = None) -> int | None:
    return read_model_files(folder, gguf=gguf, model_file=model_file).weights_bytes


def refused(place: Path) -> str:
    with pytest.raises(ConfigProblems) as problems:
        read_model_files(place, gguf=False)
    return str(problems.value)


def test_a_config_json_alone_tells_the_architecture_and_no_size(tmp_path: Path) -> None:
    file = put(tmp_path, config__json={"model_type": "qwen3"}) / "config.json"
    assert read_model_files(file, gguf=False) == ModelFiles(place=file, config={"model_type": "qwen3"})


def test_the_index_tells_the_size_of_weights_that_are_not_there(tmp_path: Path) -> None:
    put(tmp_path, config__json={}, model__safetensors__index__json={"metadata": {"total_size": 16_381_470_720}})
    assert read_model_files(tmp_path, gguf=False) == ModelFiles(place=tmp_path, config={}, weights_bytes=16_381_470_720)


@pytest.mark.parametrize("metadata", [None, [], {}, {"total_size": "7"}, {"total_size": True}, {"total_size": 0}])
def test_an_index_without_a_size_leaves_it_to_the_files(tmp_path: Path, metadata: object) -> None:
    put(tmp_path, model__safetensors__index__json={"metadata": metadata})
    assert weights(tmp_path) is None
    assert weights(sized(tmp_path, model__safetensors=5_000)) == 5_000


def test_parts_of_the_weights_are_added_up_and_the_same_again_under_another_name_is_not(tmp_path: Path) -> None:
    sized(tmp_path, **{"model-00001-of-00002__safetensors": 3_000, "model-00002-of-00002__safetensors": 2_000})
    assert weights(sized(tmp_path, consolidated__safetensors=5_000)) == 5_000
    assert weights(tmp_path, gguf=True) is None


def test_a_pointer_in_the_place_of_the_weights_tells_their_size(tmp_path: Path) -> None:
    put(tmp_path, model__safetensors=POINTER.format("0" * 64, 16_000_000_123))
    assert weights(tmp_path) == 16_000_000_123


def test_of_several_gguf_files_the_named_one_counts_with_all_its_parts(tmp_path: Path) -> None:
    sized(tmp_path, **{"big-00001-of-00002__gguf": 7_000, "big-00002-of-00002__gguf": 6_000, "small__gguf": 2_000})
    assert weights(tmp_path, gguf=True) is None
    assert weights(tmp_path, gguf=True, model_file="small.gguf") == 2_000
    assert weights(tmp_path, gguf=True, model_file="q8/big-00001-of-00002.gguf") == 13_000
    assert weights(tmp_path, gguf=True, model_file="gone.gguf") is None


def test_a_single_gguf_file_needs_no_name_and_what_reads_pictures_is_no_other(tmp_path: Path) -> None:
    assert weights(sized(tmp_path, mmproj__gguf=900, one__gguf=2_000), gguf=True) == 2_000


def test_an_empty_folder_tells_nothing(tmp_path: Path) -> None:
    assert read_model_files(tmp_path, gguf=False) == ModelFiles(place=tmp_path)


def test_links_are_followed_as_the_hub_s_cache_is_made_of_them(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    put(tmp_path, blob='{"model_type": "llama"}')
    (tmp_path / "snapshot" / "config.json").symlink_to(tmp_path / "blob")
    assert read_model_files(tmp_path / "snapshot", gguf=False).config == {"model_type": "llama"}


def test_what_cannot_be_read_is_told_with_its_place_and_the_mend(tmp_path: Path) -> None:
    assert refused(tmp_path / "gone") == (
        f"{tmp_path}/gone: no such file or directory; give the folder of the model's files, or its config.json"
    )
    put(tmp_path, config__json="{")
    assert f"{tmp_path}/config.json: not JSON; give the folder" in refused(tmp_path)


@pytest.mark.parametrize("text", ["\xff", "[" * 100_000, '{"a": ' + "9" * 5000 + "}", ""])
def test_hostile_json_is_a_problem_and_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
    assert "config.json: not JSON" in refused(tmp_path)


def test_a_config_json_beyond_its_bound_is_refused_unread(tmp_path: Path) -> None:
    sized(tmp_path, config__json=4 * 2**20 + 1)
    assert "config.json: larger than 4194304 bytes" in refused(tmp_path)


def test_a_pipe_does_not_hang_the_check(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    assert "config.json: not a regular file" in refused(tmp_path)
