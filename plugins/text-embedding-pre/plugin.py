"""A text to the token ids of BERT: in lower case, without accents, cut into words, and these into word pieces."""

from pathlib import Path

import numpy as np
from characters import ALONE, BLOCK, DROPPED, KINDS, PLACES, REPLACED, REPLACEMENTS, SPACE

CLS = 101
SEP = 102
UNKNOWN = 100
MOST_TOKENS = 256  # as sentence-transformers cuts texts for this model
MOST_CHARACTERS = 100  # of a word; a longer one is unknown

WORDS = Path("vocabulary.txt").read_text(encoding="utf-8").split("\n")  # by id
STARTS = {word: i for i, word in enumerate(WORDS)}
CONTINUATIONS = {word[2:]: i for i, word in enumerate(WORDS) if word[:2] == "##" and len(word) > 2}
LONGEST = max(len(word.encode()) for word in WORDS)


def size_at(text, at):
    """How many bytes the character that starts here has."""
    lead = ord(text[at])
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def code_at(text, at, size):
    """The code point of the character, which must be whole and in its shortest form."""
    lead = ord(text[at])
    code = lead if size == 1 else lead & (0x7F >> size)
    valid = (lead < 0x80 or 0xC2 <= lead < 0xF5) and at + size <= len(text)
    for i in range(at + 1, at + size if valid else at):
        byte = ord(text[i])
        valid = valid and 0x80 <= byte < 0xC0
        code = code * 64 + (byte & 0x3F)
    overlong = (size == 3 and code < 0x800) or (size == 4 and code < 0x10000)
    if not valid or overlong or 0xD800 <= code < 0xE000 or code >= 0x110000:
        raise ValueError("the text is not UTF-8")
    return code


def length_of(word):
    """How many characters a word has."""
    characters = 0
    for byte in word:
        characters += (ord(byte) & 0xC0) != 0x80
    return characters


def words_of(text):
    """The words; a character that stands alone, as punctuation does, is one too."""
    words = []
    word = ""
    at = 0
    while at < len(text):
        size = size_at(text, at)
        code = code_at(text, at, size)
        kind = int(KINDS[PLACES[code // BLOCK], code % BLOCK])
        letters = REPLACEMENTS[code] if kind & REPLACED else text[at : at + size]
        at += size
        if kind & (SPACE | ALONE) != 0 and len(word) > 0:
            words.append(word)
            word = ""
        if kind & ALONE:
            words.append(letters)
        elif not kind & (SPACE | DROPPED):
            word += letters
    if word:
        words.append(word)
    return words


def pieces(word):
    """The longest known piece from the start, then from where it ends, and so on."""
    found = [0 for _ in range(0)]
    start = 0
    while start < len(word):
        end = min(len(word), start + LONGEST)
        piece = -1
        while end > start and piece < 0:
            letters = word[start:end]
            piece = STARTS.get(letters, -1) if start == 0 else CONTINUATIONS.get(letters, -1)
            end -= 1
        if piece < 0:
            return [UNKNOWN]
        found.append(piece)
        start = end + 1
    return found


def tokenize(text):
    ids = [CLS]
    for word in words_of(text):
        if len(ids) < MOST_TOKENS:
            short = len(word) <= MOST_CHARACTERS or length_of(word) <= MOST_CHARACTERS
            ids += pieces(word) if short else [UNKNOWN]
    ids = ids[: MOST_TOKENS - 1]
    ids.append(SEP)
    tokens = np.array([ids], np.int64)
    return tokens, np.ones((1, len(ids)), np.int64), np.zeros((1, len(ids)), np.int64)
