"""The metadata of a moved checkpoint's steps names the schema's files where they are now."""

from __future__ import annotations

import json

import pytest

from streaming.query.moved_checkpoint import with_schema_in

FILE = "state/1/_stateSchema/default/0_7d7b17e8"


def metadata(*paths: str) -> str:
    step = {"operatorInfo": {"operatorId": 1}, "stateStoreInfo": [{"stateSchemaFilePaths": list(paths)}]}
    return f"v2\n{json.dumps(step, separators=(',', ':'))}"


@pytest.mark.parametrize("first", ["file:/a", "file:/a/state/0/_stateSchema/b", "s3a://bucket/a"])
@pytest.mark.parametrize("root", ["file:/c", "s3a://bucket/c d", r"file:/\1"])
def test_every_path_is_below_the_new_root(first: str, root: str) -> None:
    moved = with_schema_in(root, metadata(f"{first}/{FILE}", f"{first}/{FILE}-2"))

    version, content = moved.split("\n")
    assert version == "v2"
    assert json.loads(content) == json.loads(metadata(f"{root}/{FILE}", f"{root}/{FILE}-2").split("\n")[1])


def test_a_checkpoint_in_its_place_is_left_as_it_is() -> None:
    text = metadata(f"file:/a/{FILE}")
    assert with_schema_in("file:/a", text) is text


@pytest.mark.parametrize("text", ["v2\n", "v2\n{", "v2\n{}", "nothing"])
def test_what_is_no_metadata_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        with_schema_in("file:/a", text)
