import json
import random

import pytest

from plugins.logits import PADDED, SPECIAL, STOP, TOKENS, LogitsPlugin
from sandseal_host.errors import InputRefused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plugin(engine):
    plugin = LogitsPlugin(engine, "banned-strings-logits")
    yield plugin
    plugin.close()


@pytest.mark.parametrize("seed", range(8))
def test_exactly_what_completes_a_banned_string_is_masked(plugin, seed):
    source, text, ids = random.Random(seed), b"", []
    banned = ["bad", "ada", "b\nd", 'n"a', "ä"]
    letters = [
        token for token in range(len(TOKENS)) if set(TOKENS[token]) <= set(b'abdname"\n\xc3\xa4') and TOKENS[token]
    ]
    with plugin.stream(banned_strings=banned) as stream:
        for _ in range(60):
            allowed = stream.allowed(ids)
            for token in range(PADDED):
                grown = text + (TOKENS[token] if token < len(TOKENS) and token not in (SPECIAL, STOP) else b"")
                assert (token in allowed) != any(string.encode() in grown for string in banned), (grown, token)
            ids = [source.choice([token for token in letters if token in allowed])]
            text += TOKENS[ids[0]]


def test_tokens_that_are_no_text_do_not_matter(plugin):
    with plugin.stream(banned_strings=["ab"]) as stream:
        stream.call()
        assert ord("b") not in stream.allowed([ord("a"), SPECIAL, PADDED - 1])


def test_without_strings_nothing_changes(plugin):
    for constraints in ({}, {"banned_strings": []}):
        with plugin.stream(**constraints) as stream:
            assert stream.allowed() == set(range(PADDED))


@pytest.mark.parametrize(
    ("strings", "says"),
    [
        ([""], "empty text"),
        ("a", "a list of texts"),
        ([1], "a list of texts"),
        (["ab" * 5000], "more than 8,191 bytes"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(plugin, strings, says):
    with plugin.stream(banned_strings=strings) as stream, pytest.raises(InputRefused, match=says):
        stream.call()


def test_other_constraints_are_refused(plugin):
    with plugin.stream(json_schema={}) as stream, pytest.raises(InputRefused, match="no constraint but banned_strings"):
        stream.call()


def test_escapes_in_json(plugin):
    strings = ["\u00e4\U0001f642", '\t/\\"']
    ascii_only, plain = json.dumps(strings), json.dumps(strings, ensure_ascii=False)
    assert ascii_only != plain
    for text in strings:
        data = text.encode()
        with plugin.stream(banned_strings=strings) as stream:
            stream.call()
            assert data[-1] not in stream.allowed(list(data[:-1]))
