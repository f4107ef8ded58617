"""The edge as operators set it: TLS, client certificates, CORS, proxies, limits, over a real host."""

import asyncio
import os
import ssl
import subprocess
import sys

import grpc
import httpx
import pytest
from cryptography import x509

from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.service import SERVICE
from sandseal_sdk import AsyncClient, Client, Tls
from sandseal_sdk.errors import HostUnreachable, NotAllowed
from support.certificates import Authority

ACCESS = """
[certificates."spiffe://acme/robot"]
tenant = "acme"
scopes = ["infer"]
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def secure(authority, start, tmp_path):
    """A host that asks for certificates, on both ports."""
    cert, key = authority.issue_loopback()
    (tmp_path / "access.toml").write_text(ACCESS)
    files = {"TLS_CERT": cert, "TLS_KEY": key, "TLS_CLIENT_CA": authority.pem, "ACCESS": tmp_path / "access.toml"}
    settings = {f"SANDSEAL_{name}": str(path) for name, path in files.items()}
    with start(**settings, SANDSEAL_GRPC_PORT="0") as running:
        assert running.url.startswith("https://127.0.0.1:")
        yield running


def client(host, authority, pair=None, **options):
    context = ssl.create_default_context(cafile=authority.pem)
    if pair:
        context.load_cert_chain(*pair)
    return httpx.Client(base_url=host.url, verify=context, **options)


def test_certificates_are_who_a_client_is(secure, authority, tmp_path):
    robot = authority.issue("robot", x509.UniformResourceIdentifier("spiffe://acme/robot"))
    stranger = authority.issue("stranger", x509.DNSName("robot"))
    with client(secure, authority, robot) as web:
        assert web.get("/v2/models").json() == {"models": []}
        assert web.get("/v2").status_code == 200
        assert web.post("/v2/models/none/infer").json()["code"] == "model_unknown"
        assert web.get("/v1/tokens").json()["code"] == "not_permitted"
        token = {"authorization": f"Bearer {secure.token}"}
        assert web.get("/v1/tokens", headers=token).status_code == 200
        assert web.get("/v2/models", headers={"authorization": "Bearer wrong"}).status_code == 401
    with client(secure, authority, stranger) as web:
        for path in ("/v2", "/v2/models"):
            assert web.get(path).json()["code"] == "not_authenticated"
    other = tmp_path / "other"
    other.mkdir()
    for pair in (None, Authority(other).issue("robot", x509.UniformResourceIdentifier("spiffe://acme/robot"))):
        with client(secure, authority, pair) as web, pytest.raises(httpx.TransportError):
            web.get("/v2/health/live")

    for pair, code in ((robot, grpc.StatusCode.NOT_FOUND), (stranger, grpc.StatusCode.UNAUTHENTICATED)):
        with pytest.raises(grpc.RpcError) as refused:
            infer_over_grpc(secure, authority, pair)
        assert refused.value.code() is code
    with pytest.raises(grpc.RpcError) as refused:
        infer_over_grpc(secure, authority, (None, None))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_our_own_client_and_command_with_certificates(secure, authority, tmp_path):
    cert, key = authority.issue("robot", x509.UniformResourceIdentifier("spiffe://acme/robot"))
    files = Tls(authority.pem, cert, key)
    with Client(secure.url, tls=files) as robot:
        assert robot.models() == []
        with pytest.raises(NotAllowed):
            robot.tokens()

    async def later():
        async with AsyncClient(secure.url, secure.token, tls=files) as client:
            return await client.models()

    assert asyncio.run(later()) == []
    for wrong in (Tls(), Tls(certificate=cert, key=key), Tls(ca=authority.pem)):
        with Client(secure.url, tls=wrong) as client, pytest.raises(HostUnreachable):
            client.ready()

    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    login = ["login", secure.url, "--ca", str(authority.pem), "--cert", str(cert), "--key", str(key)]
    run_sandseal(home, *login)
    assert "model" in run_sandseal(home, "models")
    variables = {"URL": secure.url, "CA": authority.pem, "CLIENT_CERT": cert, "CLIENT_KEY": key, "TOKEN": secure.token}
    environment = {f"SANDSEAL_{name}": str(value) for name, value in variables.items()}
    assert "operator" in run_sandseal(environment | {"COLUMNS": "200"}, "token", "list")


def infer_over_grpc(host, authority, pair):
    cert, key = (path and path.read_bytes() for path in pair)
    credentials = grpc.ssl_channel_credentials(authority.pem.read_bytes(), key, cert)
    with grpc.secure_channel(f"127.0.0.1:{host.grpc_port}", credentials) as channel:
        serialize = messages.ModelInferRequest.SerializeToString
        infer = channel.unary_unary(f"/{SERVICE}/ModelInfer", request_serializer=serialize)
        return infer(messages.ModelInferRequest(model_name="none"), timeout=60)


def test_by_default_no_page_and_no_proxy_is_believed(start):
    page = {"origin": "https://page.example"}
    with start() as host, httpx.Client(base_url=host.url) as web:
        assert "access-control-allow-origin" not in web.get("/v2/health/live", headers=page).headers
        assert web.options("/v2/models", headers=page | {"access-control-request-method": "GET"}).status_code == 405
        for at in range(21):
            answer = web.get("/v2/models", headers={"authorization": "Bearer x", "x-forwarded-for": f"10.0.0.{at}"})
        assert answer.status_code == 429


def test_a_token_with_limits(start):
    with start(SANDSEAL_LOG_LEVEL="error") as host, host.client() as client:
        arguments = ["--scope", "infer", "--tenant", "labs", "--ceiling", "batch", "--requests-s", "2", "--days", "1"]
        environment = {"SANDSEAL_URL": host.url, "SANDSEAL_TOKEN": host.token}
        secret = run_sandseal(environment, "token", "add", "ci", *arguments).strip()
        issued = next(entry for entry in client.tokens() if entry["name"] == "ci")
        assert (issued["ceiling"], issued["requests_s"], issued["rows_s"]) == ("batch", 2, None)
        assert issued["expires"] > issued["created"]
        assert "2 requests" in run_sandseal(environment | {"COLUMNS": "200"}, "token", "list")
        headers = {"authorization": f"Bearer {secret}"}
        assert httpx.get(f"{host.url}/v2/models", headers=headers).status_code == 200
        log = host.log.read_text()
    assert "POST /v1/tokens" in log
    assert "token=operator" in log
    assert secret not in log


def run_sandseal(environment, *arguments):
    command = [sys.executable, "-m", "sandseal_sdk", *arguments]
    ran = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return ran.stdout


def test_what_an_operator_opens(start):
    settings = {
        "SANDSEAL_CORS_ORIGINS": "https://page.example, https://other.example",
        "SANDSEAL_TRUSTED_PROXIES": "127.0.0.1",
        "SANDSEAL_ROOT_PATH": "/sandseal",
        "SANDSEAL_MAX_HEADERS": "20",
    }
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    with start(**settings) as host, httpx.Client(base_url=host.url) as web:
        for origin, allowed in (("https://page.example", True), ("https://evil.example", False)):
            answer = web.options("/v2/models/m/infer", headers=asks | {"origin": origin})
            assert (answer.headers.get("access-control-allow-origin") == origin) is allowed
            assert (answer.status_code == 200) is allowed
        token = {"authorization": f"Bearer {host.token}"}
        assert web.get("/v2/models", headers=token).json() == {"models": []}
        assert web.get("/v2", headers=token).status_code == 200
        for at in range(21):
            answer = web.get("/v2/models", headers={"authorization": "Bearer x", "x-forwarded-for": f"10.0.0.{at}"})
        assert answer.status_code == 401
        assert web.get("/v2", headers={f"x-{at}": "1" for at in range(20)}).json()["code"] == "headers_too_large"
