"""C2SP/wycheproof: every signature is judged as published."""

import pytest

from sandseal_signing.keys import PublicKey
from support.shared import json_vectors


@pytest.mark.parametrize("name", ["ed25519", "ecdsa_secp256r1_sha256"])
def test_wycheproof(name: str) -> None:
    document = json_vectors(f"wycheproof/{name}_test.json")
    wrong, count = [], 0
    for group in document["testGroups"]:
        key = PublicKey.parse(group["publicKeyPem"])
        assert key.der.hex() == group["publicKeyDer"]
        for case in group["tests"]:
            verifies = key.verifies(bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"]))
            wrong += [case["tcId"]] * (verifies is not (case["result"] == "valid"))
            count += 1
    assert not wrong
    assert count == document["numberOfTests"]
