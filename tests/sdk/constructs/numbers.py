"""Numbers"""

import math

import numpy as np

LARGE = 1 << 40
HALF = 0.5


def integers(i, j):
    """`+ - * // % **`, `divmod`, `abs`: 64 bits, `//` and `%` towards minus infinity"""
    quotient, rest = divmod(i, j)
    return [i + j, i - j, i * LARGE, i // j, i % j, quotient, rest, abs(j), j**2, -i // 3, -i % 3]


def bits(i, j):
    """`& | ^ ~ << >>`"""
    return [i & 255, i | 8, i ^ j, ~i, i << 33, i >> 1, -i >> 1]


def division(i, j, f):
    """`/` of integers gives a float"""
    return [i / j, j / 4, f / 3, i / f]


def comparisons(i, j, f):
    """`== != < <= > >=`, chains such as `0 < x < 10`, `and or not`"""
    return [i == j, i != j, i < j <= 100, 0 < f < 10, not i > j, (i > 0 and j > 0), (i > 0 or j > 0)]


def conversions(i, f):
    """`int(x)`, `float(n)`, `bool(n)`: `int` cuts off, towards zero"""
    return [int(f), int(-f), int(f * 1000), int(float(i)), int(bool(i))]


def floor_of_floats(f):
    """`//` and `%` of floats"""
    return [f // 2, f % 2, -f // 0.75, -f % 0.75, 7.5 // f, 7.5 % f]


def powers(f, i):
    """`x ** y` of floats, `pow`"""
    return [abs(f) ** 0.5, abs(f) ** 2, 2.0**3, pow(f, 2), 2.0**-i]


def rounding(f):
    """`round(x)`, `round(x, digits)`, `math.floor`, `math.ceil`, `math.trunc`: a half goes to the even neighbour"""
    return [round(f), round(f * 2), math.floor(f), math.ceil(f), math.trunc(f), math.floor(-f), math.ceil(-f)]


def rounding_to_digits(f):
    """`round(x, 2)`"""
    return [round(f, 2), round(f * 1.005, 1), round(-f, 0)]


def least_and_most(i, j, f):
    """`min`, `max` of several numbers"""
    return [min(i, j), max(i, j), min(3, i, j), int(max(f, 1.0)), int(min(f, 1.0))]


def functions_of_math(f):
    """`math`: `sqrt exp log log10 sin cos tan atan2 hypot fabs fmod copysign pi e`"""
    a = abs(f) + 1
    values = [math.sqrt(a), math.exp(-a), math.log(a), math.log10(a), math.sin(f), math.cos(f)]
    return values + [math.tan(f), math.atan2(f, a), math.hypot(f, a), math.fabs(f), math.fmod(f, 2), math.pi, math.e]


def special_floats(f):
    """`float("inf")`, `math.isnan`, `math.isinf`, `np.nan`"""
    big = float("inf") if f > -1000 else f
    return [math.isinf(big), math.isnan(big - big), math.isnan(f), big > f, np.isnan(np.nan * f)]


def conditional(i):
    """`a if c else b`"""
    return 1 if i > 0 else -1 if i < 0 else 0


def constants_of_the_module(i):
    """constants at the top level of the module"""
    return HALF * i + LARGE


def numpy_scalars(f, i):
    """`np.float32(x)`, `np.int64(n)`, `np.uint8(n)`: wrap and round as NumPy's do"""
    return float(np.float32(f) * np.float32(3)) + float(np.uint8(200) + np.uint8(i % 7)) + float(np.int64(i) * 2)
