"""Published test vectors, which lie beside the repository and are never copied into it."""

import json
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"


def vectors(name: str) -> Path:
    """A file or folder of shared/vectors; skips the test or module that asks when it is not there."""
    path = SHARED / "vectors" / name
    if not path.exists():
        pytest.skip(f"{path} is not there", allow_module_level=True)
    return path


def json_vectors(name: str) -> Any:
    """A JSON file of shared/vectors, parsed."""
    return json.loads(vectors(name).read_text(encoding="utf-8"))
