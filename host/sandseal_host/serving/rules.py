"""How each model is batched and queued: what its bundle is signed for, within what the operator says."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sandseal_host.errors import SettingsInvalid
from sandseal_host.optimisation import Optimisation
from sandseal_host.serving.generation.settings import GenerationSettings
from sandseal_host.serving.request import ServiceClass
from sandseal_host.serving.scheduler_settings import SchedulerSettings
from sandseal_host.serving.versions import VersionPolicy
from sandseal_host.settings import Settings
from sandseal_signing.manifest import Manifest
from sandseal_signing.schema import MAX_INTEGER, Node
from sandseal_signing.variants import Precision

_MAX_SECONDS = 86_400
_MAX_WEIGHT = 1_000_000
_LEAST = 1e-6  # of seconds and weights: others are divided by them


@dataclass(frozen=True, slots=True)
class _Rule:
    """What holds for the models of these names."""

    names: tuple[str, ...]
    settings: SchedulerSettings
    versions: VersionPolicy
    precision: Precision | None
    optimisation: Optimisation
    generation: GenerationSettings


class ServingRules:
    """The operator's settings for all models, and the serving file's for some of them.

    Args:
        settings: hold where the file says nothing.
        text: of the serving file, TOML; host/README.md shows a complete one.

    Raises:
        SettingsInvalid: the message names the place.
    """

    def __init__(self, settings: Settings, text: str = "") -> None:
        root = Node(_parse(text), "serving", SettingsInvalid)
        default = _settings(
            root,
            SchedulerSettings(
                max_rows=settings.max_rows or MAX_INTEGER,
                max_delay_s=float("inf") if settings.max_delay_us is None else settings.max_delay_us / 1e6,
                instances=settings.instances,
                max_requests=settings.max_queue,
            ),
        )
        generation = GenerationSettings(
            slots=settings.slots,
            context=settings.max_context,
            chunk=settings.prefill_tokens,
            host_bytes=settings.kv_host_mib << 20,
            read_s=settings.slow_s,
        )
        self._default = _Rule(
            ("*",),
            default,
            _versions(root, VersionPolicy()),
            _precision(root, None),
            _optimisation(root, Optimisation.ALL),
            _generation(root, generation),
        )
        self._rules = [_rule(node, self._default) for node in root.children("models", [])]
        root.close()

    @classmethod
    def read(cls, settings: Settings) -> "ServingRules":
        """The rules with the serving file, if the settings name one.

        Raises:
            SettingsInvalid: it cannot be read, or is not valid.
        """
        path = settings.serving
        return cls(settings, "" if path is None else _read(path))

    def of(self, manifest: Manifest) -> SchedulerSettings:
        """A model's settings: the first rule that covers its name, tightened to what its bundle is signed for."""
        rule, signed = self._rule(manifest.name).settings, manifest.model.batching
        return replace(
            rule,
            max_rows=min(rule.max_rows, signed.max_rows),
            max_delay_s=min(rule.max_delay_s, signed.max_delay_us / 1e6),
        )

    def generation(self, name: str, context: int) -> GenerationSettings:
        """The settings of a model that generates text.

        Args:
            name: of the model.
            context: that its bundle is signed for.
        """
        rule = self._rule(name)
        queue = replace(rule.settings, max_delay_s=0.0)  # a step waits for nobody
        return replace(rule.generation, context=min(rule.generation.context, context), queue=queue)

    def versions(self, name: str) -> VersionPolicy:
        """Which versions of a model serve side by side."""
        return self._rule(name).versions

    def precision(self, name: str) -> Precision | None:
        """The coarsest precision in which a model may be served; None for any."""
        return self._rule(name).precision

    def optimisation(self, name: str) -> Optimisation:
        """How far the graphs of a model that generates no text are changed before they run."""
        return self._rule(name).optimisation

    def _rule(self, name: str) -> _Rule:
        covering = (rule for rule in self._rules if any(fnmatchcase(name, pattern) for pattern in rule.names))
        return next(covering, self._default)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"cannot read the serving file {path}: {error}", hint="see SANDSEAL_SERVING") from None


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsInvalid(f"the serving file is not TOML: {error}") from None


