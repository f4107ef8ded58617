"""The figures of *Trust*: what verification, verdicts and receipts cost."""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx

from bench import servers
from bench.figure import Figure, Measure, interleave
from bench.revocation import revocation
from bench.uploads import resumed, uploads
from sandseal_signing.bundle import Discard, open_bundle
from sandseal_signing.checkpoint import Checkpoint
from sandseal_signing.digest import CHUNK, Digest
from sandseal_signing.folder import FolderSource
from sandseal_signing.manifest import parse_manifest, render_manifest
from sandseal_signing.merkle import EMPTY_HEAD
from sandseal_signing.names import MANIFEST
from sandseal_signing.pack import pack_folder
from sandseal_signing.receipt import Receipt, make_receipt
from sandseal_signing.seal import SealReader
from sandseal_signing.unpack import unpack_seal
from sandseal_signing.verdict import Moment, judge
from support.bundles import manifest, trust, trust_text
from support.keys import ed25519_key, p256_key
from support.onnx_models import mlp
from support.stock_oms import NotInstallable, StockTool
from vectors.hostile.case import content, statement_of

ROUNDS = 5
MIB = 1 << 20
MANY = 32
SIZE_MIB = int(os.environ.get("SANDSEAL_BENCH_MIB", "1024"))
"""How much is verified; less on a machine that many share."""

KEY, STOCK = ed25519_key("alice"), p256_key("alice")
POLICY = trust({"alice": KEY, "stock": STOCK})
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# Run by the stock tool's own Python: the seconds of one verification, without the start of the interpreter.
_STOCK_VERIFIES = """
import sys, time
from pathlib import Path
from model_signing import hashing, verifying
model, signature, key = map(Path, sys.argv[1:])
began = time.perf_counter()
config = verifying.Config().use_elliptic_key_verifier(public_key=key)
config.set_hashing_config(hashing.Config().set_ignored_paths(paths=[model / "signatures"]))
config.verify(model, signature)
print(time.perf_counter() - began)
"""
_WE_VERIFY = """
import sys, time
from pathlib import Path
from sandseal_signing import Discard, FolderSource, Moment, TrustPolicy, open_bundle
folder, trust, threads = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
began = time.perf_counter()
policy = TrustPolicy.parse(trust.read_text(), str)
open_bundle(FolderSource(folder), policy, lambda _: Moment.current(), Discard(), threads=threads)
print(time.perf_counter() - began)
"""


def _made(root: Path, files: int) -> tuple[Path, Path]:
    """A folder with `SIZE_MIB` of weights in `files` files, verified once; and its archive."""
    folder, archive = root / "bundle", root / "big.seal"
    folder.mkdir()
    (folder / MANIFEST).write_bytes(render_manifest(manifest()))
    (folder / "model.onnx").write_bytes(b"")
    chunk = os.urandom(MIB)
    for i in range(files):
        with (folder / f"{i:03}.bin").open("wb") as file:
            for _ in range(SIZE_MIB // files):
                file.write(chunk)
    with archive.open("wb") as out:
        pack_folder(folder, out, [KEY, STOCK])
    unpacked = root / "unpacked"
    with archive.open("rb", buffering=0) as source:
        unpack_seal(source, unpacked)
    return unpacked, archive


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _sha256(path: Path) -> None:
    sha, buffer = hashlib.sha256(), memoryview(bytearray(CHUNK))
    with path.open("rb", buffering=0) as file:
        while got := file.readinto(buffer):
            sha.update(buffer[:got])


def _against(name: str, verify: Callable[[], object], bare: Callable[[], object], goal: float) -> Figure:
    """Verification's speed as a share of bare hashing's."""
    ours, plain = interleave(ROUNDS, lambda: _seconds(verify), lambda: _seconds(bare))
    gib = SIZE_MIB / 1024
    return Figure(name, plain / ours, "ratio", goal, True, f"{gib / ours:.2f} against {gib / plain:.2f} GiB/s")


def verification() -> Iterator[Figure]:
    """One large file in an archive against SHA-256 of the archive."""
    with tempfile.TemporaryDirectory() as temporary:
        _, archive = _made(Path(temporary), 1)

        def verify() -> None:
            with archive.open("rb", buffering=0) as file:
                open_bundle(SealReader(file), POLICY, lambda _: Moment.current(), Discard())

        yield _against(f"verify {SIZE_MIB} MiB, one file / SHA-256", verify, lambda: _sha256(archive), 0.9)


def many_files() -> Iterator[Figure]:
    """Many files of a folder on all cores, against SHA-256 of the same files on all cores."""
    with tempfile.TemporaryDirectory() as temporary:
        folder, _ = _made(Path(temporary), MANY)
        files = [path for path in folder.iterdir() if path.is_file()]

        def verify(threads: int) -> None:
            open_bundle(FolderSource(folder), POLICY, lambda _: Moment.current(), Discard(), threads=threads)

        def hash_all(threads: int) -> None:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(_sha256, files))

        name = f"verify {SIZE_MIB} MiB, {MANY} files, {CORES} cores / SHA-256"
        yield _against(name, lambda: verify(CORES), lambda: hash_all(CORES), 0.9)
        one, all_cores, bare_one, bare_all = interleave(
            ROUNDS,
            lambda: _seconds(lambda: verify(1)),
            lambda: _seconds(lambda: verify(CORES)),
            lambda: _seconds(lambda: hash_all(1)),
            lambda: _seconds(lambda: hash_all(CORES)),
        )
        gained, possible = one / all_cores, bare_one / bare_all
        detail = f"{gained:.2f} times on {CORES} cores, bare hashing {possible:.2f} times"
        yield Figure("gain by cores / gain of bare hashing", gained / possible, "ratio", 0.9, True, detail)


