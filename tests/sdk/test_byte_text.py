from sandseal_sdk.plugin.byte_text import ByteText, as_byte_text

TEXT = as_byte_text(" \u00c4 \u00e0b\u00a0C ")


def utf8(text):
    return text.encode("latin-1").decode()


def test_case_and_white_space_are_those_of_ascii():
    assert utf8(TEXT.lower()) == " \u00c4 \u00e0b\u00a0c "
    assert [utf8(word) for word in TEXT.split()] == ["\u00c4", "\u00e0b\u00a0C"]
    assert not as_byte_text("\u00e4").isalpha()


def test_what_is_made_of_it_is_bytes_too():
    made = [
        "x" + TEXT,
        TEXT + "x",
        TEXT[1:],
        TEXT.replace("b", "c"),
        ByteText(",").join([TEXT]),
        next(iter(TEXT)),
        TEXT * 2,
    ]
    made += [TEXT.split()[0], TEXT.strip().upper()]
    assert {type(text) for text in made} == {ByteText}
    assert len(TEXT.replace("b", "c")) == len(TEXT) == 11


def test_containers_keep_their_kind():
    table = as_byte_text({"\u00fc": [1, ("\u00e4", 2.5)], "a": []})
    assert table == {"\u00c3\u00bc": [1, ("\u00c3\u00a4", 2.5)], "a": []}
