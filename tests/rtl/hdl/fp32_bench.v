// Feeds pairs of operands to the two arithmetic units of fp32.vh.
//
// Is:     a bench: reads +count=N pairs of hex words from pairs.hex (a0 b0 a1 b1 ...), writes one
//         line "product sum" per pair to results.hex.
// Is not: part of the array.
module fp32_bench #(
    parameter CAPACITY = 262144
) (
    input wire clk
);
    `include "fp32.vh"

    reg [31:0] words [0:2*CAPACITY-1];
    integer count;
    integer i;
    integer fd;

    initial begin
        if (!$value$plusargs("count=%d", count)) count = 0;
        if (count > 0) $readmemh("pairs.hex", words, 0, 2*count - 1);
        fd = $fopen("results.hex", "w");
        i = 0;
    end

    always @(posedge clk) begin
        if (i < count) begin
            $fwrite(fd, "%h %h\n", fp32_multiply(words[2*i], words[2*i+1]),
                    fp32_add(words[2*i], words[2*i+1]));
            i = i + 1;
        end else begin
            $fclose(fd);
            $finish;
        end
    end
endmodule
