"""The edge put together: both planes as one ASGI application."""

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.control import create_control
from sandseal_host.api.control_bundles import bundle_routes
from sandseal_host.api.control_repository import repository_routes
from sandseal_host.api.control_tokens import token_routes
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.ports import Bundles, Lifecycle, Models, Tokens
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.uploads import Uploads
from sandseal_host.observe.metrics import HostMetrics


def create_app(
    *,
    models: Models,
    bundles: Bundles,
    tokens: Tokens,
    lifecycle: Lifecycle,
    metrics: HostMetrics,
    settings: ApiSettings,
) -> DataPlane:
    """The ASGI application of a host.

    Args:
        models: the models that can answer.
        bundles: what has been accepted.
        tokens: who may ask.
        lifecycle: loads and unloads, and knows whether the host is ready.
        metrics: what `/metrics` shows; its requests are counted here.
        settings: limits and choices.
    """
    door = Doorkeeper(tokens, settings)
    routers = [
        repository_routes(models, lifecycle, door),
        bundle_routes(bundles, Uploads(bundles, settings), door),
        token_routes(tokens, door),
    ]
    control = create_control(routers, door, metrics)
    return DataPlane(Endpoint(models, lifecycle, door, settings, metrics.requests), control)
