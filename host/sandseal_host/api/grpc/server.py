"""The gRPC server on its port."""

from grpc import ServerCredentials, aio, method_handlers_generic_handler, ssl_server_credentials

from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.grpc.service import SERVICE, InferenceService
from sandseal_host.api.tls import TlsFiles
from sandseal_host.errors import SettingsInvalid

_KEEPALIVE_MS = 60_000
_IDLE_MS = 600_000  # of a connection without calls
_CALLS = 1_000  # of one connection
_MAX_MESSAGE = 2**31 - 1  # bytes, which is all that protobuf takes


async def serve_grpc(
    endpoint: Endpoint, *, host: str, port: int, tls: TlsFiles | None = None
) -> tuple[aio.Server, int]:
    """Start answering over gRPC, and say on which port; the server's `stop(grace)` lets running calls end.

    Args:
        endpoint: the data plane's.
        host: address to bind.
        port: port to bind; 0 picks a free one.
        tls: what it is served with.

    Raises:
        SettingsInvalid: the port cannot be bound.
    """
    limits = endpoint.settings
    options = (
        ("grpc.max_receive_message_length", min(limits.max_body_bytes, _MAX_MESSAGE)),
        ("grpc.max_metadata_size", limits.max_head_bytes),
        ("grpc.absolute_max_metadata_size", limits.max_head_bytes),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),  # finds connections out whose other end is gone
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        ("grpc.max_concurrent_streams", min(_CALLS, limits.max_calls)),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    )
    server = aio.server(options=options, maximum_concurrent_rpcs=limits.max_calls)
    server.add_generic_rpc_handlers((method_handlers_generic_handler(SERVICE, InferenceService(endpoint).handlers()),))
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        bound = server.add_secure_port(address, _credentials(tls)) if tls else server.add_insecure_port(address)
    except RuntimeError as error:
        raise SettingsInvalid(f"the gRPC port {address} cannot be bound", hint="set SANDSEAL_GRPC_PORT") from error
    await server.start()
    return server, bound


def _credentials(tls: TlsFiles) -> ServerCredentials:
    clients = tls.client_ca.read_bytes() if tls.client_ca else None
    pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    return ssl_server_credentials([pair], root_certificates=clients, require_client_auth=clients is not None)
