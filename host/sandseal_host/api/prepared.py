"""What can be worked out once per bundle instead of once per request."""

from dataclasses import dataclass

from sandseal_host.api.ports import LiveModel
from sandseal_host.api.request_decoder import RequestDecoder
from sandseal_host.api.response_encoder import ResponseEncoder
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.terms import Terms
from sandseal_host.observe.request_metrics import ModelMeter, RequestMetrics
from sandseal_host.serving.request import CLASSES
from sandseal_signing.manifest import Manifest
from sandseal_signing.variants import Precision

_MAX_PREPARED = 1024


@dataclass(frozen=True, slots=True)
class Prepared:
    """The codecs and the meter of one model version.

    Args:
        manifest: the version's.
        bundle: the id of the bundle that it came in.
        decoder: for its requests.
        encoder: for its answers.
        meter: counts its answers.
    """

    manifest: Manifest
    bundle: str
    decoder: RequestDecoder
    encoder: ResponseEncoder
    meter: ModelMeter


class PreparedModels:
    """Prepared parts by bundle; holds no model, so that an unloaded one can go.

    Args:
        settings: limits and choices that the codecs follow.
        metrics: where meters come from.
    """

    def __init__(self, settings: ApiSettings, metrics: RequestMetrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._terms = Terms(CLASSES[settings.default_class])
        self._prepared: dict[tuple[str, Precision | None], Prepared] = {}

    def of(self, model: LiveModel) -> Prepared:
        """The prepared parts of a model."""
        return self._prepared.get((model.bundle_id, model.precision)) or self._prepare(model)

    def _prepare(self, model: LiveModel) -> Prepared:
        if len(self._prepared) >= _MAX_PREPARED:
            self._prepared.clear()
        manifest = model.manifest
        targets = {name: each.target_s for name, each in model.settings.classes.items()}
        prepared = self._prepared[model.bundle_id, model.precision] = Prepared(
            manifest,
            model.bundle_id,
            RequestDecoder(manifest, self._terms, self._settings.json),
            ResponseEncoder(manifest, model.bundle_id, model.precision, self._settings.nonfinite),
            self._metrics.meter(manifest.name, manifest.version, targets),
        )
        return prepared
