import numpy as np
import pytest

from sandseal_sdk.toolchains.tables import NoTable, type_of, write


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a", "types::str"),
        ([1, 2.5], "types::list<double>"),
        ({"a": 1, "b": 2}, "types::dict<types::str, long>"),
        ({1, 2}, "types::set<long>"),
        ([(1, "a", 0.5)], "types::list<types::make_tuple_t<long, types::str, double>>"),
        ({"a": [[1]]}, "types::dict<types::str, types::list<types::list<long>>>"),
        (
            np.zeros((2, 3), np.float32),
            "types::ndarray<float, types::pshape<std::integral_constant<long, 2>, std::integral_constant<long, 3>>>",
        ),
    ],
)
def test_a_table_has_the_type_of_its_elements(value, kind):
    assert str(type_of(value)) == kind


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([1, "a"], "mixes int and str"),
        ({"a": 1, "b": [2]}, "mixes int and list"),
        ([], "an empty list"),
        (b"a", "bytes: use str"),
        ([None], "NoneType"),
        (1 << 63, "64 bits"),
        (np.array(["a"]), "an array of <U1"),
        (np.zeros(2, np.float16), "float16"),
    ],
)
def test_what_no_plugin_can_hold_says_why(value, why):
    with pytest.raises(NoTable, match=why):
        type_of(value)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (-2, b"\xfe" + b"\xff" * 7),
        ("ä", b"\x02\0\0\0\xc3\xa4"),
        ([True, False], b"\x02\0\0\0\x01\0"),
        ({"a": 1}, b"\x01\0\0\0\x01\0\0\0a" + b"\x01" + bytes(7)),
        ({3, 1}, b"\x02\0\0\0" + b"\x01" + bytes(7) + b"\x03" + bytes(7)),
        (np.array([[1, 2]], np.uint8), b"\x01\x02"),
    ],
)
def test_a_tables_bytes(value, data):
    out = bytearray()
    write(value, type_of(value), out)
    assert out == data


def test_arrays_are_aligned():
    out = bytearray(b"x")
    write(np.ones(1, np.float32), type_of(np.ones(1, np.float32)), out)
    assert len(out) == 20
