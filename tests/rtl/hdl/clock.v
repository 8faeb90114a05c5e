// A free-running clock for a bench, where the simulator runs time by itself (Icarus).
//
// Is:     the top module under Icarus; BENCH names the module to be clocked.
// Is not: used by Verilator, where main.cpp toggles the bench's clk.
module clock;
    reg clk = 1'b0;
    always #1 clk = ~clk;
    `BENCH bench (.clk(clk));
endmodule
