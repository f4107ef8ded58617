"""Manifests to judge, good and bad: the reader and the published JSON Schema must say the same about each."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

from support.bundles import manifest

Change = Callable[[dict[str, Any]], Any]

TENSOR = {"name": "t", "dtype": "FP32", "shape": ["batch", 4]}
STAGE = {"plugin": "plugins/p.wasm", "function": "run"}
TEXT = {"dtype": "BYTES", "shape": [1]}
GENERATION = {"tokenizer": "tokenizer.json", "context": 8192}
PRE, POST = {**STAGE, "inputs": [TENSOR]}, {**STAGE, "outputs": [TENSOR]}

PIPELINE = {
    "inputs": [TENSOR],
    "steps": [
        {"name": "cut", **STAGE, "inputs": [{**TENSOR, "from": "input.t"}], "outputs": [TENSOR]},
        {"name": "read", "model": "acme.reader", "inputs": [{**TENSOR, "from": "cut.t"}], "outputs": [TENSOR]},
    ],
    "outputs": [{**TENSOR, "name": "u", "from": "read.t"}],
}
_CUT, _READ = "steps.0", "steps.1"


def full() -> dict[str, Any]:
    """A manifest with both stages and every optional object, to change and to judge."""
    document = manifest(pre=PRE, post=POST, metadata={"licence": "MIT"})
    document["model"] |= {"batching": {"max_rows": 8}, "external_data": ["model.onnx.data"], "raw": ["image/png"]}
    document["pre"] = {**PRE, "limits": {"memory_mib": 8}, "imports": ["log"], "assets": ["a.txt"], "config": {"k": 1}}
    return copy.deepcopy(document)


def changed(change: Change) -> dict[str, Any]:
    """`full` after a change."""
    document = full()
    change(document)
    return document


def generating(**members: Any) -> Change:
    """Makes it a language model's, with `members` in its `generation`."""

    def change(document: dict[str, Any]) -> None:
        document["model"] |= {"inputs": [{"name": "text_input", **TEXT}], "outputs": [{"name": "text_output", **TEXT}]}
        for stage in ("pre", "post"):
            document.pop(stage)
        document["model"].pop("batching")
        document["generation"] = {**GENERATION, **members}

    return change


def chaining(path: str = "", value: Any = None) -> Change:
    """Makes it a pipeline's, with a value at a dotted path within."""

    def change(document: dict[str, Any]) -> None:
        for member in ("model", "pre", "post"):
            document.pop(member)
        document["pipeline"] = copy.deepcopy(PIPELINE)
        if path:
            _set(path, value)(document["pipeline"])

    return change


def _caching(*imports: str) -> Change:
    """Lets its answers be kept, and gives its pre stage these imports."""

    def change(document: dict[str, Any]) -> None:
        document["model"]["cache"] = True
        document["pre"]["imports"] = list(imports)

    return change


def _keeping(
    *states: Any,
    inputs: Iterable[str] = ("t", "h", "free"),
    outputs: Iterable[str] = ("u", "hn", "hn2", "freen"),
    cache: bool = False,
) -> Change:
    """Gives its model these states, and tensors of these names; those that begin with h have another shape."""

    def tensor(name: str) -> dict[str, Any]:
        kinds = {"h": ["batch", 2], "f": ["batch", "n"], "t": ["batch", 4], "u": ["batch", 4]}
        return {"name": name, "dtype": "FP32", "shape": kinds[name[0]]}

    def change(document: dict[str, Any]) -> None:
        document["model"] |= {"inputs": [tensor(n) for n in inputs], "outputs": [tensor(n) for n in outputs]}
        document["model"] |= {"state": list(states), "cache": cache}
        document["pre"]["imports"] = []

    return change


def variants(*given: Any) -> Change:
    """Gives its model these variants."""
    return _set("model.variants", list(given))


def _set(path: str, value: Any) -> Change:
    return lambda document: _parent(document, path).__setitem__(_last(path), value)


def _drop(path: str) -> Change:
    return lambda document: _parent(document, path).__delitem__(_last(path))


def _parent(document: dict[str, Any], path: str) -> Any:
    """The object or list that holds the member at a dotted path such as `model.inputs.0.name`."""
    node: Any = document
    for name in path.split(".")[:-1]:
        node = node[int(name) if name.isdigit() else name]
    return node


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _each(path: str, *values: Any) -> dict[str, Change]:
    return {f"{path} = {ascii(value)[:60]}": _set(path, value) for value in values}


