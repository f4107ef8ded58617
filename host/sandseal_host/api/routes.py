"""Which of the data plane's routes a path is, by string operations alone."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from sandseal_host.errors import RequestInvalid


class Action(StrEnum):
    """What a route of the data plane does."""

    INFER = "infer"
    GENERATE = "generate"
    GENERATE_STREAM = "generate_stream"
    CALL = "call"
    SERVER = "server"
    LIVE = "live"
    READY = "ready"
    MODEL = "model"
    MODEL_READY = "model_ready"
    CONFIG = "config"
    STATISTICS = "stats"
    ALL_STATISTICS = "all_stats"
    CHAT = "chat"
    COMPLETE = "complete"
    EMBED = "embed"
    OPENAI_MODELS = "openai_models"
    OPENAI_MODEL = "openai_model"


_POSTED = frozenset(
    {
        Action.INFER, Action.GENERATE, Action.GENERATE_STREAM, Action.CALL, Action.CHAT, Action.COMPLETE, Action.EMBED,
    }
)  # fmt: skip
OPENAI = frozenset({Action.CHAT, Action.COMPLETE, Action.EMBED, Action.OPENAI_MODELS, Action.OPENAI_MODEL})
"""Which are answered in the OpenAI API's form, errors too."""


_SERVER = {
    "/v2": Action.SERVER,
    "/v2/health/live": Action.LIVE,
    "/v2/health/ready": Action.READY,
    "/v2/models/stats": Action.ALL_STATISTICS,
    "/v1/chat/completions": Action.CHAT,
    "/v1/completions": Action.COMPLETE,
    "/v1/embeddings": Action.EMBED,
    "/v1/models": Action.OPENAI_MODELS,
}
_MODEL = {
    "": Action.MODEL,
    "ready": Action.MODEL_READY,
    "infer": Action.INFER,
    "generate": Action.GENERATE,
    "generate_stream": Action.GENERATE_STREAM,
    "config": Action.CONFIG,
    "stats": Action.STATISTICS,
}


@dataclass(frozen=True, slots=True)
class Route:
    """A path of the data plane.

    Args:
        action: what it does.
        model: the model's name in the path; empty for routes of the host itself.
        version: the version in the path; None means the one that serves.
        method: the only method that it takes.
    """

    action: Action
    model: str = ""
    version: int | None = None
    method: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", "POST" if self.action in _POSTED else "GET")


@lru_cache(maxsize=4096)
def match_route(path: str) -> Route | None:
    """The route of a decoded path, or None when it is not the data plane's."""
    if path in _SERVER:
        return Route(_SERVER[path])
    parts = path.split("/")
    match parts[1:]:
        case ["v2", "models", model, *rest] if model:
            return _model_route(model, rest)
        case ["v1", "models", model, "call"] if model:
            return Route(Action.CALL, model)
        case ["v1", "models", model] if model:
            return Route(Action.OPENAI_MODEL, model)
    return None


def _model_route(model: str, rest: list[str]) -> Route | None:
    version = None
    if len(rest) > 1 and rest[0] == "versions" and len(rest[1]) < 17 and rest[1].isascii() and rest[1].isdigit():
        version, rest = int(rest[1]), rest[2:]
    action = _MODEL.get("/".join(rest)) if rest != [""] else None
    return Route(action, model, version) if action else None


def read_version(text: str) -> int | None:
    """The version that a text names; None for the empty one, which means the one that serves.

    Raises:
        RequestInvalid: it is no version number.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise RequestInvalid(f"version {text[:40]!r} is not a version number")
    return int(text)
