import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.generation.detokeniser import Detokeniser
from sandseal_host.serving.generation.stops import MAX_CHARACTERS, StopStrings
from sandseal_host.serving.generation.vocabulary import Vocabulary

BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [b"<end>", b"\xe2\x82", b" the"], special=[256])
END, EURO, THE = 256, 257, 258

texts = st.text(st.sampled_from("ab€ü🙂"), max_size=20)


def run(tokens, *stops):
    """What is sent after each token, and at the end; whether a stop string came."""
    detokeniser = Detokeniser(BYTES, StopStrings(stops) if stops else None)
    return [*(detokeniser.push(token) for token in tokens), detokeniser.finish()], detokeniser.stopped


@given(texts, st.lists(st.text(st.sampled_from("ab€ü🙂"), min_size=1, max_size=4), max_size=5))
def test_text_ends_before_the_first_stop_string(text, stops):
    pieces, stopped = run(text.encode(), *stops)
    ends = [(text.index(stop) + len(stop), -len(stop)) for stop in stops if stop in text]
    assert stopped == bool(ends)
    end, size = min(ends, default=(len(text), 0))
    assert "".join(pieces) == text[: end + size]


@given(texts, st.lists(st.text(st.sampled_from("ab€"), min_size=1, max_size=3), min_size=1, max_size=3))
def test_only_what_may_become_a_stop_string_is_held_back(text, stops):
    detokeniser = Detokeniser(BYTES, StopStrings(stops))
    sent = ""
    for i, character in enumerate(text):
        sent += "".join(detokeniser.push(byte) for byte in character.encode())
        if detokeniser.stopped:
            return
        held = text[len(sent) : i + 1]
        assert text[: i + 1] == sent + held
        assert not held or any(stop.startswith(held) for stop in stops)


def test_characters_come_whole():
    assert run([EURO, 0xAC, *"🙂".encode()]) == (["", "€", "", "", "", "🙂", ""], False)


def test_broken_bytes_are_replaced():
    assert run([0xFF, ord("a"), EURO]) == (["�", "a", "", "�"], False)


def test_special_tokens_are_no_text():
    assert run([ord("a"), END, 5_000, ord("b")]) == (["a", "", "", "b", ""], False)


def test_a_stop_string_across_tokens():
    assert run([ord("x"), THE, ord(" "), THE], "e  t") == (["x", " th", "", "", ""], True)


def test_a_shorter_stop_string_inside_a_longer_one():
    assert run(b"xabcd", "abce", "bc") == (["x", "", "", "a", "", ""], True)


def test_nothing_comes_after_a_stop_string():
    detokeniser = Detokeniser(BYTES, StopStrings(["b"]))
    assert [detokeniser.push(token) for token in b"abc"] == ["a", "", ""]
    assert detokeniser.finish() == ""


def test_thousands_of_stop_strings():
    stops = [f"{number:04}" for number in range(2000)]
    pieces, stopped = run(b"9999 2000 12 1999 more", *stops)
    assert ("".join(pieces), stopped) == ("9999 2000 12 ", True)


@pytest.mark.parametrize(("stops", "says"), [(["a", ""], "empty"), (["a" * MAX_CHARACTERS, "b"], "over 8192")])
def test_stop_strings_without_meaning_are_refused(stops, says):
    with pytest.raises(RequestInvalid, match=says):
        StopStrings(stops)