_OWN = {"precision": "FP32", "file": "model.onnx"}
_VARIANTS: list[list[dict[str, Any]]] = [
    [],
    [_OWN],
    [{"precision": "INT8", "file": "int8.onnx"}],
    [{"precision": "FP16", "file": "half.onnx", "external_data": ["half.data"], "requires": "cuda"}, _OWN],
    [_OWN, *({"precision": p, "file": f"{p}.onnx"} for p in ("INT4", "INT8", "BF16", "FP16", "FP32", "FP64"))],
]
_NOT_VARIANTS: list[list[Any]] = [
    [{**_OWN, "extra": 1}],
    [{**_OWN, "precision": "INT7"}],
    [{**_OWN, "requires": "tpu"}],
    [_OWN, {"precision": "INT8"}],
    [_OWN, {"file": "int8.onnx"}],
    [_OWN, {"precision": "INT8", "file": "../int8.onnx"}],
    [_OWN, "INT8"],
]

_GENERATION_EDGES: list[dict[str, Any]] = [
    {"context": 1},
    {"context": 2**24},
    {"stop_ids": []},
    {"defaults": {}},
    {"defaults": {"temperature": 0, "top_p": 0.0, "repetition_penalty": 0.01, "top_k": 0}},
    {"defaults": {"temperature": 100, "min_p": 1, "repetition_penalty": 100.0, "max_tokens": 2**24}},
]

_NOT_GENERATION: list[dict[str, Any]] = [
    {"extra": 1},
    {"tokenizer": "../tokenizer.json"},
    {"tokenizer": None},
    {"chat_template": ""},
    {"context": 0},
    {"context": 2**24 + 1},
    {"context": True},
    {"stop_ids": 2},
    {"stop_ids": [1, 1]},
    {"stop_ids": [-1]},
    {"stop_ids": [2**31]},
    {"stop_ids": [True]},
    {"add_bos": "<s>"},
    {"logits": {}},
    {"logits": {"plugin": "l.wasm", "function": "f", "mode": "stream"}},
    {"logits": {"plugin": "l.wasm", "function": "f", "outputs": []}},
    {"add_bos": -1},
    {"defaults": []},
    {"defaults": {"seed": 1}},
    {"defaults": {"temperature": -0.1}},
    {"defaults": {"temperature": "1"}},
    {"defaults": {"temperature": True}},
    {"defaults": {"top_p": 1.01}},
    {"defaults": {"repetition_penalty": 0}},
    {"defaults": {"top_k": 1.5}},
    {"defaults": {"max_tokens": 0}},
]

_PIPELINE_EDGES: list[tuple[str, Any]] = [
    ("raw", ["image/png"]),
    (f"{_CUT}.limits", {"memory_mib": 8}),
    (f"{_CUT}.imports", ["log", "now"]),
    (f"{_CUT}.on_failure", "passthrough"),
    (f"{_CUT}.mode", "stream"),
    (f"{_CUT}.inputs.0.shape", ["rows", "columns"]),
    (f"{_READ}.bundle", "0" * 64),
    (f"{_READ}.inputs", [{**TENSOR, "name": "a b/c.0", "from": "input.t"}]),
    ("outputs.0.shape", ["line", "n"]),
]

_NOT_PIPELINES: list[tuple[str, Any]] = [
    ("extra", 1),
    ("inputs", []),
    ("inputs", [{**TENSOR, "from": "input.t"}]),
    ("raw", ["png"]),
    ("steps", []),
    ("steps", {}),
    ("steps", [1]),
    ("outputs", []),
    ("outputs.0.from", None),
    ("outputs.0.from", "read"),
    ("outputs.0.from", "read."),
    ("outputs.0.from", ".t"),
    ("outputs.0.extra", 1),
    (f"{_CUT}.name", ""),
    (f"{_CUT}.name", "input"),
    (f"{_CUT}.name", "Cut"),
    (f"{_CUT}.name", "a.b"),
    (f"{_CUT}.name", "x" * 33),
    (f"{_CUT}.model", "acme.reader"),
    (f"{_CUT}.plugin", "../p.wasm"),
    (f"{_CUT}.extra", 1),
    (f"{_CUT}.limits", {"memory_mib": 0}),
    (f"{_READ}.plugin", "plugins/p.wasm"),
    (f"{_READ}.model", "Acme"),
    (f"{_READ}.model", ""),
    (f"{_READ}.bundle", "0" * 63),
    (f"{_READ}.bundle", "A" * 64),
    (f"{_READ}.bundle", ""),
    (f"{_READ}.limits", {}),
    (f"{_READ}.inputs", []),
    (f"{_READ}.inputs", [TENSOR]),
    (f"{_READ}.outputs", []),
    (f"{_READ}.outputs", [{**TENSOR, "shape": ["n", 4]}]),
]

