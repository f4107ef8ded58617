"""What a model is opened from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from sandseal_signing.manifest import ModelSpec


@dataclass(frozen=True, slots=True, eq=False)
class ModelFiles:
    """A graph and its weights, as they were verified.

    Args:
        spec: what the manifest says of it; the graph must be just that.
        graph: an ONNX ModelProto.
        weights: outside the graph, by file name; not needed any more once the model is opened.
        folder: holds them under their names instead; mapped, so that nobody may change them before what was opened is
            closed.
    """

    spec: ModelSpec
    graph: bytes
    weights: Mapping[str, bytes] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def of(cls, spec: ModelSpec, files: Mapping[str, bytes], folder: Path | None = None) -> Self:
        """A model's own among a bundle's files.

        Args:
            files: by name.
            folder: holds the weights, which are not among them then.
        """
        weights = {name: files[name] for name in spec.external_data} if folder is None else {}
        return cls(spec, files[spec.file], weights, folder)

    @property
    def nbytes(self) -> int:
        """Bytes of all, the least that the model takes of a device."""
        if self.folder is None:
            return len(self.graph) + sum(map(len, self.weights.values()))
        return len(self.graph) + sum((self.folder / name).stat().st_size for name in self.spec.external_data)
