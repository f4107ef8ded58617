"""`GET /v1/models`: the models that this API can be asked about."""

from typing import Any

from sandseal_host.api.grant import Grant
from sandseal_host.api.openai.embeddings import embeds
from sandseal_host.api.ports import LiveModel, Models
from sandseal_host.errors import ModelUnknown


def model_list(models: Models, grant: Grant) -> dict[str, Any]:
    """Every model that is ready, that the caller may see, and that generates or embeds text."""
    names = {entry.name for entry in models.index() if entry.state == "ready" and grant.sees(entry.name)}
    found = [models.get(name, None) for name in sorted(names)]
    return {"object": "list", "data": [_entry(model) for model in found if _serves(model)]}


def model_entry(models: Models, grant: Grant, name: str) -> dict[str, Any]:
    """One of them.

    Raises:
        ModelUnknown, NotReady: there is none of this name, or it is of no use here.
    """
    grant.need_model(name)
    model = models.get(name, None)
    if not _serves(model):
        raise ModelUnknown(
            f"model {name!r} neither generates nor embeds text", hint="GET /v1/models lists those that do"
        )
    return _entry(model)


def _serves(model: LiveModel) -> bool:
    return model.manifest.generation is not None or embeds(model.manifest)


def _entry(model: LiveModel) -> dict[str, Any]:
    return {
        "id": model.manifest.name,
        "object": "model",
        "created": int(model.accepted_at),
        "owned_by": "sandseal",
        "bundle": model.bundle_id,
    }
