"""Every setting of the host: one frozen class, a sentence per field; host/README.md's table is made from it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from sandseal_host.errors import SettingsInvalid

_LEAST = 1e-8


def _is_enough(value: float) -> float:
    if 0 < value < _LEAST:
        raise ValueError(f"Input is too small: the least above 0 is {_LEAST:g}")
    return value


Count = Annotated[int, Field(le=1_000_000_000)]
"""What is counted, MiB too: far above any machine, and within what libraries' own integers hold."""
Amount = Annotated[float, Field(le=1_000_000, allow_inf_nan=False), AfterValidator(_is_enough)]
"""What is measured, mostly seconds: at most eleven days, which every clock takes, and nothing that is not a divisor."""


class Settings(BaseSettings):
    """The host's settings, from `sandseal serve` options, else SANDSEAL_* variables, else these defaults."""

    model_config = SettingsConfigDict(env_prefix="SANDSEAL_", frozen=True, extra="forbid")

    trust: Path = Field(Path("trust.toml"), description="Trust policy file; there is no default policy.")
    data: Path = Field(Path("sandseal-data"), description="Folder for blobs, the catalog and the operator's token.")
    catalog_url: str | None = Field(None, description="SQLAlchemy URL of the catalog; SQLite in the data folder.")
    host: str = Field("127.0.0.1", description="Address to bind; anything but loopback opens the host to others.")
    port: int = Field(8000, ge=0, le=65_535, description="Port to bind; 0 picks a free one.")
    grpc_port: int | None = Field(
        None, ge=0, le=65_535, description="Port to bind for the protocol over gRPC; 0 picks a free one."
    )
    root_path: str = Field("", description="Path prefix that a proxy in front strips.")
    trusted_proxies: str = Field(
        "", description="Addresses of proxies whose X-Forwarded-For and -Proto are believed, with commas between."
    )
    cors_origins: str = Field("", description="Origins whose pages may call the host, with commas between.")
    tls_cert: Path | None = Field(None, description="PEM file with the certificate that the ports are served with.")
    tls_key: Path | None = Field(None, description="PEM file with its private key.")
    tls_client_ca: Path | None = Field(None, description="PEM file with who issues the certificates that clients need.")
    anonymous: bool = Field(False, description="Take inference without a token.")
    device: str = Field("cpu", description="`cpu`, `cuda` (every GPU), or a list such as `cuda:0,cuda:2`; no fallback.")
    threads: int = Field(1, ge=1, le=256, description="Threads that one run of a model uses (intra-op, CPU).")
    instances: int = Field(1, ge=1, le=64, description="Runs of one model that may be in flight on a device.")
    replicas: int = Field(1, ge=1, le=64, description="GPUs that a model is loaded on, most free memory first.")
    cuda_graphs: bool = Field(
        False, description="Record CUDA graphs of models whose shapes are fixed but for the rows."
    )
    memory_watermark: Amount = Field(
        0.85,
        gt=0,
        le=1,
        description="Part of a device's memory above which idle models give way to one that is loaded.",
    )
    max_rows: Count | None = Field(None, ge=1, description="Most rows of a batch, below what bundles are signed for.")
    max_delay_us: Count | None = Field(
        None, ge=0, description="Longest wait for a batch to fill, below the signed one."
    )
    max_queue: Count = Field(1024, ge=1, description="Requests of one class that may wait for one model.")
    slots: int = Field(8, ge=1, le=256, description="Texts that one model generates at the same time.")
    max_context: Count = Field(
        4096, ge=2, description="Most tokens of a prompt and its answer, below what bundles are signed for."
    )
    prefill_tokens: Count = Field(
        128, ge=1, description="Tokens of prompts that are run before the texts under way get on."
    )
    kv_host_mib: Count = Field(
        1024, ge=0, description="MiB of one model's paused texts and of prompts that others may begin with."
    )
    cache_mib: Count = Field(
        0, ge=0, description="MiB of answers that are kept, of models whose bundle lets it; 0: none."
    )
    max_sequences: Count = Field(
        1024,
        ge=1,
        description="Sequences that may be open at once, for one model, three quarters of them by one tenant.",
    )
    sequence_mib: Count = Field(
        1024,
        ge=1,
        description="MiB of the states of one model's open sequences, three quarters of them of one tenant.",
    )
    sequence_idle_s: Amount = Field(
        60.0, gt=0, description="Seconds after which a sequence that nobody goes on with is forgotten."
    )
    default_class: Literal["realtime", "standard", "batch"] = Field(
        "standard", description="Class of requests that name none."
    )
    serving: Path | None = Field(
        None, description="TOML file with classes, tenants' weights and what is different for some models."
    )
    access: Path | None = Field(
        None, description="TOML file with tenants' rates, client certificates and an identity provider."
    )
    plugin_workers: int | None = Field(
        None, ge=0, le=256, description="Processes that run plugins; one a core on Linux, elsewhere 0: threads do."
    )
    plugin_memory_mib: Count = Field(1024, ge=320, description="Memory in MiB that one such process may use.")
    plugin_threads: int = Field(2, ge=1, le=64, description="Plugin calls that run at once, per stage, on threads.")
    max_body_mib: Count = Field(64, ge=1, description="Largest inference body in MiB, after decompression too.")
    max_json_mib: Count = Field(16, ge=1, description="Largest JSON part of an inference body in MiB.")
    max_json_values: Count = Field(2_000_000, ge=1, description="Most values of such a JSON part, counted by commas.")
    max_json_depth: int = Field(64, ge=8, le=900, description="How deep arrays and objects nest in it.")
    max_ratio: Amount = Field(
        200.0, ge=1, description="How many times as large a body of over a MiB may become by decompression."
    )
    max_head_kib: int = Field(
        32, ge=1, le=1024, description="Largest head of a request in KiB, over gRPC its metadata."
    )
    max_headers: Count = Field(100, ge=16, description="Most header fields of a request.")
    max_connections: Count = Field(4096, ge=1, description="Connections that are open at once; over gRPC, calls.")
    slow_s: Amount = Field(
        60.0, gt=0, description="Seconds in which a request's head must be there, and its body and its answer get on."
    )
    slow_bytes_s: Amount = Field(1024.0, ge=1, description="Bytes a second by which these have to get on.")
    direct: bool = Field(
        True,
        description="Answer inference straight from the HTTP parser; without it through ASGI, with the same bytes.",
    )
    max_uploads: Count = Field(4, ge=1, description="Uploads of bundles at once, three quarters of them by one token.")
    max_transfers: Count = Field(16, ge=1, description="Blobs of offers that arrive at once, likewise.")
    max_bundle_mib: Count = Field(16_384, ge=1, description="Largest upload in MiB; the policy's limits apply as well.")
    pending_mib: Count = Field(
        4096, ge=0, description="MiB of bundles that one publisher may have waiting for further signatures."
    )
    pending_days: Amount = Field(7.0, gt=0, le=36_500, description="Days that a bundle waits for further signatures.")
    load_bytes_mib: Count = Field(
        512, ge=0, description="MiB of a model's external weights up to which they are loaded as bytes, not by path."
    )
    lease: Literal["require", "warn"] = Field(
        "require", description="Whether weights are loaded by path where no read lease guards them against changes."
    )
    scrub_mib_s: Amount = Field(
        50.0, ge=0, description="MiB a second at which stored files are hashed again in the background; 0: never."
    )
    max_offers: Count = Field(8, ge=1, description="Offers of large bundles that one token may have open.")
    max_offered_mib: Count = Field(65_536, ge=1, description="Size in MiB of all bundles that one token offers.")
    offer_hours: Amount = Field(
        24.0, gt=0, le=876_000, description="Hours after which an offer ends, and what arrived of it."
    )
    disk_reserve_mib: Count = Field(
        1024, ge=0, description="Free space in MiB of the data folder's disk that no upload gets."
    )
    share_blobs: bool = Field(
        False, description="Spare publishers blobs that any other one sent; the answer tells that somebody did."
    )
    scrub_rest_s: Amount = Field(
        3600.0, gt=0, description="Seconds for which a stored file that was hashed is then left alone."
    )
    vet_memory_mib: Count = Field(
        2048, ge=256, description="Memory in MiB that vetting an upload may use, besides four times the bundle's size."
    )
    vet_cpu_s: Count = Field(120, ge=1, description="Processor time in seconds that vetting an upload may use.")
    vet_time_s: Amount = Field(300.0, gt=0, description="Seconds after which an upload's vetting is broken off.")
    code_cache_mib: Count = Field(256, ge=0, description="MiB of compiled plugins that are kept in the data folder.")
    graph_cache_mib: Count = Field(256, ge=0, description="MiB of optimised graphs that are kept there; 0: none.")
    verify_time_s: Amount = Field(
        600.0, gt=0, description="Seconds that verifying a stored bundle for a load may take."
    )
    load_time_s: Amount = Field(600.0, gt=0, description="Seconds that each model file and plugin may take to load.")
    warm_time_s: Amount = Field(120.0, gt=0, description="Seconds that a loaded model's first run may take.")
    vettings: Count = Field(2, ge=1, description="Uploads that are vetted at once; further ones wait for their turn.")
    drain_s: Amount = Field(30.0, ge=0, description="Seconds that running requests get at shutdown.")
    triton_metrics: bool = Field(False, description="Show metrics under Triton's names too (`nv_inference_*`).")
    traces_url: str | None = Field(
        None,
        description="Where OpenTelemetry traces are sent by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces.",
    )
    traces_share: Amount = Field(
        1.0, ge=0, le=1, description="Part of the requests that are traced, of those that come without a `traceparent`."
    )
    profile_slower_s: Amount | None = Field(
        None, gt=0, description="Seconds from which a request is slow, so that a profile of its time is kept."
    )
    log_requests: Literal["none", "failed", "all"] = Field(
        "none", description="Which inference requests get a line in the log."
    )
    log_format: Literal["console", "json"] = Field("console", description="How log lines look.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least that is logged.")


def read_settings(**given: object) -> Settings:
    """The settings: what is given and not None, else the environment's, else the defaults.

    Raises:
        SettingsInvalid: a value is of the wrong kind, or a SANDSEAL_* variable names no setting.
    """
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise SettingsInvalid(
            f"setting {name!r}: {first['msg'].removeprefix('Value error, ')}",
            hint=f"set SANDSEAL_{name.upper()} or the option of that name",
        ) from None
