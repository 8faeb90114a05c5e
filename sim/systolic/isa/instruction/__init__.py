"""The instruction set: a module for the instructions of each kind of unit.

Nothing here acts; units in `systolic.machine` do. Every instruction belongs to one queue. It starts
when its waits are satisfied (the count of posts visible on a semaphore has reached a value) and its
unit can take it; queues are in order.
"""

from __future__ import annotations

from typing import TypeAlias

from systolic.hw.functions import ActivationFunction, AluOperation, Fold, Reduction, Relation
from systolic.hw.units import EngineName
from systolic.isa.instruction.on_array import (
    LoadDoubleRow,
    LoadMx,
    LoadTile,
    LoadWeights,
    MatMul,
    MatMulDoubleRow,
    MatMulMx,
    MatMulTile,
    PassThrough,
)
from systolic.isa.instruction.on_dma import DmaCopy, DmaMove, DmaTranspose
from systolic.isa.instruction.on_engine import (
    Activate,
    ActivateReduce,
    BnAggr,
    BnStats,
    Copy,
    CopyDynamicDst,
    CopyDynamicSrc,
    CopyPredicated,
    Dropout,
    FindIndex8,
    Iota,
    LocalGather,
    MatchReplace8,
    Max8,
    Memset,
    OnEngine,
    PartitionReduce,
    Pool,
    QuantizeMx,
    RangeSelect,
    Requantise,
    ScalarTensorTensor,
    Scan,
    Select,
    SelectReduce,
    Shuffle,
    TensorScalar,
    TensorScalarReduce,
    TensorTensor,
    TopK,
    Transpose,
)
from systolic.isa.instruction.on_processor import Command
from systolic.isa.instruction.posts import Event, Post, RemotePost, Wait

__all__ = [
    "Activate", "ActivateReduce", "ActivationFunction", "AluOperation", "BnAggr", "BnStats",
    "Command", "Copy", "CopyDynamicDst", "CopyDynamicSrc", "CopyPredicated", "DmaCopy",
    "DmaMove", "DmaTranspose", "Dropout", "EngineName", "Event", "FindIndex8", "Fold",
    "Instruction", "Iota", "LoadDoubleRow", "LoadMx", "LoadTile", "LoadWeights", "LocalGather",
    "MatMul", "MatMulDoubleRow", "MatMulMx", "MatMulTile", "MatchReplace8", "Max8", "Memset",
    "OnEngine", "PartitionReduce", "PassThrough", "Pool", "Post", "QuantizeMx", "RangeSelect",
    "Reduction", "Relation", "RemotePost", "Requantise", "ScalarTensorTensor", "Scan", "Select",
    "SelectReduce", "Shuffle", "TensorScalar", "TensorScalarReduce", "TensorTensor", "TopK",
    "Transpose", "Wait",
]  # fmt: skip

Instruction: TypeAlias = LoadWeights | MatMul | OnEngine | DmaCopy | Command
