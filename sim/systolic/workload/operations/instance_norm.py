"""Instance norm: a `group_norm` in which each channel of each image is a group of its own."""

from __future__ import annotations

from systolic.workload.operations.channel_norms import ChannelNormAttributes
from systolic.workload.operations.group_norm import group_row

INSTANCE_NORM = group_row(ChannelNormAttributes)