def against_the_stock_tool() -> Iterator[Figure]:
    """The same tree, the same signature, both in fresh processes whose start is not counted."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        try:
            stock = StockTool(root / "venv")
        except NotInstallable as error:
            print(f"not measured: {error}", file=sys.stderr)
            return
        (root / "trust.toml").write_text(trust_text({"alice": KEY, "stock": STOCK}))
        (root / "stock.pub").write_text(STOCK.public.pem)
        for files in (1, MANY):
            tree = root / str(files)
            tree.mkdir()
            folder, _ = _made(tree, files)
            signature = folder / "signatures" / f"{STOCK.public.hint[:16]}.sig"
            theirs = [stock.python, "-c", _STOCK_VERIFIES, folder, signature, root / "stock.pub"]
            ours = [sys.executable, "-c", _WE_VERIFY, folder, root / "trust.toml", str(CORES)]
            us, them = interleave(3, lambda ours=ours: _said(ours), lambda theirs=theirs: _said(theirs))
            detail = f"{us:.2f} s against {them:.2f} s"
            name = f"model_signing / we, {SIZE_MIB} MiB in {files} file{'s' * (files > 1)}"
            yield Figure(name, them / us, "times", 3.0, True, detail)


def _said(command: list[object]) -> float:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return float(done.stdout)


def verdict() -> Iterator[Figure]:
    """A verdict by the last of 1,000 rules, under a policy of 1,000 keys."""
    keys = {f"key{i}": ed25519_key(f"key {i}") for i in range(1000)}
    rules = [{"models": [f"team{i}.*"], "keys": [f"key{i}"]} for i in range(999)]
    policy = trust(keys, *rules, {"models": ["acme.*"], "keys": ["key999"]})
    files = content()
    statement, parsed = statement_of(files), parse_manifest(files[MANIFEST])
    bundle_id, signers = Digest.of(statement.render()), (policy.keys["key999"],)
    moment = Moment(datetime(2027, 6, 1, tzinfo=UTC))

    def many() -> float:
        return _seconds(lambda: [judge(bundle_id, statement, signers, parsed, policy, moment) for _ in range(100)]) * 10

    (each,) = interleave(ROUNDS, many)
    assert judge(bundle_id, statement, signers, parsed, policy, moment).rule == 999
    yield Figure("verdict, 1,000 keys and rules", each, "ms", 1.0, False, "median of 5 times 100")


def receipt() -> Iterator[Figure]:
    """Making a receipt: two digests of bodies of 64 KiB and one signature."""
    digest, body = Digest.of(b""), bytes(64 << 10)
    head, now = Checkpoint("host.example", EMPTY_HEAD), datetime.now(UTC)

    def one() -> bytes:
        sha = Digest.of(body)
        return make_receipt(Receipt(digest, {"pre": digest}, sha, Digest.of(body), now, "standard", "", head), KEY)

    (each,) = interleave(ROUNDS, lambda: _seconds(lambda: [one() for _ in range(100)]) * 10)
    yield Figure("receipt over two bodies of 64 KiB", each, "ms", 1.0, False, "median of 5 times 100")


def receipt_at_a_host() -> Iterator[Figure]:
    """What a receipt adds to a request of one row, one after the other on one connection: thread and header too."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        (root / "mlp.onnx").write_bytes(mlp().data)
        with servers.host(root / "made", root / "mlp.onnx", "bench.mlp") as host, httpx.Client() as client:
            url, row = f"{host.url}/v2/models/bench.mlp/infer", bytes(4 * 128)
            plain = {"Authorization": f"Bearer {host.token}", "Inference-Header-Content-Length": "0"}
            asking = {**plain, "Sandseal-Receipt": "n"}

            def many(headers: dict[str, str]) -> float:
                return _seconds(lambda: [client.post(url, content=row, headers=headers) for _ in range(200)]) * 5

            assert "sandseal-receipt" in client.post(url, content=row, headers=asking).headers
            without, with_it = interleave(ROUNDS, lambda: many(plain), lambda: many(asking))
            detail = f"{with_it:.2f} ms with, {without:.2f} ms without"
            yield Figure("receipt, added to a request", with_it - without, "ms", 2.0, False, detail)


MEASURES = (
    Measure("verification", verification),
    Measure("many files", many_files),
    Measure("against model_signing", against_the_stock_tool),
    Measure("uploads", uploads),
    Measure("resumed", resumed),
    Measure("verdict", verdict),
    Measure("revocation", revocation),
    Measure("receipt", receipt),
    Measure("receipt at a host", receipt_at_a_host),
)
