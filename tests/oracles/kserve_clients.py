"""KServe's own clients against a host: REST and gRPC.

    kserve_clients.py URL GRPC_PORT TOKEN

Prints a JSON list of what worked; ends with the first thing that did not.
"""

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceRESTClient, RESTConfig
from kserve.inference_client import InferenceGRPCClient
from kserve.protocol.infer_type import InferInput, InferRequest, RequestedOutput

URL, GRPC, TOKEN = sys.argv[1], f"127.0.0.1:{sys.argv[2]}", sys.argv[3]
ROW = np.linspace(-1, 1, 128, dtype=np.float32).reshape(1, 128)


def asked(binary):
    tensor = InferInput("x", [1, 128], "FP32")
    tensor.set_data_from_numpy(ROW, binary_data=binary)
    wanted = RequestedOutput("y", parameters={"binary_data": binary})
    return InferRequest("acme.mlp", [tensor], request_outputs=[wanted])


async def main():
    worked, known = [], {"Authorization": f"Bearer {TOKEN}"}
    rest = InferenceRESTClient(RESTConfig(protocol="v2"))
    assert await rest.is_server_live(URL)
    assert await rest.is_server_ready(URL)
    assert await rest.is_model_ready(URL, "acme.mlp", headers=known)
    for binary in (True, False):
        # It writes into the headers that it gets.
        answer = await rest.infer(URL, asked(binary), headers={**known}, model_name="acme.mlp")
        assert answer.outputs[0].as_numpy().shape == (1, 10), answer
        worked.append(f"rest {'binary' if binary else 'json'}")
    await rest.close()
    grpc = InferenceGRPCClient(GRPC)
    assert await grpc.is_server_live()
    assert await grpc.is_server_ready()
    token = [("authorization", f"Bearer {TOKEN}")]
    assert await grpc.is_model_ready("acme.mlp", headers=token)
    for binary in (True, False):
        answer = await grpc.infer(asked(binary), headers=token)
        assert answer.outputs[0].as_numpy().shape == (1, 10), answer
        worked.append(f"grpc {'raw' if binary else 'typed'}")
    await grpc.close()
    print(json.dumps(worked))


asyncio.run(main())
