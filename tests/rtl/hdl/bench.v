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
// Without +dump and +events the bench only runs (for measuring speed).
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
    reg  [255:0] first, second;
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

    pe_array #(
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

    // ---- memories: what they show in this cycle (settled at the falling edge) --------------------
    integer a, b, lane, row, column;

    always @(negedge clk) begin
        for (a = 0; a < 8; a = a + 1) begin
            first[32*a +: 32] <= queue[8*queue_index + a];
            second[32*a +: 32] <= queue[8*queue_index + 8 + a];
        end
    end

    always @* begin
        moving_bus = 0;
        if (inject)
            for (a = 0; a < ROWS; a = a + 1)
                if (a < inject_rows)
                    moving_bus[a*WIDTH +: WIDTH] = state[a*STATE_WORDS + inject_address];
    end

    // Left path: lane = row, its elements are columns. Top path: lane = column, elements are rows.
    always @* begin
        weight_bus = 0;
        if (read)
            for (lane = 0; lane < LANES; lane = lane + 1)
                for (b = 0; b < FAST; b = b + 1) begin
                    row = TOP ? read_first + b : lane;
                    column = TOP ? lane : read_first + b;
                    if (row < read_rows && column < read_columns)
                        weight_bus[(lane*FAST + b)*WIDTH +: WIDTH]
                            = state[row*STATE_WORDS + read_address + column];
                end
    end
