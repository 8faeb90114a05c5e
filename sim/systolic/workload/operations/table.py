"""The table of operations: a row for each name with its operands and its meaning in numpy.

A further operation is one file here with its row, one line below, and one row in
`systolic.compiler.lower.table`. Run files and their schema take its keys from its attributes.
"""

from __future__ import annotations

from systolic.workload.operations.activation import ACTIVATION
from systolic.workload.operations.argmax import ARGMAX
from systolic.workload.operations.argmin import ARGMIN
from systolic.workload.operations.batch_norm import BATCH_NORM
from systolic.workload.operations.binary import BINARY
from systolic.workload.operations.cast import CAST
from systolic.workload.operations.causal_mask import CAUSAL_MASK
from systolic.workload.operations.celu import CELU
from systolic.workload.operations.clip import CLIP
from systolic.workload.operations.concat import CONCAT
from systolic.workload.operations.constant import CONSTANT
from systolic.workload.operations.conv1d import CONV1D
from systolic.workload.operations.conv2d import CONV2D
from systolic.workload.operations.conv3d import CONV3D
from systolic.workload.operations.conv_input_gradient import CONV_INPUT_GRADIENT
from systolic.workload.operations.conv_integer import CONV_INTEGER
from systolic.workload.operations.conv_transpose import CONV_TRANSPOSE
from systolic.workload.operations.conv_weight_gradient import CONV_WEIGHT_GRADIENT
from systolic.workload.operations.cumulative import CUMULATIVE
from systolic.workload.operations.depth_to_space import DEPTH_TO_SPACE
from systolic.workload.operations.dot import DOT
from systolic.workload.operations.dynamic_scatter import DYNAMIC_SCATTER
from systolic.workload.operations.dynamic_slice import DYNAMIC_SLICE
from systolic.workload.operations.dynamic_update_slice import DYNAMIC_UPDATE_SLICE
from systolic.workload.operations.elu import ELU
from systolic.workload.operations.expand import EXPAND
from systolic.workload.operations.gather import GATHER
from systolic.workload.operations.group_norm import GROUP_NORM
from systolic.workload.operations.gru import GRU
from systolic.workload.operations.hard_sigmoid import HARD_SIGMOID
from systolic.workload.operations.instance_norm import INSTANCE_NORM
from systolic.workload.operations.iota import IOTA
from systolic.workload.operations.layer_norm import LAYER_NORM
from systolic.workload.operations.leaky_relu import LEAKY_RELU
from systolic.workload.operations.lstm import LSTM
from systolic.workload.operations.matmul import MATMUL
from systolic.workload.operations.matmul_integer import MATMUL_INTEGER
from systolic.workload.operations.pad import PAD
from systolic.workload.operations.pool import POOL
from systolic.workload.operations.popcount import POPCOUNT
from systolic.workload.operations.prelu import PRELU
from systolic.workload.operations.reduce import REDUCE
from systolic.workload.operations.reduce_measure import REDUCE_MEASURE
from systolic.workload.operations.reduce_window import REDUCE_WINDOW
from systolic.workload.operations.relayout import RELAYOUT
from systolic.workload.operations.requantise import REQUANTISE
from systolic.workload.operations.reshape import RESHAPE
from systolic.workload.operations.resize import RESIZE
from systolic.workload.operations.reverse import REVERSE
from systolic.workload.operations.rms_norm import RMS_NORM
from systolic.workload.operations.row import AnyRow
from systolic.workload.operations.scatter import SCATTER
from systolic.workload.operations.select import SELECT
from systolic.workload.operations.slice import SLICE
from systolic.workload.operations.softmax import SOFTMAX
from systolic.workload.operations.space_to_depth import SPACE_TO_DEPTH
from systolic.workload.operations.take import TAKE
from systolic.workload.operations.tensor_scalar import TENSOR_SCALAR
from systolic.workload.operations.tile import TILE
from systolic.workload.operations.top_k import TOP_K
from systolic.workload.operations.transpose import TRANSPOSE

OPERATIONS: dict[str, AnyRow] = {
    "transpose": TRANSPOSE,
    "matmul": MATMUL,
    "dot": DOT,
    "conv2d": CONV2D,
    "conv1d": CONV1D,
    "conv3d": CONV3D,
    "conv_transpose": CONV_TRANSPOSE,
    "conv_input_gradient": CONV_INPUT_GRADIENT,
    "conv_weight_gradient": CONV_WEIGHT_GRADIENT,
    "relayout": RELAYOUT,
    "reshape": RESHAPE,
    "cast": CAST,
    "activation": ACTIVATION,
    "binary": BINARY,
    "tensor_scalar": TENSOR_SCALAR,
    "select": SELECT,
    "reduce": REDUCE,
    "pool": POOL,
    "reduce_window": REDUCE_WINDOW,
    "resize": RESIZE,
    "slice": SLICE,
    "concat": CONCAT,
    "pad": PAD,
    "take": TAKE,
    "reverse": REVERSE,
    "tile": TILE,
    "expand": EXPAND,
    "iota": IOTA,
    "constant": CONSTANT,
    "causal_mask": CAUSAL_MASK,
    "softmax": SOFTMAX,
    "layer_norm": LAYER_NORM,
    "rms_norm": RMS_NORM,
    "batch_norm": BATCH_NORM,
    "instance_norm": INSTANCE_NORM,
    "group_norm": GROUP_NORM,
    "clip": CLIP,
    "leaky_relu": LEAKY_RELU,
    "prelu": PRELU,
    "elu": ELU,
    "celu": CELU,
    "hard_sigmoid": HARD_SIGMOID,
    "popcount": POPCOUNT,
    "requantise": REQUANTISE,
    "matmul_integer": MATMUL_INTEGER,
    "conv_integer": CONV_INTEGER,
    "cumulative": CUMULATIVE,
    "argmax": ARGMAX,
    "argmin": ARGMIN,
    "top_k": TOP_K,
    "reduce_measure": REDUCE_MEASURE,
    "scatter": SCATTER,
    "dynamic_scatter": DYNAMIC_SCATTER,
    "gather": GATHER,
    "dynamic_slice": DYNAMIC_SLICE,
    "dynamic_update_slice": DYNAMIC_UPDATE_SLICE,
    "depth_to_space": DEPTH_TO_SPACE,
    "space_to_depth": SPACE_TO_DEPTH,
    "lstm": LSTM,
    "gru": GRU,
}
