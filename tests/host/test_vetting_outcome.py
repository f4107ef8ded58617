"""A vetting's end as an error: the child's word where it is well formed, the system's where there is none."""

import json
import signal
from collections.abc import Iterator

import pytest

import sandseal_host.errors as host_errors
import sandseal_signing.errors as signing_errors
from sandseal_host.error_members import error_members, rebuilt_error
from sandseal_host.errors import ModelInvalid, SettingsInvalid, VersionStale
from sandseal_host.vetting.handover import Order, Step, handed_over, take_over
from sandseal_host.vetting.outcome import Ending, Report
from sandseal_signing.errors import SandsealError

ORDER = Order(512 << 20, 20, "cpu", 1, None, {"model.onnx": 3, "empty": 0, "w.data": 2})
WARM = {"step": "warm-up", "file": "model.onnx"}


def lines(*said: object) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in said)


def end(*said: object, noise: bytes = b"", status: int = 0, late: bool = False) -> SandsealError | None:
    return Ending(Report.read(lines(*said)), noise, status, late).error(ORDER, 60)


def kinds(kind: type[SandsealError]) -> Iterator[type[SandsealError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from kinds(narrower)


OURS = [
    kind
    for kind in kinds(SandsealError)
    if kind.__module__ in (host_errors.__name__, signing_errors.__name__) and "code" in vars(kind)
]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_error_survives_the_way(kind):
    error = kind("why", hint="do", limit=[1, {"a": None}])
    members = json.loads(json.dumps(error_members(error)))
    again = rebuilt_error(**members)
    assert type(again) is kind
    assert (again.message, again.hint, again.data) == ("why", "do", {"limit": [1, {"a": None}]})


def test_a_member_named_like_an_argument_does_no_harm():
    again = rebuilt_error("model_invalid", "why", "do", {"message": "x", "hint": "y", "self": 1})
    assert type(again) is ModelInvalid
    assert again.data["message"] == "x"


def test_an_error_of_a_hostile_length_is_cut():
    members = error_members(ModelInvalid("w" * 10**6, names=["n" * 10**6]))
    assert len(json.dumps(members)) < 10_000


def test_files_are_handed_over_as_they_are():
    files = {"model.onnx": b"abc", "empty": b"", "w.data": b"\n\0", "unasked": b"x"}
    with handed_over(ORDER, files) as file:
        order, taken = take_over(file.fileno())
        assert order == ORDER
        assert {name: bytes(view) for name, view in taken.items()} == {n: files[n] for n in ORDER.sizes}
        with pytest.raises(TypeError, match="read-only"):
            taken["model.onnx"][0] = 1


def test_passed():
    assert end({"missing": []}, WARM, {"passed": True}) is None


def test_passed_counts_whatever_comes_after():
    assert end(WARM, {"passed": True}, status=-signal.SIGSEGV) is None


def test_refused():
    error = end(WARM, {"refused": error_members(VersionStale("old", newest=3))})
    assert type(error) is VersionStale
    assert error.data == {"newest": 3}


def test_refused_before_the_first_step():
    assert type(end({"refused": error_members(ModelInvalid("reserved"))})) is ModelInvalid


@pytest.mark.parametrize(
    ("step", "engine"),
    [
        ("parse", "the ONNX parser"),
        ("session", "ONNX Runtime"),
        ("warm-up", "ONNX Runtime"),
        ("plugin compile", "wasmtime"),
    ],
)
def test_crashed(step, engine):
    error = end({"step": step, "file": "f"}, noise=b"\x1b[31mpanic\n at  x", status=-signal.SIGSEGV)
    assert error.message == f"'f' crashed {engine} with signal 11 (SIGSEGV) during the {step}"
    assert error.data == {"file": "f", "step": step, "said": "?[31mpanic at x", "status": -11}


def test_ended_without_a_word():
    assert "with exit status 1 during" in end(WARM, status=1).message
    assert "with signal 63 during" in end(WARM, status=-63).message


@pytest.mark.parametrize(
    "noise", [b"memory allocation of 64 bytes failed", b"what():  std::bad_alloc", b"MemoryError\n", b"Out of memory"]
)
def test_an_abort_for_want_of_memory(noise):
    error = end(WARM, noise=noise, status=-signal.SIGABRT)
    assert "needs more than the 512 MiB of memory" in error.message
    assert "SANDSEAL_VET_MEMORY_MIB" in error.hint


def test_ended_by_a_limit():
    assert "20 s of processor time" in end(WARM, status=-signal.SIGXCPU).message
    assert "60 s of time" in end(WARM, status=-signal.SIGKILL, late=True).message
    error = end(WARM, {"exhausted": "cannot allocate"})
    assert "512 MiB of memory that vetting allows, during the warm-up: cannot allocate" in error.message


def test_not_started():
    for error in (end(status=1, noise=b"No module named x"), end({"missing": []}, status=-9, late=True)):
        assert type(error) is SettingsInvalid
    assert end(status=1, noise=b"No module named x").data["said"] == "No module named x"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"passed": 1}',
        b'{"passed": "true"}',
        b'{"passed": true, "passed": true}',
        b'{"step": "unknown", "file": "f"}',
        b'{"step": "warm-up"}',
        b'{"step": "session", "file": "f\\nCRITICAL"}',
        b'{"refused": {"code": "no_such_code", "message": "", "hint": "", "data": {}}}',
        b'{"refused": {"code": "model_invalid"}}',
        b'{"refused": []}',
        b'{"missing": "network"}',
        b'{"missing": ["something said too late"]}',
        b"[" * 100_000,
    ],
)
def test_what_makes_no_sense_was_not_said(line):
    report = Report.read(lines(WARM) + line + b"\n")
    assert report == Report(step=Step.WARM_UP, file="model.onnx")
