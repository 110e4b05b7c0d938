"""Settings every test shares."""

from hypothesis import settings

# Deterministic examples; no time limit, since a first call compiles.
settings.register_profile("suite", derandomize=True, deadline=None, database=None, max_examples=60)
settings.load_profile("suite")
