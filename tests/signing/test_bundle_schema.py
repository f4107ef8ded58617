"""The published JSON Schema and the reader say the same about bundle.json, as far as JSON Schema can."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandseal_signing.errors import SigningError
from sandseal_signing.manifest import parse_manifest
from sandseal_signing.tensor import DataType
from support.manifests import BAD, GOOD, ONLY_THE_READER_REFUSES, Change, changed

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "signing" / "bundle.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def validator() -> Any:
    return jsonschema.Draft202012Validator(SCHEMA)


def reads(document: Any) -> bool:
    try:
        parse_manifest(json.dumps(document).encode())
    except SigningError:
        return False
    return True


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("change", [*GOOD.values(), *BAD.values()], ids=[*GOOD, *BAD])
def test_schema_and_reader_agree(validator: Any, change: Change) -> None:
    document = changed(change)
    assert validator.is_valid(document) == reads(document) == (change in GOOD.values())


@pytest.mark.parametrize("change", ONLY_THE_READER_REFUSES.values(), ids=ONLY_THE_READER_REFUSES)
def test_what_the_schema_cannot_say(validator: Any, change: Change) -> None:
    document = changed(change)
    assert validator.is_valid(document)
    assert not reads(document)


@pytest.mark.parametrize("name", ["bundle-1.json", "bundle-1-generation.json", "bundle-1-pipeline.json"])
def test_the_fixtures_of_the_released_schema_are_valid(validator: Any, name: str) -> None:
    validator.validate(json.loads((Path(__file__).parent / "data" / name).read_bytes()))


def test_the_data_types_are_the_readers() -> None:
    assert SCHEMA["$defs"]["tensor_members"]["properties"]["dtype"]["enum"] == list(DataType)


def test_every_object_of_the_schema_is_closed() -> None:
    def objects(node: Any, path: str) -> Any:
        if isinstance(node, dict):
            if node.get("type") == "object" and "properties" in node:
                yield path, node
            for name, child in node.items():
                yield from objects(child, f"{path}/{name}")

    found = dict(objects(SCHEMA, ""))
    assert len(found) == 14
    assert [path for path, node in found.items() if node.get("additionalProperties") is not False] == []
