"""A Python `int` in 64 bits: Pythran writes it as `long`, which has 32 on wasm32.

In the preprocessed C++ of Pythran's headers and of what is generated, `long` and `long long` change places, so that
everything there sees the data model of 64-bit Linux, which Pythran is written for. libc and libc++ stay as they are.
"""

import re

# What Pythran 0.19 has wrong where no header of ours can step in: the end of a text's slice in steps lies beyond it,
# and range() of a negative number has a negative size.
_REPAIRS = {
    "const_iterator(data->c_str() + slicing.upper, slicing.step)": (
        "const_iterator(data->c_str() + slicing.lower + slicing.size() * slicing.step, slicing.step)"
    ),
    "begin_(0), end_(e), step_(1)": "begin_(0), end_(e < 0 ? 0 : e), step_(1)",
}
_ALIAS = "using sandseal_long = long long;\n"  # one word, as in `sandseal_long(x)`
_MARKER = re.compile(r'# \d+ "(?P<file>[^"]*)"')
_OURS = re.compile(r"pythonic|\.(?:hpp|cpp|py)$")  # headers of libc end in .h, those of libc++ in nothing
_TYPE = re.compile(
    r"\blong double\b"
    r"|\b(?P<sign>unsigned|signed) long(?P<longer> long)?\b(?: int\b)?"
    r"|\blong(?P<long> long)?\b(?: int\b)?"
    r"|\b(?P<digits>\d+|0[xX][0-9a-fA-F]+)(?P<unsigned>[uU]?)(?P<suffix>[lL]{1,2})\b"
)


def widen_ints(preprocessed: str) -> str:
    """Preprocessed C++ in which the `long` of Pythran's and generated code has 64 bits."""
    for wrong, right in _REPAIRS.items():
        preprocessed = preprocessed.replace(wrong, right)
    lines, ours = [_ALIAS], True
    for line in preprocessed.splitlines(keepends=True):
        if marker := _MARKER.match(line):
            ours = _OURS.search(marker["file"]) is not None
        lines.append(_TYPE.sub(_swapped, line) if ours and not marker else line)
    return "".join(lines)


def _swapped(found: re.Match[str]) -> str:
    if found["digits"]:
        return found["digits"] + found["unsigned"] + ("L" if len(found["suffix"]) > 1 else "LL")
    if found["sign"]:
        return f"{found['sign']} long{'' if found['longer'] else ' long'}"
    if found[0] == "long double":
        return found[0]
    return "long" if found["long"] else "sandseal_long"
