"""Settings every test shares."""

from hypothesis import HealthCheck, settings

# Deterministic examples; no time limit, since a first call compiles.
settings.register_profile("suite", derandomize=True, deadline=None, database=None, max_examples=60)

# For `make fuzz`: other examples in every run, and many of them.
settings.register_profile(
    "fuzz",
    max_examples=5000,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("suite")
