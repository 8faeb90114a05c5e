"""The compiler's name for what a user may choose; `systolic.workload.options` defines it."""

from systolic.workload.options import Options

__all__ = ["Options"]
