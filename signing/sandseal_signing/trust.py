"""The trust policy: whose signatures count for which models, and what those models may use (sandseal.trust/1)."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sandseal_signing.digest import is_hex_digest
from sandseal_signing.errors import KeyInvalid, PolicyInvalid
from sandseal_signing.keys import PublicKey
from sandseal_signing.schema import Node
from sandseal_signing.stage import IMPORTS, MAX_MEMORY_MIB, MAX_TIME_MS

SCHEMA = "sandseal.trust/1"

MAX_BYTES = 1 << 20

_PATTERN = re.compile(r"[a-z0-9*][a-z0-9._*-]{0,127}\Z")
_KEY_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """An enrolled key: its name in the policy, the person or team who holds it, and until when it may sign."""

    name: str
    holder: str
    public: PublicKey
    not_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class MaxLimits:
    """The most that a rule lets a bundle ask for: MiB and milliseconds per plugin call, MiB of files in total."""

    memory_mib: int = 64
    time_ms: int = 1000
    total_mib: int = 4096


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may publish the models of these name patterns, how many holders must sign, and what they may use."""

    models: tuple[str, ...]
    keys: tuple[str, ...]
    threshold: int = 1
    max_limits: MaxLimits = MaxLimits()
    imports: tuple[str, ...] = ()
    domains: tuple[str, ...] = ("",)
    _names: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_names", re.compile("|".join(map(_translate, self.models))))

    def covers(self, model: str) -> bool:
        """Whether this rule speaks about the model."""
        return self._names.match(model) is not None


@dataclass(frozen=True, slots=True)
class Revoked:
    """What is refused whoever signed it: key fingerprints, bundle ids, blob digests, all in hex."""

    keys: frozenset[str] = frozenset()
    bundles: frozenset[str] = frozenset()
    blobs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Root:
    """Whose signatures may replace the policy over REST."""

    keys: tuple[str, ...]
    threshold: int


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """The operator's decision, all of it; there is no default policy.

    Args:
        serial: grows with every change.
        keys: enrolled keys by their name in the policy.
        rules: the first that covers a model decides; none means refused.
    """

    serial: int
    keys: Mapping[str, TrustedKey]
    rules: tuple[Rule, ...]
    revoked: Revoked = Revoked()
    root: Root | None = None

    @classmethod
    def parse(cls, text: str, read_key: Callable[[str], str]) -> "TrustPolicy":
        """Read a trust file.

        Args:
            text: TOML.
            read_key: returns the PEM text of a key file that the policy names, relative to itself.

        Raises:
            PolicyInvalid: the message names the place; nothing of the text takes effect.
        """
        root = Node(_parse_toml(text), "", PolicyInvalid)
        root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
        keys = _keys(root.child("keys"), read_key)
        policy = cls(
            serial=root.integer("serial", low=1),
            keys=keys,
            rules=tuple(_rule(node, keys) for node in root.children("rules", [])),
            revoked=_revoked(root.child("revoked", None)),
            root=_root(root.child("root", None), keys),
        )
        root.close()
        return policy

    @property
    def by_hint(self) -> dict[str, TrustedKey]:
        """The enrolled keys by the hint that signature files carry."""
        return {key.public.hint: key for key in self.keys.values()}

    def rule_for(self, model: str) -> tuple[int, Rule] | None:
        """The number (from 0) and the rule that decides about `model`, if one covers it."""
        return next(((i, rule) for i, rule in enumerate(self.rules) if rule.covers(model)), None)

    def holders(self, names: Iterable[str]) -> frozenset[str]:
        """The distinct holders of the named keys; thresholds count these, not keys."""
        return frozenset(self.keys[name].holder for name in names)

    def revokes(self, key: TrustedKey) -> bool:
        """Whether signatures by `key` count no more, whatever a rule says."""
        return key.public.fingerprint in self.revoked.keys


def _translate(pattern: str) -> str:
    """The regular expression of a name pattern; atomic groups, so that no name makes it try twice."""
    first, *middle = pattern.split("*")
    if not middle:
        return re.escape(first) + r"\Z"
    *inner, last = middle
    return re.escape(first) + "".join(f"(?>.*?{re.escape(part)})" for part in inner) + f".*{re.escape(last)}\\Z"


