"""Triton's model repositories, read into bundle folders."""

from sandseal_sdk.triton.repository import ImportedModel, import_repository

__all__ = ["ImportedModel", "import_repository"]
