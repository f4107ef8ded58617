"""What holds for every test.

Hypothesis draws the same examples each time, so that what fails was broken by what was changed; with
`--hypothesis-profile random` it looks further.
"""

from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings

settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", settings.get_profile("random"), derandomize=True)
settings.load_profile("steady")

# Five seconds are not enough for every answer of a busy machine.
for _of in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _of, 60.0)
