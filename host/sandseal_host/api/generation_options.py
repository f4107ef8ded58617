"""What a request says about the text that it wants: the same names over every protocol."""

from dataclasses import dataclass, replace
from typing import Any

import orjson

from sandseal_host.api.errors import OptionInvalid
from sandseal_host.serving.generation.sampling import MAX_BIASED, Sampling
from sandseal_signing.generation import MAX_TOKEN_ID, GenerationSpec
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import Node

_SEED = 2**63
_PENALTY = 2.0


@dataclass(frozen=True, slots=True)
class Options:
    """How an answer's tokens are chosen, and where it ends.

    Args:
        sampling: how they are chosen.
        max_tokens: how many there may be; None for as many as the context takes.
        stop: texts that end it.
        stop_ids: tokens that end it.
        context: tokens that prompt and answer have together, at most.
        constraints: what its logits plugin holds it to, as UTF-8 JSON.
        shown: special tokens that are part of its text all the same.
    """

    sampling: Sampling
    max_tokens: int | None
    stop: tuple[str, ...]
    stop_ids: frozenset[int]
    context: int
    constraints: bytes
    shown: frozenset[int] = frozenset()

    def numbered(self, number: int) -> "Options":
        """Those of one of several answers to a prompt, whose seeds differ, so that they do."""
        seed = self.sampling.seed
        return self if seed is None else replace(self, sampling=replace(self.sampling, seed=seed + number))


def read_options(node: Node, manifest: Manifest, logprobs: int | None = None) -> Options:
    """Take the members that are options; what they leave open is as the bundle says.

    Args:
        node: of a request; its own error class is raised.
        manifest: the model's.
        logprobs: as `Sampling` has them, which protocols say in different ways.

    Raises:
        OptionInvalid: the model generates no text.
    """
    spec = manifest.generation
    if spec is None:
        hint = f"use POST /v2/models/{manifest.name}/infer"
        raise OptionInvalid(f"model {manifest.name!r} generates no text", hint=hint, where="model")
    return Options(
        _sampling(node, spec, logprobs),
        _max_tokens(node, spec),
        _stop(node),
        _stop_ids(node, spec),
        spec.context,
        _constraints(node, manifest.logits is not None),
    )


def _sampling(node: Node, spec: GenerationSpec, logprobs: int | None) -> Sampling:
    defaults, plain = spec.defaults, Sampling()
    return Sampling(
        temperature=node.number("temperature", defaults.get("temperature", plain.temperature), low=0, high=100),
        top_k=max(0, node.integer("top_k", defaults.get("top_k", plain.top_k), low=-1)),  # -1 is vLLM's word for all
        top_p=node.number("top_p", defaults.get("top_p", plain.top_p), low=0, high=1),
        min_p=node.number("min_p", defaults.get("min_p", plain.min_p), low=0, high=1),
        repetition_penalty=node.number(
            "repetition_penalty", defaults.get("repetition_penalty", plain.repetition_penalty), low=0.01, high=100
        ),
        presence_penalty=node.number("presence_penalty", 0.0, low=-_PENALTY, high=_PENALTY),
        frequency_penalty=node.number("frequency_penalty", 0.0, low=-_PENALTY, high=_PENALTY),
        seed=node.integer("seed", None, low=-_SEED, high=_SEED - 1),
        logit_bias=_logit_bias(node.child("logit_bias", None)),
        logprobs=logprobs,
    )


def _max_tokens(node: Node, spec: GenerationSpec) -> int | None:
    """The limit by either of the names that OpenAI has for it."""
    older = node.integer("max_tokens", spec.defaults.get("max_tokens"), low=1)
    limit: int | None = node.integer("max_completion_tokens", older, low=1)
    return limit


def _logit_bias(node: Node | None) -> dict[int, float]:
    if node is None:
        return {}
    names = list(node.rest())
    for name in names:
        if not (name.isascii() and name.isdecimal() and len(name) <= 10 and int(name) <= MAX_TOKEN_ID):
            node.fail(name, "must be the id of a token")
    if len(names) > MAX_BIASED:
        node.fail("", f"must name {MAX_BIASED} tokens at most")
    return {int(name): node.number(name, low=-100, high=100) for name in names}


def _stop(node: Node) -> tuple[str, ...]:
    stop = node.take("stop", ())
    texts = [stop] if type(stop) is str else stop
    if type(texts) not in (list, tuple) or not all(type(text) is str and text for text in texts):
        node.fail("stop", "must be a string, or a list of them, none of them empty")
    return tuple(dict.fromkeys(texts))


def _stop_ids(node: Node, spec: GenerationSpec) -> frozenset[int]:
    more = node.integers("stop_token_ids", (), high=MAX_TOKEN_ID)
    ignored = node.take("ignore_eos", False)
    if type(ignored) is not bool:
        node.fail("ignore_eos", "must be true or false")
    return frozenset(more if ignored else (*spec.stop_ids, *more))


def _constraints(node: Node, possible: bool) -> bytes:
    """What is asked of the bundle's logits plugin, by the names that the first-party ones have for it."""
    found: dict[str, Any] = {}
    wanted = node.child("response_format", None)
    match wanted.text("type") if wanted else "text":
        case "json_object":
            found["json_schema"] = {}
        case "json_schema":
            found["json_schema"] = wanted.child("json_schema").take("schema", {})
        case other if other != "text":
            node.fail("response_format", "must be of type 'text', 'json_object' or 'json_schema'")
    if node.has("banned_strings"):
        found["banned_strings"] = node.texts("banned_strings")
    if found and not possible:
        name = "response_format" if "json_schema" in found else "banned_strings"
        node.fail(name, "needs a logits plugin, and this model's bundle has none")
    return orjson.dumps(found)
