"""The error of a verifier: a pass has broken a rule that the next pass relies on.

It is a fault of the compiler, never of the user. So it is no SystolicError: code that catches
errors about a user's work cannot hide it.
"""

from __future__ import annotations

from typing import Literal

PassName = Literal["lower", "tile", "place", "schedule", "sync"]


class BrokenPassError(AssertionError):
    """Names the pass whose result is broken, and the rule."""

    def __init__(self, pass_name: PassName, message: str) -> None:
        super().__init__(f"compiler pass {pass_name}: {message}")
        self.pass_name = pass_name
