import json

import numpy as np
import pytest

from sandseal_sdk.errors import CaseInvalid
from sandseal_sdk.plugin.plugin_spec import read_plugin_spec
from sandseal_sdk.plugin.values import Value
from sandseal_sdk.testing.cases import CaseLimits, read_cases, write_outputs

INPUTS = [("x", "FP32", ["n", 2]), ("raw", "UINT8", ["size"]), ("texts", "BYTES", ["n"]), ("one", "BYTES", [1])]


@pytest.fixture
def spec(make_plugin):
    folder = make_plugin("c", "", INPUTS)
    (folder / "cases").mkdir()
    return read_plugin_spec(folder)


def write(spec, name="case", **members):
    inputs = {"x": [[1, 2]], "raw": "a", "texts": ["b"], "one": "c"} | members.pop("inputs", {})
    (spec.folder / "cases" / f"{name}.json").write_text(json.dumps({"inputs": inputs, **members}))


def read(spec):
    (case,) = read_cases(spec)
    return case


def test_values_are_written_as_people_write_them(spec):
    write(spec, inputs={"raw": "h\u00e4", "texts": ["b", ""]}, outputs={"y": [1.5]}, tolerance=0.1, parameters={"k": 2})
    case = read(spec)
    x, raw, texts, one = case.inputs
    assert (x.shape, x.data.dtype, x.data.tolist()) == ((1, 2), np.float32, [[1, 2]])
    assert raw.data.tobytes() == "h\u00e4".encode()
    assert (texts.shape, texts.data) == ((2,), [b"b", b""])
    assert (one.shape, one.data) == ((1,), [b"c"])
    assert case.outputs["y"].data.tolist() == [1.5]
    assert (case.name, case.tolerance, json.loads(case.parameters)) == ("case", 0.1, {"k": 2})


def test_files_lie_beside_the_case(spec):
    np.save(spec.folder / "cases" / "x.npy", np.array([[3, 4], [5, 6]]))
    (spec.folder / "cases" / "raw.bin").write_bytes(b"\0\xff")
    write(spec, inputs={"x": {"file": "x.npy"}, "raw": {"file": "raw.bin"}, "one": {"file": "raw.bin"}})
    x, raw, _, one = read(spec).inputs
    assert x.data.tolist() == [[3, 4], [5, 6]]
    assert raw.data.tolist() == [0, 255]
    assert one.data == [b"\0\xff"]


def test_values_can_be_made(spec):
    x = {"shape": [2, 2], "fill": 0.5, "set": [[0, 1, 2], [1, 0, 3]]}
    write(spec, inputs={"x": x, "raw": {"shape": [1000], "random": 7}, "one": {"base64": "AAH/"}})
    made, raw, _, one = read(spec).inputs
    assert made.data.tolist() == [[0.5, 2], [3, 0.5]]
    assert raw.data.dtype == np.uint8
    assert {raw.data.min(), raw.data.max()} == {0, 255}
    assert one.data == [b"\0\1\xff"]
    assert np.array_equal(raw.data, read(spec).inputs[1].data)


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"inputs": {"other": 1}}, "inputs.other"),
        ({"inputs": {"x": {"shape": [-1]}}}, "inputs.x.shape"),
        ({"inputs": {"x": {"shape": [1 << 30]}}}, "too large"),
        ({"inputs": {"x": {"shape": [1], "colour": 1}}}, "inputs.x.colour"),
        ({"inputs": {"one": {"base64": "!"}}}, "inputs.one.base64"),
        ({"inputs": {"raw": {"file": "absent.bin"}}}, "absent.bin"),
        ({"inputs": {"x": "abc"}}, "case.json"),
        ({"outputs": {"z": 1}}, "outputs.z"),
        ({"outputs": {"y": [1]}, "refused": "no"}, "more than one of"),
        ({"tolerance": "much"}, "tolerance"),
        ({"expect": 1}, "expect"),
    ],
)
def test_a_wrong_case_names_the_place(spec, members, where):
    write(spec, **members)
    with pytest.raises(CaseInvalid) as caught:
        read_cases(spec)
    assert where in caught.value.message
    assert "case.json" in caught.value.message


def test_a_plugin_without_cases_is_not_tested(spec):
    with pytest.raises(CaseInvalid, match="no test case"):
        read_cases(spec)


def test_cases_come_by_name(spec):
    for name in ("b", "a"):
        write(spec, name)
    assert [case.name for case in read_cases(spec)] == ["a", "b"]


def test_limits_are_what_the_case_says(spec):
    write(spec, limits={"fuel": 1000, "memory_mib": 2})
    assert read(spec).limits == CaseLimits(fuel=1000, memory_mib=2)
    write(spec, limits={"instructions": 1})
    with pytest.raises(CaseInvalid, match=r"limits\.instructions"):
        read(spec)


def test_outputs_come_back_as_they_were_written(make_plugin):
    outputs = [("y", "FP32", ["n"]), ("half", "BF16", ["n"]), ("texts", "BYTES", ["n"]), ("raw", "BYTES", [1])]
    spec = read_plugin_spec(make_plugin("c", "", [("x", "FP32", ["n"])], outputs))
    path = spec.folder / "cases" / "one.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"inputs": {"x": []}, "outputs": {"y": {"file": "y.bin"}, "raw": {"file": "raw.bin"}}}))
    for name in ("y", "raw"):
        (path.parent / f"{name}.bin").write_bytes(b"")
    some = Value((2,), np.array([0.1, 2], np.float32))
    values = [some, Value((1,), np.array([7], np.uint16)), Value((2,), [b"h\xc3\xa4", b"\xff"]), Value((1,), [b"\0"])]
    again = write_outputs(read(spec), spec, values)
    assert set(again.outputs) == {"y", "raw"}
    assert again.outputs["y"].data.tolist() == some.data.tolist()
    assert (path.parent / "raw.bin").read_bytes() == b"\0"
    path.write_text('{"inputs": {"x": []}, "outputs": {}}')
    again = write_outputs(read(spec), spec, values)
    assert [again.outputs[name].data for name in ("texts", "raw")] == [[b"h\xc3\xa4", b"\xff"], [b"\0"]]
    assert json.loads(path.read_text())["outputs"]["half"] == {"file": "one.half.npy"}
    assert json.loads(path.read_text())["outputs"]["y"] == [0.1, 2.0]
