"""Models of other kinds as bundle folders: written as ONNX, compared with their source, described in a model card."""

from sandseal_sdk.exporting.export import Exported, Source, export

__all__ = ["Exported", "Source", "export"]