def _parse_toml(text: str) -> dict[str, Any]:
    if len(text) > MAX_BYTES:
        raise PolicyInvalid(f"the trust file has {len(text)} characters, over {MAX_BYTES}")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also an integer of too many digits
        raise PolicyInvalid(f"the trust file is not TOML: {error}") from None


def _keys(node: Node, read_key: Callable[[str], str]) -> dict[str, TrustedKey]:
    keys: dict[str, TrustedKey] = {}
    for name in node.rest():
        if not _KEY_NAME.match(name):
            node.fail(name, "must be named with 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'")
        key = _key(name, node.child(name), read_key)
        twin = next((other.name for other in keys.values() if other.public == key.public), None)
        if twin:
            node.fail(name, f"is the same key as {twin!r}; enrol it once")
        keys[name] = key
    return keys


def _key(name: str, node: Node, read_key: Callable[[str], str]) -> TrustedKey:
    key = TrustedKey(
        name=name,
        holder=node.text("holder", valid=lambda text: text.isprintable() and bool(text), rule="printable text"),
        public=_public(node, node.text("public"), read_key),
        not_after=_time(node, "not_after"),
    )
    node.close()
    return key


def _public(node: Node, source: str, read_key: Callable[[str], str]) -> PublicKey:
    """The key written inline or as PEM, else the one in the file named."""
    try:
        return PublicKey.parse(source if source.startswith(("ed25519:", "-----BEGIN")) else read_key(source))
    except KeyInvalid as error:
        node.fail("public", error.message)
    except (OSError, ValueError) as error:  # unreadable, or not text
        node.fail("public", f"cannot read {source!r}: {error}")


def _time(node: Node, name: str) -> datetime | None:
    moment = node.take(name, None)
    if moment is None:  # TOML has no null
        return None
    if not (isinstance(moment, datetime) and moment.tzinfo):
        node.fail(name, "must be a date and time with zone, such as 2027-12-31T00:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        node.fail(name, f"{moment} is not a time that exists in UTC")


def _rule(node: Node, keys: Mapping[str, TrustedKey]) -> Rule:
    limits = node.child("max_limits", None)
    rule = Rule(
        models=node.texts(
            "models", valid=_PATTERN.match, rule="model names, in which '*' stands for any text", least=1
        ),
        keys=_known(node, keys),
        threshold=node.integer("threshold", 1, low=1),
        max_limits=_max_limits(limits) if limits else MaxLimits(),
        imports=node.texts("imports", (), valid=IMPORTS.__contains__, rule=f"some of {', '.join(IMPORTS)}"),
        domains=node.texts("domains", ("",), valid=lambda text: len(text) <= 255, rule="ONNX operator domains"),
    )
    node.close()
    _check_threshold(node, rule.threshold, rule.keys, keys)
    return rule


def _max_limits(node: Node) -> MaxLimits:
    default = MaxLimits()
    limits = MaxLimits(
        memory_mib=node.integer("memory_mib", default.memory_mib, low=1, high=MAX_MEMORY_MIB),
        time_ms=node.integer("time_ms", default.time_ms, low=1, high=MAX_TIME_MS),
        total_mib=node.integer("total_mib", default.total_mib, low=1),
    )
    node.close()
    return limits


def _root(node: Node | None, keys: Mapping[str, TrustedKey]) -> Root | None:
    if node is None:
        return None
    root = Root(_known(node, keys), node.integer("threshold", low=1))
    node.close()
    _check_threshold(node, root.threshold, root.keys, keys)
    return root


def _known(node: Node, keys: Mapping[str, TrustedKey]) -> tuple[str, ...]:
    names: tuple[str, ...] = node.texts("keys", rule="names under [keys]", least=1)
    for name in names:
        if name not in keys:
            node.fail("keys", f"{name!r} is not enrolled under [keys]")
    return names


def _check_threshold(node: Node, threshold: int, names: tuple[str, ...], keys: Mapping[str, TrustedKey]) -> None:
    holders = len({keys[name].holder for name in names})
    if threshold > holders:
        node.fail("threshold", f"{threshold} can never be met: the keys have {holders} distinct holders")


def _revoked(node: Node | None) -> Revoked:
    if node is None:
        return Revoked()
    hex_digests = [
        node.texts(name, (), valid=is_hex_digest, rule="digests of 64 lower-case hex digits")
        for name in ("keys", "bundles", "blobs")
    ]
    node.close()
    return Revoked(*map(frozenset, hex_digests))
