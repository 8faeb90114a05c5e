// The number format of the array: product and sum of a PE, chosen by the module's FLOAT and WIDTH.
//
// Is:     8-bit integers with a wrapping 32-bit sum, or binary32 with two roundings (fp32.vh).
// Is not: a module; include it in the body of one that has the two parameters.

`include "fp32.vh"

    function [31:0] number_multiply;
        input signed [WIDTH-1:0] a;
        input signed [WIDTH-1:0] b;
        reg signed [31:0] wide_a;
        reg signed [31:0] wide_b;
        begin
            wide_a = a;
            wide_b = b;
            number_multiply = FLOAT ? fp32_multiply(wide_a, wide_b) : wide_a * wide_b;
        end
    endfunction

    function [31:0] number_add;
        input [31:0] a;
        input [31:0] b;
        begin
            number_add = FLOAT ? fp32_add(a, b) : a + b;
        end
    endfunction