_UNFIT_PIPELINES: list[tuple[str, Any]] = [
    (f"{_CUT}.inputs.0.from", "read.t"),  # which comes later
    (f"{_CUT}.inputs.0.from", "cut.t"),
    (f"{_CUT}.inputs.0.from", "input.u"),
    (f"{_READ}.inputs.0.from", "nobody.t"),
    (f"{_READ}.inputs.0.dtype", "FP64"),
    (f"{_READ}.inputs.0.shape", ["batch", 5]),
    (f"{_READ}.inputs.0.shape", ["batch"]),
    (f"{_READ}.name", "cut"),
    (f"{_READ}.model", "acme.tiny"),  # itself
    ("outputs.0.shape", ["line", 3]),
    ("outputs.0.dtype", "BYTES"),
]

GOOD: dict[str, Change] = {
    "everything": lambda document: None,
    **{
        f"no {path}": _drop(path)
        for path in (
            "pre",
            "post",
            "metadata",
            "model.batching",
            "model.external_data",
            "model.raw",
            "model.batching.max_rows",
            "pre.limits",
            "pre.limits.memory_mib",
            "pre.imports",
            "pre.assets",
            "pre.config",
        )
    },
    **_each("$schema", "x"),
    **_each("name", "a", "0", "a" * 128, "a.b_c-d", "a."),
    **_each("version", 1, 2**53 - 1),
    **_each("release", "", "1.2.0 (\u00e4)", "x" * 128),
    **_each(
        "expires",
        "2027-12-31T00:00:00Z",
        "2027-12-31T23:59:59.123456+14:00",
        "2027-02-28T00:00:00-00:00",
        "2028-02-29T00:00:00.5Z",
    ),
    **_each("not_before", "1970-01-01T00:00:00Z"),
    **_each("model.file", "a/b.onnx", "x" * 100, "p" * 100 + "/" + "p" * 54 + "/" + "b" * 99, "a/b/c/d/e/f/g/h"),
    **_each("model.external_data", [], ["a", "b"]),
    **_each("model.domains", [""], ["", "ai.onnx.ml"], ["x" * 255]),
    **_each("model.inputs.0.name", "a b/c:0", "\u00e4", "x" * 255),
    **_each("model.inputs.0.dtype", "BOOL", "UINT64", "INT8", "FP16", "FP64", "BF16", "BYTES"),
    **_each("model.inputs.0.shape", ["batch"], ["batch", 0], ["batch", "n", "n"], ["batch", *[2**31 - 1] * 7]),
    **_each("pre.inputs.0.shape", [], [1], ["height", "_w1", 3], ["x" * 128], ["batch"]),
    **_each("model.batching.max_rows", 1, 65536),
    **_each("model.batching.max_delay_us", 0, 10_000_000),
    **_each("model.raw", [], ["application/octet-stream", "*/*", "image/svg+xml", "a/b.c-d_e"]),
    **{f"reserved model.{name} = {value}": _set(f"model.{name}", value) for name, value in (("queue", 1),)},
    "a pipeline": chaining(),
    **{f"pipeline: {path} = {value!a}"[:90]: chaining(path, value) for path, value in _PIPELINE_EDGES},
    **_each("model.state", []),
    **_each("model.cache", False),
    "a cache": _caching("log"),
    "a state": _keeping({"input": "h", "output": "hn"}),
    **{f"variants {given!a}": variants(*given) for given in _VARIANTS},
    "generation": generating(),
    "generation with everything": generating(
        chat_template="chat.jinja",
        stop_ids=[0, 2**31 - 1],
        add_bos=0,
        defaults={"temperature": 0.7, "top_p": 1, "min_p": 0, "repetition_penalty": 1.1, "top_k": 40, "max_tokens": 1},
        logits={"plugin": "plugins/l.wasm", "function": "f", "limits": {}, "imports": ["asset"], "config": {"a": 1}},
    ),
    **{f"generation {given}": generating(**given) for given in _GENERATION_EDGES},
    **_each("pre.function", "f", "_private9", "x" * 128),
    **_each("pre.limits", {}, {"memory_mib": 1, "time_ms": 1}, {"memory_mib": 4096, "time_ms": 600_000}),
    **_each("pre.imports", [], ["asset"], ["log", "now", "random", "asset"]),
    **_each("pre.assets", [], ["assets/a", "assets/b"]),
    **_each("pre.config", {}, {"a": [1.5, None, {"b": "c"}]}),
    **_each("pre.on_failure", "refuse", "passthrough"),
    **_each("post.mode", "request", "stream"),
    **_each("metadata", {}, {"": "", "\u00e4": "x" * 4096}),
}

