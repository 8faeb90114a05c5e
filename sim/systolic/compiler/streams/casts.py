"""Casts between the steps of a kernel that need no step of their own.

An engine takes floats of any type to float32, and rounds its result to the type that it writes. So
a step may take the narrower numbers themselves, and write narrower ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from systolic.compiler.streams.work import KernelStep
from systolic.hw.datatypes import data_type
from systolic.isa import Copy, CopyPredicated


def without_casts(types: Sequence[str], steps: Sequence[KernelStep]) -> list[KernelStep]:
    """Return the steps of a kernel without casts that another step does on its way.

    types: of the kernel's inputs. The result of the last step stays the last.
    """
    found: list[KernelStep] = []
    instead = list(range(len(types)))  # the operand that stands for each
    known = list(types)
    inputs, uses = len(types), Counter(n for step in steps for n in step.operands)
    keeping = {n for step in steps if step.lane.cls is CopyPredicated for n in step.operands}
    for at, step in enumerate(steps):
        operands = tuple(instead[n] for n in step.operands)
        made, is_last = inputs + at, at == len(steps) - 1
        source = operands[0]
        if step.lane.cls is Copy and _is_float(step.dtype) and _is_float(known[source]):
            if step.dtype == "f32" and not is_last and made not in keeping:
                instead.append(source)
                continue
            maker = source - inputs
            alone = uses[step.operands[0]] == 1 and instead[step.operands[0]] == source
            if maker >= 0 and alone and maker == len(found) - 1 and _rounds(found[maker]):
                found[maker] = replace(found[maker], dtype=step.dtype)
                known[source] = step.dtype
                instead.append(source)
                continue
        found.append(replace(step, operands=operands))
        known.append(step.dtype)
        instead.append(inputs + len(found) - 1)
    return found


def _rounds(step: KernelStep) -> bool:
    """Return whether a step makes float32 of its own, which its engine rounds when it writes."""
    return step.dtype == "f32" and step.lane.cls not in (Copy, CopyPredicated)


def _is_float(dtype: str) -> bool:
    return data_type(dtype).accumulator == "f32"
