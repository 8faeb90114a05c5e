"""The units of a chip and their queues: kinds, reserved words, what engines may do; said once.

A unit is named as its table in a chip file; the names of the engines are the chip's own. Each unit
has one queue of the same name, but for the DMA engine, which has several: ``dma0``, ``dma1``, ...
What the units are like is in `systolic.hw.spec`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

EngineName: TypeAlias = str
"""The name of an engine of a chip. (How the machine is simulated, by "event" or "register", is an
EngineKind.)"""
PATENT_ENGINES: tuple[EngineName, ...] = ("activation", "pooling")
"""The engines of a chip that lists none: the patent's."""

PatentCapability = Literal[
    "copy",
    "memset",
    "activate",
    "pool",
    "tensor_tensor",
    "tensor_scalar",
    "iota",
    "select",
    "requantise",
]
Capability = Literal[
    PatentCapability, "activate_reduce", "tensor_scalar_reduce", "scalar_tensor_tensor",
    "transpose", "shuffle", "scan", "copy_predicated", "select_reduce", "range_select",
    "bn_stats", "bn_aggr", "max8", "partition_reduce", "dropout", "find_index8", "match_replace8",
    "copy_dynamic_src", "copy_dynamic_dst", "local_gather", "topk", "quantize_mx",
]  # fmt: skip
"""What an engine may do: an instruction, by its mnemonic in the table of instructions."""
PATENT_CAPABILITIES: tuple[PatentCapability, ...] = get_args(PatentCapability)
"""The instructions that the patent's two engines do between them: the patent's, and
`requantise`. A chip file must say which engine executes the others."""
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

BufferName = Literal["state_buffer", "result_buffer"]
BUFFERS: tuple[BufferName, ...] = get_args(BufferName)
"""The memories that an engine may reach."""

QueueKind = Literal["array", "engine", "dma"]
RESERVED = (
    "pe_array", "dma", "dram", "moving", "weights", "state_buffer", "result_buffer", "issue",
    "fetch",
)  # fmt: skip
"""Words that stand for something else where the name of an engine may stand."""
_ENGINE_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_DMA_QUEUE = re.compile(r"dma[0-9]+")


def name_fault(name: str) -> str:
    """Return what keeps a word from being the name of an engine; "" if nothing does."""
    if not _ENGINE_NAME.fullmatch(name):
        return (
            "the name of an engine has 1 to 32 of the characters a to z, 0 to 9 and _, "
            "and begins with a letter"
        )
    if name in RESERVED or _DMA_QUEUE.fullmatch(name):
        return f"an engine cannot have a name in use: {', '.join(RESERVED)}, dma0, dma1, ..."
    return ""


def units_of(engines: Iterable[EngineName]) -> tuple[str, ...]:
    """Return the units with a clock and queues, in the order of the reports."""
    return ("pe_array", *engines, "dma")


def clients_of(engines: Iterable[EngineName]) -> tuple[str, ...]:
    """Return the clients of the memory ports: the array is two, for moving operands and weights."""
    return ("moving", "weights", *engines, "dma")


CLIENTS = clients_of(PATENT_ENGINES)


def dma_queue(number: int) -> str:
    """Return the name of a DMA queue, ``dma3``."""
    return f"dma{number}"


def queue_names(engines: Iterable[EngineName], dma_queues: int) -> tuple[str, ...]:
    """Return the names of all queues of a chip with that many DMA queues, in reports' order."""
    return ("pe_array", *engines, *(dma_queue(q) for q in range(dma_queues)))


def unit_of(queue: str) -> str:
    """Return the unit a queue belongs to: ``dma`` for ``dma3``."""
    return "dma" if _DMA_QUEUE.fullmatch(queue) else queue


def kind_of(queue: str) -> QueueKind:
    """Return what kind of queue it is; what is neither the array's nor DMA's is an engine's."""
    if queue == "pe_array":
        return "array"
    return "dma" if unit_of(queue) == "dma" else "engine"
