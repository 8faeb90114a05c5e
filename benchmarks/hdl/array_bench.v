// A 128 x 128 array written for speed under Verilator, with its queue, memories and result buffer.
//
// Is:     the array of tests/rtl/hdl in one configuration (left path, double buffer, hops of one
//         register, full tiles) under the same sequencer.v, with the same registers in every PE:
//         moving, active and shadow weight, sum, valid.
// Is not: a referent (tests/rtl/hdl is), nor complete: everything the measured programs do not need
//         is left out in Verilator's favour: partial tiles, refused ports, dumps, the skew registers
//         before the rows (each row reads its own partition when it needs the word).
//
// Two forms of the same array. As it stands, the loops are such that g++ can use vector
// instructions: one register plane at a time, a shift of a whole plane first and its left edge
// afterwards. With the macro PLAIN it is written as one would, one PE after the other; then g++
// makes scalar loops. Counters are unsigned: an `integer` compares as signed, through code in which
// g++ does not find a loop it can count, and everything becomes slower.
//
// Plus arguments: +queue=N words of queue.hex (see sequencer.v); state.hex and result.hex are the
// contents of the state buffer before and of the result buffer after the run.
`include "arithmetic.vh"
module array_bench #(
    parameter R = 128,
    parameter C = 128,
    parameter WIDTH = 8,
    parameter WORDS = 1024,
    parameter QUEUE_WORDS = 1024
) (
    input  wire        clk,
    output wire        done,
    output wire [31:0] cycles
);
    localparam PES = R * C;
    localparam SETTLE = R + C;

    reg [31:0]      queue  [0:QUEUE_WORDS-1];
    reg [WIDTH-1:0] state  [0:R*WORDS-1];
    reg [31:0]      result [0:C*WORDS-1];
    integer queue_words;
    reg        reset;
    reg [1:0]  edges;
    reg [31:0] quiet;

    initial begin
        if (!$value$plusargs("queue=%d", queue_words)) queue_words = 0;
        $readmemh("queue.hex", queue, 0, queue_words - 1);
        $readmemh("state.hex", state);
        reset = 1;
        edges = 0;
        quiet = 0;
    end

    // ---- control: the sequencer of the tests ---------------------------------------------------
    wire [31:0]  queue_index, now;
    wire [31:0]  entry = queue_index * 8;
    wire [255:0] first = {queue[entry+7], queue[entry+6], queue[entry+5], queue[entry+4],
                          queue[entry+3], queue[entry+2], queue[entry+1], queue[entry]};
    wire [255:0] second = {queue[entry+15], queue[entry+14], queue[entry+13], queue[entry+12],
                           queue[entry+11], queue[entry+10], queue[entry+9], queue[entry+8]};
    wire         inject, inject_exchange, read, idle;
    wire [31:0]  inject_address, inject_result_address, read_address;
    wire [15:0]  read_first;

    sequencer #(.FAST(1), .TOP(0), .BUFFER(0), .DRAIN_CYCLES(R + C - 1)) control (
        .clk(clk), .reset(reset), .cycles_per_vector(16'd1),
        .strap_early_multiply(1'b0), .strap_early_load(1'b0), .strap_late_load(1'b0),
        .queue_index(queue_index), .first_present(entry < queue_words), .first(first),
        .second_present(entry + 8 < queue_words), .second(second),
        .moving_refused(1'b0), .weight_refused(1'b0),
        .inject(inject), .inject_address(inject_address), .inject_exchange(inject_exchange),
        .inject_result_address(inject_result_address),
        .read(read), .read_address(read_address), .read_first(read_first),
        .now(now), .idle(idle),
        .inject_rows(), .inject_columns(), .inject_accumulate(), .read_rows(), .read_columns(),
        .start_multiply(), .start_multiply_index(), .start_load(), .start_load_index(),
        .active_multiply_index(), .active_load_index(), .active_vector()
    );
    assign cycles = now;
    assign done = quiet > SETTLE + 2;

    // ---- registers -----------------------------------------------------------------------------
    reg [WIDTH-1:0] moving  [0:PES-1];
    reg [WIDTH-1:0] weight  [0:PES-1];
    reg [WIDTH-1:0] shadow  [0:PES-1];
    reg [WIDTH-1:0] element [0:PES-1];   // a weight on its way
    reg [7:0]       left    [0:PES-1];   // 1: it is meant for this PE; 0: there is none
    reg             valid   [0:PES-1];
    reg             swap    [0:PES-1];   // this vector brings the exchange along
    reg [31:0]      sum     [0:PES-1];

    // What enters row r, r cycles after it entered row 0; depth 0 is this cycle's.
    reg        in_valid  [0:R-1];
    reg        in_swap   [0:R-1];
    reg [31:0] in_moving [0:R-1];
    reg [7:0]  in_left   [0:R-1];
    reg [31:0] in_weight [0:R-1];
    reg [31:0] in_result [0:R+C-1];

    always @(posedge clk) begin : step
        reg [31:0] r, p;
        r = 0;
        p = 0;
        edges <= 2'd2;
        reset <= edges == 0;
        if (!reset) begin
            quiet <= idle ? quiet + 1 : 0;

            for (r = R - 1; r > 0; r = r - 1) begin
                in_valid[r] = in_valid[r-1];
                in_swap[r] = in_swap[r-1];
                in_moving[r] = in_moving[r-1];
                in_left[r] = in_left[r-1];
                in_weight[r] = in_weight[r-1];
            end
            for (r = R + C - 1; r > 0; r = r - 1) in_result[r] = in_result[r-1];
            in_valid[0] = inject;
            in_swap[0] = inject_exchange && inject;
            in_moving[0] = inject_address;
            in_left[0] = read ? read_first[7:0] + 8'd1 : 8'd0;
            in_weight[0] = read_address + {16'd0, read_first};
            in_result[0] = inject_result_address;

`ifdef PLAIN
            for (r = R - 1; r < R; r = r - 1)  // until it wraps round below 0
                for (p = C - 1; p < C; p = p - 1) begin
                    if (p == 0) begin
                        moving[r*C] = in_valid[r] ? state[r*WORDS + in_moving[r]] : {WIDTH{1'b0}};
                        valid[r*C] = in_valid[r];
                        swap[r*C] = in_swap[r];
                        element[r*C] = state[r*WORDS + in_weight[r]];
                        left[r*C] = in_left[r];
                    end else begin
                        moving[r*C+p] = moving[r*C+p-1];
                        valid[r*C+p] = valid[r*C+p-1];
                        swap[r*C+p] = swap[r*C+p-1];
                        element[r*C+p] = element[r*C+p-1];
                        left[r*C+p] = left[r*C+p-1] == 0 ? 8'd0 : left[r*C+p-1] - 8'd1;
                    end
                    if (swap[r*C+p]) weight[r*C+p] = shadow[r*C+p];
                    if (left[r*C+p] == 1) shadow[r*C+p] = element[r*C+p];
                    sum[r*C+p] = `MAC((r == 0 ? 32'd0 : sum[(r-1)*C+p]), moving[r*C+p],
                                      weight[r*C+p], valid[r*C+p]);
                end
`else
            for (p = PES - 1; p > 0; p = p - 1) moving[p] = moving[p-1];
            for (p = PES - 1; p > 0; p = p - 1) valid[p] = valid[p-1];
            for (p = PES - 1; p > 0; p = p - 1) swap[p] = swap[p-1];
            for (p = PES - 1; p > 0; p = p - 1) element[p] = element[p-1];
            for (p = PES - 1; p > 0; p = p - 1) left[p] = left[p-1];
            for (p = 0; p < PES; p = p + 1) left[p] = left[p] == 0 ? 8'd0 : left[p] - 8'd1;
            for (r = 0; r < R; r = r + 1) begin
                moving[r*C] = in_valid[r] ? state[r*WORDS + in_moving[r]] : {WIDTH{1'b0}};
                valid[r*C] = in_valid[r];
                swap[r*C] = in_swap[r];
                element[r*C] = state[r*WORDS + in_weight[r]];
                left[r*C] = in_left[r];
            end
            for (p = 0; p < PES; p = p + 1) weight[p] = swap[p] ? shadow[p] : weight[p];
            for (p = 0; p < PES; p = p + 1) shadow[p] = left[p] == 1 ? element[p] : shadow[p];

            for (r = R - 1; r > 0; r = r - 1)
                for (p = 0; p < C; p = p + 1)
                    sum[r*C+p] = `MAC(sum[(r-1)*C+p], moving[r*C+p], weight[r*C+p], valid[r*C+p]);
            for (p = 0; p < C; p = p + 1) sum[p] = `MAC(32'd0, moving[p], weight[p], valid[p]);
`endif

            for (p = 0; p < C; p = p + 1)
                if (valid[(R-1)*C + p]) result[p*WORDS + in_result[R-1+p]] = sum[(R-1)*C + p];
        end
    end

    final $writememh("result.hex", result);
endmodule
