"""The compiler's name for the user's choices, which `systolic.workload.options` defines."""

from systolic.workload.options import Options

__all__ = ["Options"]
