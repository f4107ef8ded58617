"""Every answer that is not Triton's, with the reason; host/TRITON.md has them as a table."""

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "host" / "TRITON.md"
_MARKS = re.compile(r"(<!-- differences: [^>]*-->\n).*?(<!-- /differences -->)", re.DOTALL)


@dataclass(frozen=True)
class Difference:
    """A kind of request that is answered otherwise.

    Args:
        asked: what.
        there: what Triton answers.
        here: what this host answers.
        why: it differs.
        status: of the answer here.
        numbers: of such requests in the record.
    """

    asked: str
    there: str
    here: str
    why: str
    status: int
    numbers: tuple[int, ...]


DIFFERENCES = (
    Difference(
        "JSON that is none, lacks a member, has one of the wrong type, or data that does not fill its shape",
        "500",
        "400",
        "the request is wrong, not the server",
        400,
        (
            35,
            45,
            54,
            56,
            57,
            60,
            61,
            62,
            73,
            74,
            75,
            77,
            78,
            79,
            80,
            81,
            82,
            83,
            85,
            90,
            91,
            97,
            98,
            99,
            101,
            117,
            118,
            121,
            137,
            138,
            165,
            196,
        ),
    ),
    Difference(
        "more JSON in `Inference-Header-Content-Length` than the host parses",
        "the length modulo 2^32",
        "413",
        "a number that does not fit is not another number",
        413,
        (126,),
    ),
    Difference(
        "health; whether a model is ready",
        "an empty `text/plain`",
        "JSON that says it too",
        "KServe's clients read it; Triton's look at the status alone",
        200,
        (1, 2, 5, 6, 173),
    ),
    Difference(
        "a model that is not there, or whose version is unloaded: `/ready`, `/stats`",
        "400",
        "404",
        "one answer for all that a token may not see, which is the same as of what is not there",
        404,
        (7, 158, 168),
    ),
    Difference("`GET /v2`", "Triton's name and extensions", "this host's", "it is this host", 200, (3,)),
    Difference(
        "metadata of a model",
        "without `properties`",
        "`properties` with bundle, release and the bundle's metadata",
        "whose answer it is, by digest",
        200,
        (8, 9, 10, 11, 12, 152),
    ),
    Difference(
        "configuration of a model",
        "every field of its configuration file",
        "those that have a counterpart here",
        "nothing is shown that means nothing",
        200,
        (16, 17, 176),
    ),
    Difference("`GET /`", "404", "the dashboard", "Triton has none", 200, (19,)),
    Difference(
        "outputs that were not named in an order",
        "by name",
        "as the bundle lists them",
        "the signed order is the only one that means something",
        200,
        (41, 107),
    ),
    Difference(
        "FP16 as JSON, either way",
        "400",
        "numbers",
        "half-precision models can be tried with curl",
        200,
        (58, 113),
    ),
    Difference(
        "FP32 in JSON",
        "the double nearest to it, 0.3333333432674408",
        "the shortest decimal that is read back as it, 0.33333334",
        "the same number in half the bytes",
        200,
        (65,),
    ),
    Difference("zero rows", "400", "empty outputs", "nothing asked, nothing answered, and no error", 200, (86,)),
    Difference(
        "BYTES that are not UTF-8 as JSON",
        "the bytes as they are, which is no JSON",
        "400",
        "JSON is UTF-8; binary outputs carry any bytes",
        400,
        (109,),
    ),
    Difference(
        "classes of an output with a file of labels",
        "`value:index:label`",
        "`value:index`",
        "a bundle has no such file; a post plugin turns scores into labels",
        200,
        (130, 131, 133, 135),
    ),
    Difference(
        "classes of a BYTES output", "the server process dies", "400", "nothing there can be compared", 400, (203,)
    ),
    Difference(
        "statistics",
        "times, and of batches those of their copies too",
        "times, and plugins as what computes inputs and outputs",
        "times never agree; copies are not timed one by one",
        200,
        (156, 157),
    ),
    Difference(
        "`/metrics`",
        "on a port of its own, under Triton's names",
        "on the one port, under ours; Triton's beside them with `SANDSEAL_TRITON_METRICS`",
        "one port to guard",
        200,
        (159, 160),
    ),
    Difference("another path on the metrics port", "an empty 200", "404", "there is nothing", 404, (161,)),
    Difference(
        "load and unload",
        "an empty body",
        '`{"name"}`',
        "an answer that is JSON is JSON",
        200,
        (167, 172, 174, 182),
    ),
    Difference(
        "the index after an unload",
        "`UNLOADING`",
        "`UNAVAILABLE`",
        "unload answers when the memory is back",
        200,
        (171,),
    ),
    Difference(
        "load with a configuration, or with a parameter that nobody knows",
        "a configuration of the caller's is used; 500",
        "501",
        "what runs is what was signed",
        501,
        (175, 177, 178),
    ),
    Difference(
        "load or unload of a model that is not there, or of no name",
        "500; 200",
        "404",
        "a wrong name is not a success, nor the server's fault",
        404,
        (179, 180, 181),
    ),
    Difference(
        "trace settings",
        "Triton's own traces, one in 1,000 requests if they were on",
        "OpenTelemetry's",
        "one kind of traces, sent where the operator says",
        200,
        (190, 191),
    ),
    Difference(
        "trace settings are changed where traces are sent nowhere",
        "200",
        "501",
        "it would change nothing",
        501,
        (192,),
    ),
    Difference(
        "a logging or trace setting that nobody knows",
        "ignored, 200",
        "400",
        "a misspelt name is not a success",
        400,
        (193, 197),
    ),
    Difference(
        "shared memory: status, registering, an input from it",
        "served",
        "404 and 501",
        "clients share no memory with a host that trusts nobody",
        404,
        (198, 199, 200, 201),
    ),
    Difference("an input from shared memory", "404, not registered", "501", "as above", 501, (202,)),
)


def with_differences(text: str) -> str:
    """The page with its table as the differences are now."""
    rows = ["| asked | Triton | here | why | requests |", "|---|---|---|---|---|"]
    rows += [f"| {d.asked} | {d.there} | {d.here} | {d.why} | {len(d.numbers)} |" for d in DIFFERENCES]
    table = "\n".join(rows)
    return _MARKS.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)
