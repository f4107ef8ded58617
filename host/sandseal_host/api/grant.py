"""Who may do what: the scopes of a token."""

from dataclasses import dataclass

from sandseal_host.api.pace import Pace
from sandseal_host.errors import ModelUnknown, NotPermitted
from sandseal_host.registry.tokens import UNLIMITED, Rate, Scope
from sandseal_host.serving.request import REALTIME, ServiceClass, covers


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token entitles its bearer to.

    Args:
        name: what its operator calls it; in logs, never the secret.
        scopes: what it may do.
        tenant: whose share of the host it uses.
        models: pattern of the model names that it may see (`*` and `?` as in a shell).
        id: the token's, which no other has; what it offers is found by it.
        ceiling: the most urgent class that its requests get.
        rate: how much inference it may ask for.
        pace: what its requests count on, and its tenant's; None where nothing limits them.
    """

    name: str
    scopes: frozenset[Scope]
    tenant: str = "default"
    models: str = "*"
    id: str = ""
    ceiling: ServiceClass = REALTIME
    rate: Rate = UNLIMITED
    pace: Pace | None = None

    def lower(self, wanted: ServiceClass) -> ServiceClass:
        """The class that a request gets which wants this one: no more urgent than the ceiling."""
        return wanted if wanted.level >= self.ceiling.level else self.ceiling

    def sees(self, model: str) -> bool:
        """Whether the bearer may know of that model."""
        return covers(self.models, model)

    def need(self, *scopes: Scope) -> None:
        """Check that the grant has one of the scopes.

        Raises:
            NotPermitted: it has none of them.
        """
        if self.scopes.isdisjoint(scopes):
            raise NotPermitted(
                f"this needs the scope {' or '.join(scopes)}; the token {self.name!r} has {sorted(self.scopes)}",
                needed=list(scopes),
            )

    def need_model(self, model: str) -> None:
        """Check that the grant sees a model.

        Raises:
            ModelUnknown: it does not; the answer is that of a model that does not exist.
        """
        if not self.sees(model):
            raise ModelUnknown(f"there is no model {model[:128]!r}", model=model[:128])

    def need_all_models(self) -> None:
        """Check that the grant sees every model, as what is asked for is about all of them.

        Raises:
            NotPermitted: it does not.
        """
        if self.models != "*":
            raise NotPermitted(
                f"this is about all models; the token {self.name!r} reaches {self.models!r} only",
                hint="use a token for all models",
            )


ANONYMOUS = Grant("anonymous", frozenset({Scope.INFER}), tenant="anonymous")