BAD: dict[str, Change] = {
    **{
        f"no {path}": _drop(path)
        for path in (
            "schema",
            "name",
            "version",
            "model",
            "model.file",
            "model.inputs",
            "model.outputs",
            "model.inputs.0.name",
            "model.inputs.0.dtype",
            "model.inputs.0.shape",
            "pre.plugin",
            "pre.function",
            "pre.inputs",
            "post.outputs",
        )
    },
    **{
        f"another member of {path or 'the document'}": _set(f"{path}.extra".strip("."), 1)
        for path in (
            "",
            "model",
            "model.batching",
            "model.inputs.0",
            "pre",
            "pre.limits",
            "pre.inputs.0",
            "post",
        )
    },
    **{
        f"{path} = null": _set(path, None)
        for path in (
            "$schema",
            "schema",
            "name",
            "version",
            "release",
            "expires",
            "not_before",
            "model",
            "pre",
            "post",
            "metadata",
            "model.file",
            "model.external_data",
            "model.domains",
            "model.inputs",
            "model.batching",
            "model.raw",
            "pre.function",
            "pre.limits",
            "pre.imports",
            "pre.assets",
            "pre.config",
            "pre.on_failure",
            "pre.mode",
            "model.batching.max_rows",
            "pre.limits.time_ms",
            "metadata.licence",
        )
    },
    **_each("$schema", "", 1),
    **_each("schema", "sandseal.bundle/2", "sandseal.bundle", 1),
    **_each("name", "", "A", ".a", "-a", "a b", "a/b", "a\n", "\u00e4", "a" * 129, 1),
    **_each("version", 0, -1, 1.5, "1", True, 2**53),
    **_each("release", 1, "x" * 129),
    **_each(
        "expires",
        "",
        "2027-12-31",
        "2027-12-31T00:00:00",
        "2027-12-31 00:00:00Z",
        "20271231T000000Z",
        "2027-12-31T00:00Z",
        "2027-12-31T00:00:00z",
        "2027-12-31T00:00:00Z\n",
        "2027-12-31T00:00:00.1234567Z",
        "2027-12-31T00:00:00+1400",
        "\u0662027-12-31T00:00:00Z",
        1830211200,
    ),
    **_each("not_before", "soon"),
    **_each("model", [], "model.onnx"),
    **_each(
        "model.file",
        "",
        1,
        "..",
        "../m",
        "a/../m",
        "/m",
        "m/",
        "a//m",
        "m\n",
        "m n",
        "a\\m",
        "\u00e4",
        "x" * 101,
        "a/b/c/d/e/f/g/h/i",
        "p" * 100 + "/" + "p" * 56 + "/" + "b" * 90,
        "/".join(["p" * 85] * 3),
        "signatures/m",
        "SIGNATURES",
        "model.sig",
        "MODEL.sig",
        ".git",
        ".gitignore",
        ".GIT/x",
        "m.",
        "a./m",
        "con",
        "Nul.onnx",
        "a/lpt9.x/m",
    ),
    **_each("model.external_data", "x", ["a", "a"], ["../x"], [1], {}),
    **_each("model.domains", [], ["", ""], [1], "", ["x" * 256]),
    **_each("model.inputs", [], {}, [1], [[]]),
    **_each("model.outputs", []),
    **_each("model.inputs.0.name", "", 1, "x" * 256),
    **_each("model.inputs.0.dtype", "", "float32", "fp32", "STRING", 1),
    **_each(
        "model.inputs.0.shape",
        4,
        "batch",
        ["batch", -1],
        ["batch", 2**31],
        ["batch", 1.5],
        ["batch", None],
        ["batch", ""],
        ["batch", "a b"],
        ["batch", "1a"],
        ["batch", "\u00e4"],
        ["batch", "n\n"],
        ["batch", True],
        ["batch", "batch"],
        ["batch", [1]],
        ["batch", *[1] * 8],
        ["batch", "x" * 129],
        [4],
        [],
        ["n", "batch"],
    ),
    **_each("pre.inputs.0.shape", ["n", "batch"]),
    **_each("model.batching", [], 8),
    **_each("model.batching.max_rows", 0, 65537, 1.5, "8", True),
    **_each("model.batching.max_delay_us", -1, 10_000_001),
    **_each(
        "model.raw", "image/png", ["image"], ["image/"], ["Image/PNG"], ["a/b; q=1"], ["a/b", "a/b"], ["a/b\n"], [1]
    ),
    **_each("pre", [], "plugins/p.wasm"),
    **_each("pre.outputs", [TENSOR]),
    **_each("post.inputs", [TENSOR]),
    **_each("pre.plugin", "../p.wasm", 1),
    **_each("pre.function", "", "1f", "a-b", "f\n", "\u00e4", "x" * 129, 1),
    **_each("pre.limits", [], {"memory_mib": 0}, {"memory_mib": 4097}, {"time_ms": 0}, {"time_ms": 600_001}),
    **_each("pre.imports", "log", ["fd_write"], ["log", "log"], [1]),
    **_each("pre.assets", ["../a"], ["a", "a"], "a"),
    **_each("pre.config", [], "x", 1),
    **_each("pre.on_failure", "", "ignore", 1),
    **_each("pre.mode", "", "batch", 1),
    **_each("metadata", [], {"a": 1}, {"a": "x" * 4097}),
    "generation beside a graph's own tensors": _set("generation", GENERATION),
    **_each("generation", None, False, [], {}, {"tokenizer": "t.json"}, {"context": 1}),
    "generation with a pre stage": lambda document: (generating()(document), document.update(pre=PRE)),
    "generation with a post stage": lambda document: (generating()(document), document.update(post=POST)),
    **{f"variants {given!a}": variants(*given) for given in _NOT_VARIANTS},
    **{f"generation {given}": generating(**given) for given in _NOT_GENERATION},
    **_each("model.state", None, {}, [1], [{}], [{"input": "t"}], [{"input": "", "output": "u"}]),
    "another member of a state": _keeping({"input": "h", "output": "hn", "extra": 1}),
    **_each("model.cache", None, 0, 1, "x", {}),
    **_each("pipeline", None, [], {}, {"any": ["thing"]}),
    "a pipeline beside a model": lambda document: document.update(pipeline=copy.deepcopy(PIPELINE)),
    **{
        f"a pipeline beside {name}": lambda document, name=name, value=value: (  # type: ignore[misc]
            chaining()(document),
            document.update({name: value}),
        )
        for name, value in (("pre", PRE), ("post", POST), ("generation", GENERATION))
    },
    **{f"pipeline: {path} = {value!a}"[:90]: chaining(path, value) for path, value in _NOT_PIPELINES},
}

