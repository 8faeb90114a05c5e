// IEEE 754 binary32 multiplication and addition, one rounding each (to nearest, ties to even).
//
// Is:     a behavioural model of the two arithmetic units of a PE, as functions to be included in
//         the body of a module. Subnormals are kept on both sides; every NaN result is 7fc00000.
// Is not: a fused multiply-add, nor a gate-level unit: shifts by variable amounts are written as
//         shifts. test_rtl_fp32.py proves both functions against numpy under both simulators.

localparam [31:0] FP32_NAN = 32'h7fc00000;

// Round magnitude * 2**(scale - 150) to binary32; scale 1 is where the subnormals live.
function [31:0] fp32_round;
    input               negative;
    input signed [31:0] scale;
    input        [51:0] magnitude;
    reg   signed [31:0] drop;      // low bits that do not fit
    reg   signed [31:0] exponent;  // biased, 1 for subnormals
    reg          [51:0] rest;
    reg          [51:0] half;
    reg          [24:0] kept;
    integer             top;
    begin
        top = 0;
        if (magnitude[51:32] != 0) top = 32;
        if ((magnitude >> (top + 16)) != 0) top = top + 16;
        if ((magnitude >> (top + 8)) != 0) top = top + 8;
        if ((magnitude >> (top + 4)) != 0) top = top + 4;
        if ((magnitude >> (top + 2)) != 0) top = top + 2;
        if ((magnitude >> (top + 1)) != 0) top = top + 1;
        drop = top - 23;
        if (drop < 1 - scale) drop = 1 - scale;
        exponent = scale + drop;
        if (drop > 52) drop = 52;
        if (drop <= 0) begin
            rest = magnitude << (-drop);
            kept = rest[24:0];
        end else begin
            rest = magnitude >> drop;
            kept = rest[24:0];
            half = 52'd1 << (drop - 1);
            rest = magnitude & ((half << 1) - 52'd1);
            if (rest > half || (rest == half && kept[0])) kept = kept + 25'd1;
        end
        if (kept[24]) begin
            kept = kept >> 1;
            exponent = exponent + 1;
        end
        if (exponent >= 255) fp32_round = {negative, 8'hff, 23'd0};
        else if (!kept[23]) fp32_round = {negative, 8'd0, kept[22:0]};
        else fp32_round = {negative, exponent[7:0], kept[22:0]};
    end
endfunction

function [31:0] fp32_multiply;
    input [31:0] a;
    input [31:0] b;
    reg          negative;
    reg   [47:0] product;
    reg signed [31:0] scale;
    begin
        negative = a[31] ^ b[31];
        product = {24'd0, a[30:23] != 0, a[22:0]} * {24'd0, b[30:23] != 0, b[22:0]};
        scale = {24'd0, a[30:23]} + {24'd0, b[30:23]} - 150;
        if (a[30:23] == 0) scale = scale + 1;
        if (b[30:23] == 0) scale = scale + 1;
        if (a[30:23] == 8'hff || b[30:23] == 8'hff) begin
            if ((a[30:23] == 8'hff && a[22:0] != 0) || (b[30:23] == 8'hff && b[22:0] != 0)
                || a[30:0] == 0 || b[30:0] == 0)
                fp32_multiply = FP32_NAN;
            else fp32_multiply = {negative, 8'hff, 23'd0};
        end else if (product == 0) fp32_multiply = {negative, 31'd0};
        else fp32_multiply = fp32_round(negative, scale, {4'd0, product});
    end
endfunction

function [31:0] fp32_add;
    input [31:0] a;
    input [31:0] b;
    reg   [31:0] big;
    reg   [31:0] small_;
    reg   [51:0] left;
    reg   [51:0] right;
    reg signed [31:0] scale;
    reg signed [31:0] distance;
    begin
        big = (a[30:0] >= b[30:0]) ? a : b;
        small_ = (a[30:0] >= b[30:0]) ? b : a;
        scale = (big[30:23] == 0) ? 1 : {24'd0, big[30:23]};
        distance = scale - ((small_[30:23] == 0) ? 1 : {24'd0, small_[30:23]});
        if (distance > 52) distance = 52;
        // 26 bits below the significand. What is shifted out of them is less than an eighth of the
        // last place of `big`: too little to make or break a tie, so no sticky bit is kept.
        left = {2'd0, big[30:23] != 0, big[22:0], 26'd0};
        right = {2'd0, small_[30:23] != 0, small_[22:0], 26'd0};
        right = right >> distance;
        left = (a[31] == b[31]) ? left + right : left - right;
        if (big[30:23] == 8'hff) begin
            if (big[22:0] != 0 || (small_[30:23] == 8'hff && a[31] != b[31])) fp32_add = FP32_NAN;
            else fp32_add = big;
        end else if (left == 0) fp32_add = {a[31] & b[31], 31'd0};
        else fp32_add = fp32_round(big[31], scale - 26, left);
    end
endfunction
