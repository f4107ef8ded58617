"""A request's own parameters, and what of them reaches the model."""

import math

import orjson
import pytest

from api.double import HostDouble, ModelsDouble, identity
from api.test_infer import ask, tensor
from api.web import Web
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.terms import Terms, read_terms
from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.request import BATCH, REALTIME, STANDARD

DEFAULT = Terms(STANDARD)


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({}, STANDARD),
        ({"priority": 0}, STANDARD),
        ({"priority": 1}, REALTIME),
        ({"priority": 2}, STANDARD),
        ({"priority": 3}, BATCH),
        ({"priority": 2**40}, STANDARD),
        ({"sandseal.class": "batch"}, BATCH),
        ({"sandseal.class": "batch", "priority": 1}, BATCH),
    ],
)
def test_class(parameters, wanted):
    assert read_terms(parameters, DEFAULT).service_class is wanted


def test_timeout_is_in_microseconds():
    assert read_terms({"timeout": 1_500_000}, DEFAULT).timeout_s == 1.5
    assert read_terms({"timeout": 0}, DEFAULT).timeout_s == math.inf


@pytest.mark.parametrize(
    ("parameters", "step"),
    [
        ({}, None),
        ({"sequence_id": 7}, ("7", False, False)),
        ({"sequence_id": 2**64 - 1, "sequence_start": True}, (str(2**64 - 1), True, False)),
        ({"sequence_id": "a name", "sequence_end": True}, ("a name", False, True)),
        ({"sequence_id": 0, "sequence_start": True}, None),
        ({"sequence_id": "", "sequence_start": True}, None),
        ({"sequence_start": True}, None),
    ],
)
def test_step(parameters, step):
    found = read_terms(parameters, DEFAULT).step
    assert (found and (found.id, found.start, found.end)) == step


@pytest.mark.parametrize(
    "parameters",
    [
        {"sequence_id": -1},
        {"sequence_id": 2**64},
        {"sequence_id": 1.5},
        {"sequence_id": True},
        {"sequence_id": "x" * 129},
        {"sequence_id": 1, "sequence_start": 1},
        {"sequence_id": 1, "sequence_end": "true"},
    ],
)
def test_no_step(parameters):
    with pytest.raises(RequestInvalid):
        read_terms(parameters, DEFAULT)


def test_plugins_get_the_rest():
    parameters = {"binary_data_output": True, "priority": 1, "top": 3, "f": 1.5, "b": True, "s": "x", "sequence_id": 7}
    rest = {"top": 3, "f": 1.5, "b": True, "s": "x", "sequence_id": 7}
    assert orjson.loads(read_terms(parameters, DEFAULT).parameters) == rest


@pytest.mark.parametrize(
    "parameters", [{"timeout": -1}, {"timeout": 10**400}, {"priority": 2**64}, {"own": 2**64}, {"own": -(2**63) - 1}]
)
def test_numbers_are_of_64_bits(parameters):
    with pytest.raises(RequestInvalid, match="integer"):
        read_terms(parameters, DEFAULT)


@pytest.mark.parametrize(("asked", "nonce"), [(None, None), (False, None), (True, ""), ("", ""), ("n", "n")])
def test_a_receipt_and_its_nonce(asked, nonce):
    assert read_terms({"sandseal.receipt": asked}, DEFAULT).nonce == nonce


def test_what_the_model_gets(client, host):
    body = tensor(shape=(2, 16), data=[0] * 32)
    ask(client, "identity", body, parameters={"priority": 1, "timeout": 2_000_000, "top": 3})
    ask(client, "identity", body)
    first, second = host.models.get("identity").requests
    assert first.id != second.id
    assert first.rows == 2
    assert first.service_class is REALTIME
    assert first.deadline == first.arrival + 2.0
    assert first.parameters == b'{"top":3}'
    assert second.service_class is STANDARD
    assert second.deadline == math.inf
    assert second.parameters == b"{}"


def test_default_class_by_setting():
    host = HostDouble(ModelsDouble(identity("identity", "FP32", "batch", 16)), ApiSettings(default_class="batch"))
    with Web(host.app, "root") as client:
        ask(client, "identity", tensor(data=[0] * 16))
    assert host.models.get("identity").requests[0].service_class is BATCH