# What JSON Schema has no word for; signing/README.md lists the same.
ONLY_THE_READER_REFUSES: dict[str, Change] = {
    "an integer written as a float": _set("version", 1.0),
    "a tensor name twice": lambda document: document["model"]["inputs"].append(
        document["model"]["inputs"][0] | {"dtype": "INT8"}
    ),
    "a variant's file twice": variants(_OWN, _OWN | {"precision": "FP16"}),
    "a state that is no input": _keeping({"input": "?", "output": "hn"}),
    "a state that is no output": _keeping({"input": "h", "output": "?"}),
    "a state of two kinds": _keeping({"input": "h", "output": "u"}),
    "a state of no size": _keeping({"input": "free", "output": "freen"}),
    "a state's tensor twice": _keeping({"input": "h", "output": "hn"}, {"input": "h", "output": "hn2"}),
    "nothing but state": _keeping(
        *({"input": name, "output": f"{name}n"} for name in ("h", "t")), inputs=("h", "t"), outputs=("hn", "tn", "u")
    ),
    "a cache of answers that hang on the time": _caching("log", "now"),
    "a cache of answers that hang on chance": _caching("random"),
    "a cache of a sequence's answers": _keeping({"input": "h", "output": "hn"}, cache=True),
    "a cache of generated text": lambda document: (generating()(document), _set("model.cache", True)(document)),
    **{f"pipeline: {path} = {value!a}"[:90]: chaining(path, value) for path, value in _UNFIT_PIPELINES},
    "a day that does not exist": _set("expires", "2027-02-29T00:00:00Z"),
    "an hour that does not exist": _set("expires", "2027-01-01T25:00:00Z"),
    "a time that does not exist in UTC": _set("expires", "9999-12-31T23:59:59-14:00"),
    "a stage passed over whose tensors differ in a shape": lambda document: document["pre"].update(
        on_failure="passthrough", inputs=[TENSOR | {"shape": ["batch", 5]}]
    ),
    "a stage passed over whose tensors differ in the data type": lambda document: document["post"].update(
        on_failure="passthrough", outputs=[TENSOR | {"dtype": "FP64"}]
    ),
    "a stage passed over that gives more than it takes": lambda document: document["post"].update(
        on_failure="passthrough", outputs=[TENSOR, TENSOR | {"name": "more"}]
    ),
    "an end before its beginning": lambda document: document.update(
        not_before="2027-01-01T00:00:00Z", expires="2027-01-01T00:00:00Z"
    ),
}
