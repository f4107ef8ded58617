"""How far ONNX Runtime may change a graph before it runs it."""

from enum import StrEnum


class Optimisation(StrEnum):
    """A level, each with all that the one before it does.

    `all` lays tensors out as the machine likes them best; not every graph gains by it.
    """

    NONE = "none"
    BASIC = "basic"
    EXTENDED = "extended"
    ALL = "all"
