// Toggles the clock of a verilated bench until it calls $finish.
//
// Is:     the whole C++ side; the bench is verilated with --prefix Vtop.
// Is not: a driver of anything but the clock; files, stalls and dumps are the bench's own.
#include "Vtop.h"
#include "verilated.h"

int main(int argc, char** argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Vtop top{&context};
    top.clk = 0;
    while (!context.gotFinish()) {
        top.eval();
        context.timeInc(1);
        top.clk = !top.clk;
    }
    top.final();
    return 0;
}
