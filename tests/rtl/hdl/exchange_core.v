// One of two 4 x 4 cores: array, sequencer, instruction queue, state buffer and semaphores.
//
// Is:     what bench.v has around one array, but its waits are for semaphores of its own.
// Is not: in charge of DMA, of the link or of posts: exchange.v writes `state` and `count`.
//
// Words of queue.hex as in sequencer.v, but word 7 is the wait: 0, or 256 * value + semaphore + 1.
module exchange_core #(
    parameter CORE = 0,
    parameter SIDE = 4,
    parameter STATE_WORDS = 64,
    parameter RESULT_WORDS = 64,
    parameter QUEUE_WORDS = 512,
    parameter SEMAPHORES = 16
) (
    input wire clk,
    input wire reset
);
    reg [31:0] queue [0:QUEUE_WORDS-1];
    reg [31:0] state [0:SIDE*STATE_WORDS-1];
    reg [16*SEMAPHORES-1:0] count = 0;  // posts visible, 16 bits for each semaphore
    integer queue_words;

    initial begin
        if (CORE == 0) begin
            if (!$value$plusargs("queue0=%d", queue_words)) queue_words = 0;
            if (queue_words > 0) $readmemh("queue0.hex", queue, 0, queue_words - 1);
            $readmemh("state0.hex", state);
        end else begin
            if (!$value$plusargs("queue1=%d", queue_words)) queue_words = 0;
            if (queue_words > 0) $readmemh("queue1.hex", queue, 0, queue_words - 1);
            $readmemh("state1.hex", state);
        end
    end

    // ---- an entry of the queue: due at once if its wait is satisfied, else never ------------------
    wire [31:0] queue_index, now;
    wire [31:0] place = queue_index * 8;
    wire [31:0] first_wait = queue[place + 7], second_wait = queue[place + 15];
    wire first_ready = first_wait == 0 || count[16*(first_wait[7:0] - 8'd1) +: 16] >= first_wait[23:8];
    wire second_ready = second_wait == 0 || count[16*(second_wait[7:0] - 8'd1) +: 16] >= second_wait[23:8];
    wire [255:0] first = {first_ready ? 32'd0 : 32'hFFFFFFFF, queue[place+6], queue[place+5],
                          queue[place+4], queue[place+3], queue[place+2], queue[place+1],
                          queue[place]};
    wire [255:0] second = {second_ready ? 32'd0 : 32'hFFFFFFFF, queue[place+14], queue[place+13],
                           queue[place+12], queue[place+11], queue[place+10], queue[place+9],
                           queue[place+8]};

    wire         inject, inject_exchange, inject_accumulate, read;
    wire [31:0]  inject_address, inject_result_address, read_address;
    wire [15:0]  inject_rows, inject_columns, read_rows, read_columns, read_first;
    wire         start_multiply, start_load, idle;
    wire [31:0]  start_multiply_index, start_load_index;
    wire [31:0]  active_multiply_index, active_load_index, active_vector;

    sequencer #(.FAST(1), .TOP(0), .BUFFER(0), .DRAIN_CYCLES(2*SIDE)) control (
        .clk(clk), .reset(reset), .cycles_per_vector(16'd1),
        .strap_early_multiply(1'b0), .strap_early_load(1'b0), .strap_late_load(1'b0),
        .queue_index(queue_index),
        .first_present(place < queue_words), .first(first),
        .second_present(place + 8 < queue_words), .second(second),
        .moving_refused(1'b0), .weight_refused(1'b0),
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

    reg [SIDE*32-1:0] moving_bus, weight_bus;
    pe_array #(
        .ROWS(SIDE), .COLS(SIDE), .FLOAT(1), .RESULT_WORDS(RESULT_WORDS), .WIDTH(32)
    ) grid (
        .clk(clk), .reset(reset), .inject(inject), .inject_rows(inject_rows),
        .inject_columns(inject_columns), .inject_exchange(inject_exchange),
        .inject_result_address(inject_result_address), .inject_accumulate(inject_accumulate),
        .moving_bus(moving_bus), .read(read), .read_first(read_first), .read_count(16'd1),
        .read_extent(read_rows), .weight_bus(weight_bus)
    );

    // The words of this cycle, settled at the falling edge.
    integer row;
    always @(negedge clk) begin
        for (row = 0; row < SIDE; row = row + 1) begin
            moving_bus[row*32 +: 32]
                = inject && row < inject_rows ? state[row*STATE_WORDS + inject_address] : 32'd0;
            weight_bus[row*32 +: 32]
                = read && row < read_rows ? state[row*STATE_WORDS + read_address + read_first] : 32'd0;
        end
    end
endmodule
