"""Hypothesis: the same examples in every run, so that a red test is the change's doing.

`HYPOTHESIS_PROFILE=explore` draws new ones; what it finds becomes a test of its own.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
