"""What BERT makes of every character, as tables: written when the plugin is built, from Python's own of Unicode.

The kind of code point c is KINDS[PLACES[c // BLOCK], c % BLOCK]; what stands for it is in REPLACEMENTS.
"""

import unicodedata

import numpy as np

BLOCK = 128
DROPPED, SPACE, ALONE, REPLACED = 1, 2, 4, 8  # 0: a letter as it is
IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


def plain(char):
    """The character in lower case and without its accents."""
    return "".join(part.lower() for part in unicodedata.normalize("NFD", char) if unicodedata.category(part) != "Mn")


def kind_of(char):
    category = unicodedata.category(char)
    if char in "\t\n\r\u2028\u2029" or category == "Zs":
        return SPACE
    if char == "\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
        return DROPPED
    bare = plain(char)
    if not bare:
        return DROPPED
    first = unicodedata.category(bare[0]).startswith("P") or bare[0] in "$+<=>^`|~"
    alone = first or any(start <= ord(char) <= end for start, end in IDEOGRAPHS)
    return ALONE * alone | REPLACED * (bare != char)


_KINDS = np.array([kind_of(chr(code)) for code in range(0x110000)], np.uint8)
KINDS, PLACES = np.unique(_KINDS.reshape(-1, BLOCK), axis=0, return_inverse=True)
PLACES = PLACES.reshape(-1).astype(np.int32)
REPLACEMENTS = {int(code): plain(chr(code)) for code in np.flatnonzero(_KINDS & REPLACED)}
