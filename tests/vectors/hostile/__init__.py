"""The hostile corpus: each case by name; what must be said of each is in ../expected.json."""

from vectors.hostile import archives, envelopes, folders, foreign, permits, points, policies, statements
from vectors.hostile.case import Case

PLACES = (archives, envelopes, statements, policies, points, folders, foreign, permits)


def corpus() -> dict[str, Case]:
    """Every case that needs the signing package only.

    Raises:
        ValueError: a name stands twice.
    """
    found: dict[str, Case] = {}
    for place in PLACES:
        for name, case in place.cases():
            if name in found:
                raise ValueError(f"two cases are called {name!r}")
            found[name] = case
    return found
