// Clocks the array until its program is done, several times over, and prints what it measured.
//
// Is:     the whole C++ side. A line per run: cycles simulated, seconds. The model is built and the
//         memories are filled outside the measured time, which favours Verilator.
// Is not: a driver of anything but the clock.
//
// Arguments: the number of runs, then the plus arguments of array_bench.v.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "Vtop.h"
#include "verilated.h"

int main(int argc, char** argv) {
    const int runs = std::atoi(argv[1]);
    for (int run = 0; run < runs; ++run) {
        VerilatedContext context;
        context.commandArgs(argc, argv);
        auto top = std::make_unique<Vtop>(&context);
        top->clk = 0;
        top->eval();
        const auto begun = std::chrono::steady_clock::now();
        while (!top->done) {
            top->clk = 1;
            top->eval();
            top->clk = 0;
            top->eval();
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
        std::printf("%u %.9f\n", top->cycles, took.count());
        top->final();
    }
    return 0;
}