def _rule(node: Node, default: _Rule) -> _Rule:
    names = node.texts("names", rule="model names, in which '*' stands for any text", least=1)
    rule = _Rule(
        names,
        _settings(node, default.settings),
        _versions(node, default.versions),
        _precision(node, default.precision),
        _optimisation(node, default.optimisation),
        _generation(node, default.generation),
    )
    node.close()
    return rule


def _versions(node: Node, default: VersionPolicy) -> VersionPolicy:
    if not node.has("versions"):
        return default
    versions = node.take("versions")
    if versions == "all":
        return VersionPolicy(None)
    numbers = versions if isinstance(versions, list) else [versions]
    if not numbers or any(type(number) is not int or number < 1 for number in numbers):
        node.fail("versions", 'must be "all", how many of the latest (at least 1), or a list of version numbers')
    return VersionPolicy(None, frozenset(numbers)) if numbers is versions else VersionPolicy(versions)


def _precision(node: Node, default: Precision | None) -> Precision | None:
    rule = f"one of {', '.join(Precision)}"
    text = node.text("precision", None, valid=Precision.__members__.__contains__, rule=rule)
    return default if text is None else Precision(text)


def _optimisation(node: Node, default: Optimisation) -> Optimisation:
    rule = f"one of {', '.join(Optimisation)}"
    return Optimisation(node.text("optimisation", default, valid=[*Optimisation].__contains__, rule=rule))


def _generation(node: Node, base: GenerationSettings) -> GenerationSettings:
    return replace(
        base,
        slots=node.integer("slots", base.slots, low=1, high=256),
        context=node.integer("max_context", base.context, low=2),
    )


def _settings(node: Node, base: SchedulerSettings) -> SchedulerSettings:
    """What a table says, on top of `base`."""
    delay_us = node.integer("max_delay_us", None)
    settings = replace(
        base,
        instances=node.integer("instances", base.instances, low=1, high=64),
        max_rows=node.integer("max_rows", base.max_rows, low=1),
        max_delay_s=base.max_delay_s if delay_us is None else delay_us / 1e6,
        max_requests=node.integer("max_queue", base.max_requests, low=1),
        max_queued_rows=node.integer("max_queue_rows", base.max_queued_rows, low=1),
        weights={**base.weights, **_weights(node.child("weights", None))},
        classes=_classes(node.child("classes", None), base.classes),
    )
    reserved = sum(service_class.reserved for service_class in settings.classes.values())
    if reserved >= settings.instances:
        node.fail("classes", f"reserve {reserved} of {settings.instances} instances; one at least must be for all")
    return settings


def _weights(node: Node | None) -> dict[str, float]:
    return {} if node is None else {tenant: _number(node, tenant, 1.0, _MAX_WEIGHT) for tenant in node.rest()}


def _classes(node: Node | None, base: Mapping[str, ServiceClass]) -> Mapping[str, ServiceClass]:
    if node is None:
        return base
    classes = {name: _class(node.child(name, None), service_class) for name, service_class in base.items()}
    node.close()
    return classes


def _class(node: Node | None, base: ServiceClass) -> ServiceClass:
    if node is None:
        return base
    changed = replace(
        base,
        target_s=_number(node, "target_s", base.target_s, _MAX_SECONDS),
        expires_s=_number(node, "expires_s", base.expires_s, _MAX_SECONDS),
        reserved=node.integer("reserved", base.reserved, high=63),
        max_requests=node.integer("max_queue", base.max_requests, low=1),
    )
    node.close()
    return changed


def _number(node: Node, name: str, default: float, high: int) -> float:
    value = node.take(name, default)
    if type(value) not in (int, float) or not _LEAST <= value <= high:
        node.fail(name, f"must be a number from {_LEAST} to {high}, not {value!r}")
    return float(value)
