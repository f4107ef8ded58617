"""In which numbers an imported decoder computes and keeps its weights."""

from enum import StrEnum


class Precision(StrEnum):
    """Of weights; the second part, where there is one, says what it computes in, else FP32.

    `f16` and what ends in it are for CUDA, whose attention takes no FP32; on a CPU they are slower.
    """

    F32 = "f32"
    F16 = "f16"
    INT8 = "int8"
    INT4 = "int4"
    INT8_F16 = "int8-f16"
    INT4_F16 = "int4-f16"

    @property
    def bits(self) -> int | None:
        """Of a quantised weight; None where weights are kept as floats."""
        return int(self[3]) if self.startswith("int") else None

    @property
    def half(self) -> bool:
        """Whether it computes, and keeps keys and values, in FP16."""
        return self.endswith("f16")
