// The multiply-add of a PE as an expression: 8-bit integers, or float32 with two roundings.
//
// Float written in Verilog is dozens of operations on bits; mac_float32 (arithmetic.h) is two of
// the host's, called from Verilog by Verilator's $c: the fastest form there is.
`ifdef FLOAT32
`define MAC(above, moving, weight, valid) \
    $c32("mac_float32(", above, ",", moving, ",", weight, ",", valid, ")")
`else
`define MAC(above, moving, weight, valid) \
    ($signed(above) + $signed(moving) * $signed(weight))
`endif
