"""Convolution along three axes, such as the frames of a film: a sum over the boxes of a window.

Source [images, depth, height, width, channels], weights [depth, height, width, channels of a group,
filters]. The planes of a window lie side by side as further channels of a `conv2d`.
"""

from __future__ import annotations

from systolic.workload.operations.conv1d import conv_row

CONV3D = conv_row("conv3d", "depth, height, width")
