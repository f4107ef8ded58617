"""The edge put together: both planes as one ASGI application."""

from sandseal_host.api.auth import Doorkeeper
from sandseal_host.api.control import add_metrics_route, create_control
from sandseal_host.api.control_bundles import add_bundle_routes
from sandseal_host.api.control_dashboard import add_dashboard_routes
from sandseal_host.api.control_log import add_log_routes
from sandseal_host.api.control_observation import add_observation_routes
from sandseal_host.api.control_offers import add_offer_routes
from sandseal_host.api.control_problems import add_problem_routes
from sandseal_host.api.control_profiles import add_profile_routes
from sandseal_host.api.control_queue import add_queue_routes
from sandseal_host.api.control_recording import add_recording_routes
from sandseal_host.api.control_repository import add_repository_routes
from sandseal_host.api.control_signatures import add_signature_routes
from sandseal_host.api.control_tokens import add_token_routes
from sandseal_host.api.control_trust import add_trust_routes
from sandseal_host.api.dataplane import DataPlane
from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.log_port import Log, Receipts
from sandseal_host.api.observation import Observation
from sandseal_host.api.offer_port import Offers
from sandseal_host.api.ports import Bundles, Lifecycle, Models, Tokens
from sandseal_host.api.settings import ApiSettings
from sandseal_host.api.trust_port import Trust
from sandseal_host.api.uploads import Transfers, Uploads
from sandseal_host.observe.metrics import HostMetrics
from sandseal_host.observe.observers import Observers


def create_app(
    *,
    models: Models,
    bundles: Bundles,
    offers: Offers,
    tokens: Tokens,
    trust: Trust,
    log: Log,
    receipts: Receipts,
    lifecycle: Lifecycle,
    metrics: HostMetrics,
    observers: Observers,
    settings: ApiSettings,
) -> DataPlane:
    """The ASGI application of a host.

    Args:
        models: the models that can answer.
        bundles: what has been accepted.
        offers: what is on its way in.
        tokens: who may ask.
        trust: who may publish.
        log: what happened.
        receipts: written for those who ask.
        lifecycle: loads and unloads, and knows whether the host is ready.
        metrics: what `/metrics` shows; its requests are counted here.
        observers: look at what was answered.
        settings: limits and choices.
    """
    door = Doorkeeper(tokens, settings)
    control = create_control()
    add_repository_routes(control, models, lifecycle, door)
    add_queue_routes(control, models, door)
    add_recording_routes(control, models, door)
    uploads = Uploads(bundles, settings)
    add_bundle_routes(control, bundles, uploads, door)
    transfers = Transfers(settings.max_transfers, settings.upload_idle_s)
    add_offer_routes(control, offers, bundles, uploads, transfers, door)
    add_signature_routes(control, bundles, uploads, door)
    add_token_routes(control, tokens, door)
    add_trust_routes(control, trust, bundles, door)
    add_log_routes(control, log, receipts, door)
    add_metrics_route(control, metrics, door)
    add_profile_routes(control, observers.profiles, door)
    add_observation_routes(control, Observation(models, observers), door)
    add_dashboard_routes(control)
    add_problem_routes(control)
    endpoint = Endpoint(models, lifecycle, door, settings, metrics.requests, receipts, observers)
    return DataPlane(endpoint, control)
