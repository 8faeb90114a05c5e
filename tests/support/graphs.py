"""Run files of small graphs that several tests run."""

TWO_OUTPUTS = """\
chip = "ideal_4x4"
[workload.tensors.x]
shape = "f32[2,4]"
[workload.tensors.w]
shape = "f32[4,4]"
[workload.tensors.v]
shape = "f32[4,6]"
[[workload.ops]]
op = "matmul"
name = "a"
inputs = ["x", "w"]
out = "f32[2,4]"
[[workload.ops]]
op = "matmul"
name = "b"
inputs = ["x", "v"]
out = "f32[2,6]"
"""
