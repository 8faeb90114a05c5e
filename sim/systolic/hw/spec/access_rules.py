"""What a chip file says of the accesses that its array and its engines can make.

DMA copies obey none of this: a descriptor names any bytes.
"""

from __future__ import annotations

from functools import cached_property

from pydantic import Field, field_validator

from systolic.hw.spec.base import Count, Side, Spec

Pairs = tuple[tuple[int, int], ...]


class StartRule(Spec):
    """Where an access may begin, by the number of partitions that it takes."""

    partitions: Side = Field(
        description="the rule is for accesses that take at most this number of partitions"
    )
    starts: tuple[int, ...] = Field(
        strict=False, description="numbers of the partitions at which such an access may begin"
    )

    @field_validator("starts")
    @classmethod
    def _somewhere(cls, starts: tuple[int, ...]) -> tuple[int, ...]:
        if not starts or min(starts) < 0:
            raise ValueError("needs at least one partition, from 0 on")
        return starts


class AccessRules(Spec):
    """What an access of the array or of an engine must be; the default is anything."""

    start: tuple[StartRule, ...] = Field(
        default=(),
        strict=False,
        description="where accesses may begin: the first that has room for an access holds "
        "(default: anywhere)",
    )
    max_count: Count | None = Field(
        default=None, description="largest count of a pair of a pattern (default: any)"
    )
    max_step: Count | None = Field(
        default=None, description="largest step, and -1 less the least (default: any)"
    )

    @cached_property
    def are_none(self) -> bool:
        """Return whether they allow everything."""
        return self == AccessRules()

    def fault(self, first: int, partitions: int, pattern: Pairs) -> str:
        """Return what is wrong with an access of partitions from `first` on; "" if nothing is."""
        fitting = (rule.starts for rule in self.start if partitions <= rule.partitions)
        starts = next(fitting, None)
        if starts is not None and first not in starts:
            where = " or ".join(map(str, starts))
            return f"{partitions} partitions begin at partition {where} here, found {first}"
        return self.pattern_fault(pattern)

    def pattern_fault(self, pattern: Pairs) -> str:
        """Return what is wrong with the pairs of an access; "" if nothing is."""
        for step, count in pattern:
            if self.max_count is not None and count > self.max_count:
                return f"a count is at most {self.max_count} here, found {count}"
            if self.max_step is not None and not -self.max_step - 1 <= step <= self.max_step:
                return f"a step is {-self.max_step - 1} to {self.max_step} here, found {step}"
        return ""
