// Decides in every cycle which instruction of the array's queue may start, read and inject.
//
// Is:     the array's control unit. It sees two entries of the instruction queue (the next one and
//         the one behind it), whether the two read ports are refused in this cycle, and its own
//         registers about what is in flight: nothing else. Requests and grants are combinational
//         within the cycle, as at a memory port; a refused read is repeated in the next cycle.
// Is not: told any schedule. It never looks at operands.
//
// An instruction is 8 words of 32 bits, word 0 lowest:
//   0 opcode (1 load, 2 multiply)   1 K rows   2 N columns   3 M vectors
//   4 state-buffer address          5 result-buffer address  6 accumulate   7 not before cycle
//
// The three `strap_` inputs bend one rule each by one cycle, for the tests that show that the rule
// is exact (early_*) or that the comparison would notice (late_load); all are 0 in earnest.
module sequencer #(
    parameter FAST = 1,          // weight elements per lane and cycle
    parameter TOP = 0,           // weight path: 0 left, 1 top
    parameter BUFFER = 0,        // weight buffer: 0 double, 1 single, 2 serial
    parameter DRAIN_CYCLES = 1   // from a vector's injection until its last PE is done with it
) (
    input  wire         clk,
    input  wire         reset,
    input  wire  [15:0] cycles_per_vector,
    input  wire         strap_early_multiply,
    input  wire         strap_early_load,
    input  wire         strap_late_load,
    // the instruction queue
    output reg   [31:0] queue_index,
    input  wire         first_present,
    input  wire [255:0] first,
    input  wire         second_present,
    input  wire [255:0] second,
    // the state buffer's read ports
    input  wire         moving_refused,
    input  wire         weight_refused,
    output wire         inject,            // a moving vector enters in this cycle
    output wire  [31:0] inject_address,
    output wire  [15:0] inject_rows,
    output wire  [15:0] inject_columns,
    output wire         inject_exchange,   // first vector after a load: swap in the shadow weights
    output wire  [31:0] inject_result_address,
    output wire         inject_accumulate,
    output wire         read,              // a read of weights enters in this cycle
    output wire  [31:0] read_address,
    output wire  [15:0] read_rows,
    output wire  [15:0] read_columns,
    output wire  [15:0] read_first,        // first column (row, on the top path) of this read
    // observation
    output reg   [31:0] now,
    output wire         start_multiply,
    output wire  [31:0] start_multiply_index,
    output wire         start_load,
    output wire  [31:0] start_load_index,
    output wire  [31:0] active_multiply_index,
    output wire  [31:0] active_load_index,
    output wire  [31:0] active_vector,
    output wire         idle
);
    localparam LOAD = 1;
    localparam MULTIPLY = 2;

    // ---- what is in flight -----------------------------------------------------------------
    reg         multiplying;      // a multiply has vectors still to be injected
    reg [255:0] multiply;
    reg  [31:0] multiply_index;
    reg  [31:0] vector;           // the next one of its vectors
    reg         exchange;         // its first vector is to carry the exchange
    reg  [15:0] pause;            // cycles until the next vector may be injected
    reg         loading;          // a load has reads still to be made
    reg [255:0] load;
    reg  [31:0] load_index;
    reg  [15:0] taken;            // columns (rows) already read
    reg         fresh;            // a load has started since the last multiply did
    reg  [31:0] drain;            // cycles until the last injected vector has left the array
    reg         armed;            // strap_early_load only: the multiply waited its extra cycle
    reg         overtaken;        // strap_early_load only: the load behind it started before it

    // ---- the multiply side -----------------------------------------------------------------
    wire first_due = first_present && first[255:224] <= now;
    wire [15:0] load_extent = TOP ? load[47:32] : load[79:64];
    wire load_ends = !weight_refused && {16'd0, taken} + FAST >= {16'd0, load_extent};
    wire weights_there = !loading || overtaken || (strap_early_multiply && load_ends);
    wire multiply_ready = first_due && first[31:0] == MULTIPLY && !multiplying && pause == 0
                          && weights_there;
    wire arming = strap_early_load && BUFFER == 0 && multiply_ready && !armed;
    assign start_multiply = multiply_ready && !arming;
    assign start_multiply_index = queue_index;

    wire         moving_request = start_multiply || (multiplying && pause == 0);
    wire [255:0] current = start_multiply ? first : multiply;
    assign active_multiply_index = start_multiply ? queue_index : multiply_index;
    assign active_vector = start_multiply ? 32'd0 : vector;
    assign inject = moving_request && !moving_refused;
    assign inject_rows = current[47:32];
    assign inject_columns = current[79:64];
    assign inject_address = current[159:128] + active_vector;
    assign inject_result_address = current[191:160] + active_vector;
    assign inject_accumulate = current[192];
    assign inject_exchange = BUFFER == 0 && active_vector == 0
                             && (start_multiply ? fresh : exchange);
    wire last_vector = active_vector + 1 >= current[127:96];
    wire next_to_last = active_vector + 2 >= current[127:96];

    // ---- the load side: the entry looked at is the one behind a multiply that starts now -------
    wire         passing = start_multiply || arming;
    wire [255:0] waiting = passing ? second : first;
    wire         waiting_due = (passing ? second_present && !overtaken : first_present)
                               && waiting[255:224] <= now;
    wire         in_progress = start_multiply || multiplying;
    wire first_vector_made = !in_progress || (inject && active_vector == 0 && !strap_late_load)
                             || active_vector != 0;
    wire last_vector_made = !in_progress
                            || (inject && last_vector && !strap_late_load)
                            || (inject && next_to_last && strap_early_load);
    wire drained = !in_progress && drain == 0;
    wire array_free = (BUFFER == 0) ? (first_vector_made || arming)
                    : (BUFFER == 1) ? last_vector_made
                    : drained;
    assign start_load = waiting_due && waiting[31:0] == LOAD && !loading && array_free;
    assign start_load_index = passing ? queue_index + 1 : queue_index;

    wire         weight_request = start_load || loading;
    wire [255:0] current_load = start_load ? waiting : load;
    assign active_load_index = start_load ? start_load_index : load_index;
    assign read = weight_request && !weight_refused;
    assign read_rows = current_load[47:32];
    assign read_columns = current_load[79:64];
    assign read_address = current_load[159:128];
    assign read_first = start_load ? 16'd0 : taken;
    wire [15:0] extent = TOP ? read_rows : read_columns;
    wire last_read = read && {16'd0, read_first} + FAST >= {16'd0, extent};

    assign idle = !first_present && !multiplying && !loading;

    // ---- registers ---------------------------------------------------------------------------
    always @(posedge clk) begin
        if (reset) begin
            now <= 0;
            queue_index <= 0;
            multiplying <= 0;
            multiply <= 0;
            multiply_index <= 0;
            vector <= 0;
            exchange <= 0;
            pause <= 0;
            loading <= 0;
            load <= 0;
            load_index <= 0;
            taken <= 0;
            fresh <= 0;
            drain <= 0;
            armed <= 0;
            overtaken <= 0;
        end else begin
            now <= now + 1;
            queue_index <= queue_index + {31'd0, start_multiply}
                           + {31'd0, start_load && !arming} + {31'd0, start_multiply && overtaken};

            multiply <= current;
            multiply_index <= active_multiply_index;
            if (start_multiply) exchange <= fresh;
            multiplying <= in_progress && !(inject && last_vector);
            vector <= inject ? active_vector + 1 : active_vector;
            if (inject) pause <= cycles_per_vector - 1;
            else if (pause != 0) pause <= pause - 1;
            if (inject) drain <= DRAIN_CYCLES - 1;
            else if (drain != 0) drain <= drain - 1;

            load <= current_load;
            load_index <= active_load_index;
            loading <= weight_request && !last_read;
            taken <= read ? read_first + FAST : read_first;
            if (start_load) fresh <= 1;
            else if (start_multiply) fresh <= overtaken;

            armed <= arming;
            if (arming) overtaken <= start_load;
            else if (start_multiply) overtaken <= 0;
        end
    end
endmodule
