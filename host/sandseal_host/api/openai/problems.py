"""Errors in the OpenAI API's form: the same sentences, statuses and headers as everywhere, in an object of its own."""

import orjson

from sandseal_host.api.answer import Answer
from sandseal_host.api.problems import problem

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_CODES = {"model_unknown": "model_not_found", "not_authenticated": "invalid_api_key"}
_AGAIN_IS_NO_USE = (b"x-should-retry", b"false")  # which OpenAI's client would do, twice


def openai_problem(error: BaseException) -> Answer:
    """The answer that tells of an error; `param` names the member that is wrong, where one is."""
    answer = problem(error)
    found = orjson.loads(answer.body)
    told = {
        "message": f"{found['error']} ({found['hint']})" if found["hint"] else found["error"],
        "type": _TYPES.get(answer.status, "invalid_request_error" if answer.status < 500 else "server_error"),
        "param": found.get("where"),
        "code": _CODES.get(found["code"], found["code"]),
    }
    headers = answer.headers if answer.status != 500 else (*answer.headers, _AGAIN_IS_NO_USE)
    return Answer(answer.status, orjson.dumps({"error": told}), headers)
