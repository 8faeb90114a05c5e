// Bench of the array: instruction queue, state buffer, refusals, and the dump of every register.
//
// Is:     a memory model on each side of the device under test (sequencer + pe_array) and a writer
//         of files. Under Verilator main.cpp drives clk, under Icarus clock.v.
// Is not: a scheduler. It hands over queue entries and grants or refuses reads; that is all.
//
// Plus arguments (all files are hexadecimal text for $readmemh, NAME.hex for +NAME words):
//   +queue=N     words of queue.hex, 8 per instruction     (format: sequencer.v)
//   +refused=N   words of refused.hex, one per cycle: bit 0 moving port, bit 1 weight port
//   +state=1     state.hex, partition r at word r*STATE_WORDS
//   +vector=V    cycles per vector
//   +early_multiply=1 +early_load=1 +late_load=1            (straps: see sequencer.v)
//   +limit=N     give up after N cycles                     +cycles=N  run exactly N cycles
//   +dump=1      planes.hex: one line per cycle, for every PE, row-major:
//                {moving, weight, shadow, sum: 32 bits each} for all PEs, then {valid: 8 bits}
//   +events=1    events.txt: lines "kind cycle a b c", decimal:
//                1 start index 0 0        2 read index number 0    3 inject index vector 0
//                4 write partition address value       9 end: cycles simulated (0: limit reached)
// Without +dump and +events the bench only runs (for measuring speed). The macro ARRAY names the form
// of the array: pe_array or pe_array_structural.
`ifndef ARRAY
`define ARRAY pe_array
`endif
module bench #(
    parameter ROWS = 4,
    parameter COLS = 4,
    parameter FAST = 1,
    parameter TOP = 0,
    parameter BUFFER = 0,
    parameter DOWN = 1,
    parameter RIGHT = 1,
    parameter TR = 1,
    parameter TC = 1,
    parameter ENTRY = 0,
    parameter FLOAT = 0,
    parameter LATENCY = 0,
    parameter STATE_WORDS = 4096,
    parameter RESULT_WORDS = 4096,
    parameter QUEUE_WORDS = 8192,
    parameter REFUSED_WORDS = 65536
) (
    input wire clk
);
    localparam WIDTH = FLOAT ? 32 : 8;
    localparam LANES = TOP ? COLS : ROWS;
    localparam SETTLE = ENTRY + DOWN*(ROWS/TR) + RIGHT*(COLS/TC - 1) + LATENCY;

    // ---- memories and settings -----------------------------------------------------------------
    reg [31:0]      queue   [0:QUEUE_WORDS-1];
    reg [1:0]       refused [0:REFUSED_WORDS-1];
    reg [WIDTH-1:0] state   [0:ROWS*STATE_WORDS-1];
    integer queue_words, refused_words, with_state, limit, cycles, dump, events;
    integer vector_cycles, early_multiply, early_load, late_load;
    integer planes_file, events_file;

    initial begin
        if (!$value$plusargs("queue=%d", queue_words)) queue_words = 0;
        if (!$value$plusargs("refused=%d", refused_words)) refused_words = 0;
        if (!$value$plusargs("state=%d", with_state)) with_state = 0;
        if (!$value$plusargs("vector=%d", vector_cycles)) vector_cycles = 1;
        if (!$value$plusargs("early_multiply=%d", early_multiply)) early_multiply = 0;
        if (!$value$plusargs("early_load=%d", early_load)) early_load = 0;
        if (!$value$plusargs("late_load=%d", late_load)) late_load = 0;
        if (!$value$plusargs("limit=%d", limit)) limit = 1000000;
        if (!$value$plusargs("cycles=%d", cycles)) cycles = 0;
        if (!$value$plusargs("dump=%d", dump)) dump = 0;
        if (!$value$plusargs("events=%d", events)) events = 0;
        if (queue_words > 0) $readmemh("queue.hex", queue, 0, queue_words - 1);
        if (refused_words > 0) $readmemh("refused.hex", refused, 0, refused_words - 1);
        if (with_state != 0) $readmemh("state.hex", state);
        if (dump != 0) planes_file = $fopen("planes.hex", "w");
        events_file = $fopen("events.txt", "w");
    end

    // ---- device under test -----------------------------------------------------------------------
    reg          reset;
    wire [31:0]  queue_index, now;
    wire [255:0] first, second;
    wire         inject, inject_exchange, inject_accumulate, read;
    wire [31:0]  inject_address, inject_result_address, read_address;
    wire [15:0]  inject_rows, inject_columns, read_rows, read_columns, read_first;
    wire         start_multiply, start_load, idle;
    wire [31:0]  start_multiply_index, start_load_index;
    wire [31:0]  active_multiply_index, active_load_index, active_vector;
    wire         refusing = now < refused_words;
    wire [1:0]   refused_now = refusing ? refused[now] : 2'b00;

    sequencer #(
        .FAST(FAST), .TOP(TOP), .BUFFER(BUFFER),
        .DRAIN_CYCLES(ENTRY + DOWN*(ROWS/TR) + RIGHT*((COLS-1)/TC))
    ) control (
        .clk(clk), .reset(reset), .cycles_per_vector(vector_cycles[15:0]),
        .strap_early_multiply(early_multiply[0]), .strap_early_load(early_load[0]),
        .strap_late_load(late_load[0]),
        .queue_index(queue_index),
        .first_present(8*queue_index < queue_words), .first(first),
        .second_present(8*queue_index + 8 < queue_words), .second(second),
        .moving_refused(refused_now[0]), .weight_refused(refused_now[1]),
        .inject(inject), .inject_address(inject_address), .inject_rows(inject_rows),
        .inject_columns(inject_columns), .inject_exchange(inject_exchange),
        .inject_result_address(inject_result_address), .inject_accumulate(inject_accumulate),
        .read(read), .read_address(read_address), .read_rows(read_rows),
        .read_columns(read_columns), .read_first(read_first),
        .now(now), .start_multiply(start_multiply), .start_multiply_index(start_multiply_index),
        .start_load(start_load), .start_load_index(start_load_index),
        .active_multiply_index(active_multiply_index), .active_load_index(active_load_index),
        .active_vector(active_vector), .idle(idle)
    );

    wire [15:0] along = TOP ? read_rows : read_columns;    // elements per lane in the whole load
    wire [15:0] across = TOP ? read_columns : read_rows;   // lanes used
    wire [15:0] rest = along - read_first;
    wire [15:0] read_count = rest < FAST ? rest : FAST;
    reg [ROWS*WIDTH-1:0]       moving_bus;
    reg [LANES*FAST*WIDTH-1:0] weight_bus;

    `ARRAY #(
        .ROWS(ROWS), .COLS(COLS), .FAST(FAST), .TOP(TOP), .DOUBLE(BUFFER == 0), .DOWN(DOWN),
        .RIGHT(RIGHT), .TR(TR), .TC(TC), .ENTRY(ENTRY), .FLOAT(FLOAT), .LATENCY(LATENCY),
        .RESULT_WORDS(RESULT_WORDS), .WIDTH(WIDTH)
    ) grid (
        .clk(clk), .reset(reset), .inject(inject), .inject_rows(inject_rows),
        .inject_columns(inject_columns), .inject_exchange(inject_exchange),
        .inject_result_address(inject_result_address), .inject_accumulate(inject_accumulate),
        .moving_bus(moving_bus), .read(read), .read_first(read_first), .read_count(read_count),
        .read_extent(across), .weight_bus(weight_bus)
    );

    // ---- memories: the words of this cycle, settled at the falling edge ---------------------------
    wire [31:0] entry = queue_index * 8;
    assign first = {queue[entry+7], queue[entry+6], queue[entry+5], queue[entry+4],
                    queue[entry+3], queue[entry+2], queue[entry+1], queue[entry]};
    assign second = {queue[entry+15], queue[entry+14], queue[entry+13], queue[entry+12],
                     queue[entry+11], queue[entry+10], queue[entry+9], queue[entry+8]};

    integer i, lane, row, column;

    task show_moving;
        begin
            moving_bus = 0;
            if (inject)
                for (row = 0; row < ROWS; row = row + 1)
                    if (row < inject_rows)
                        moving_bus[row*WIDTH +: WIDTH] = state[row*STATE_WORDS + inject_address];
        end
    endtask

    // Left path: lane = row, its elements are columns. Top path: lane = column, elements are rows.
    task show_weights;
        begin
            weight_bus = 0;
            if (read)
                for (lane = 0; lane < LANES; lane = lane + 1)
                    for (i = 0; i < FAST; i = i + 1) begin
                        row = TOP ? read_first + i : lane;
                        column = TOP ? lane : read_first + i;
                        if (row < read_rows && column < read_columns)
                            weight_bus[(lane*FAST + i)*WIDTH +: WIDTH]
                                = state[row*STATE_WORDS + read_address + column];
                    end
        end
    endtask

    // ---- observation ---------------------------------------------------------------------------
    reg signed [31:0]      wide_moving, wide_weight, wide_shadow;
    reg [17:0]             slot;
    integer p;

    // The registers as they stand at the end of the cycle before `now`.
    task dump_planes;
        begin
            for (p = 0; p < ROWS*COLS; p = p + 1) begin
                wide_moving = $signed(grid.moving[p]);
                wide_weight = $signed(grid.weight[p]);
                wide_shadow = $signed(grid.shadow[p]);
                $fwrite(planes_file, "%h%h%h%h", wide_moving, wide_weight, wide_shadow,
                        grid.sum[p]);
            end
            for (p = 0; p < ROWS*COLS; p = p + 1) begin
                slot = grid.slot[p];
                $fwrite(planes_file, "%h", {7'd0, slot[15:0] != 0});
            end
            $fwrite(planes_file, "\n");
        end
    endtask

    task dump_results;
        for (p = 0; p < COLS; p = p + 1)
            if (grid.took[p])
                $fwrite(events_file, "4 %0d %0d %0d %0d\n", now - 1, p, grid.took_address[p],
                        grid.took_value[p]);
    endtask

    task dump_control;
        begin
            if (start_multiply) $fwrite(events_file, "1 %0d %0d 0 0\n", now, start_multiply_index);
            if (start_load) $fwrite(events_file, "1 %0d %0d 0 0\n", now, start_load_index);
            if (read)
                $fwrite(events_file, "2 %0d %0d %0d 0\n", now, active_load_index,
                        read_first / FAST);
            if (inject)
                $fwrite(events_file, "3 %0d %0d %0d 0\n", now, active_multiply_index,
                        active_vector);
        end
    endtask

    task stop;
        input integer simulated;
        begin
            $fwrite(events_file, "9 %0d 0 0 0\n", simulated);
            $fclose(events_file);
            if (dump != 0) $fclose(planes_file);
            $finish;
        end
    endtask

    // ---- time: reset for two edges, then cycle `now` between rising edges --------------------------
    integer edges, quiet;
    reg     stopped;
    initial begin
        reset = 1;
        edges = 0;
        quiet = 0;
        stopped = 0;
    end

    always @(posedge clk) begin
        edges <= edges + 1;
        reset <= edges < 1;
    end

    always @(negedge clk) begin
        if (!reset && !stopped) begin
            show_moving;
            show_weights;
            if (now != 0 && dump != 0) dump_planes;
            if (now != 0 && events != 0) dump_results;
            quiet = idle ? quiet + 1 : 0;
            if ((cycles != 0) ? now == cycles : quiet > SETTLE + 2) begin
                stopped = 1;
                stop(now);
            end else if (now == limit) begin
                stopped = 1;
                stop(0);
            end else if (events != 0) dump_control;
        end
    end
endmodule
