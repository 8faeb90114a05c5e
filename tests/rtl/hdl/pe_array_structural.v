// The array of pe_array.v as a netlist: one module per PE, one shift register per hop.
//
// Is:     the same ports, parameters and hardware as pe_array.v, drawn as instances: what a reader
//         expects of RTL, and the form the loops of pe_array.v are held against in the tests.
// Is not: for large arrays: 64 x 64 instances take a simulator minutes to build.
//
// Modules: delay (a hop), pe, result_partition, and the wiring pe_array_structural.

// DEPTH registers in a row; none is a wire.
module delay #(
    parameter WIDTH = 1,
    parameter DEPTH = 1
) (
    input  wire             clk,
    input  wire             reset,
    input  wire [WIDTH-1:0] in,
    output wire [WIDTH-1:0] out
);
    generate
        if (DEPTH == 0) begin : wired
            assign out = in;
        end else begin : clocked
            reg [WIDTH*DEPTH-1:0] chain;
            always @(posedge clk)
                if (reset) chain <= 0;
                else chain <= (chain << WIDTH) | in;
            assign out = chain[WIDTH*DEPTH-1 -: WIDTH];
        end
    endgenerate
endmodule

// A multiply-accumulate cell: two weight registers, a multiplier, an adder, and the rules for what
// it hands on. Its outputs are combinational; the hops are outside.
module pe #(
    parameter FAST = 1,
    parameter DOUBLE = 1,
    parameter FLOAT = 0,
    parameter WIDTH = 8
) (
    input  wire                  clk,
    input  wire                  reset,
    // from the left: {exchange, enable, columns left}, operand
    input  wire [17:0]           slot_in,
    input  wire [WIDTH-1:0]      moving_in,
    output wire [17:0]           slot_out,
    output wire [WIDTH-1:0]      moving_out,
    // from above
    input  wire [31:0]           sum_in,
    output reg  [31:0]           sum_out,
    // from the left or from above: {still to pass by, elements left}, elements, next one lowest
    input  wire [31:0]           packet_in,
    input  wire [FAST*WIDTH-1:0] element_in,
    output wire [31:0]           packet_out,
    output wire [FAST*WIDTH-1:0] element_out,
    // observation
    output reg  [WIDTH-1:0]      weight,
    output reg  [WIDTH-1:0]      shadow
);
    `include "number.vh"

    wire exchange = DOUBLE && slot_in[17];
    wire enable = slot_in[16];
    wire valid = slot_in[15:0] != 0;
    wire more_columns = slot_in[15:0] > 1;
    wire [WIDTH-1:0] factor = exchange ? shadow : weight;

    assign slot_out = {slot_in[17:16], valid ? slot_in[15:0] - 16'd1 : 16'd0};
    assign moving_out = more_columns ? moving_in : {WIDTH{1'b0}};

    always @*
        if (!valid) sum_out = 0;
        else if (!enable) sum_out = sum_in;
        else sum_out = number_add(sum_in, number_multiply(moving_in, factor));

    wire arrives = packet_in[15:0] != 0;
    wire mine = arrives && packet_in[31:16] == 0;
    assign packet_out = mine ? packet_in - 32'h00000001
                      : arrives ? packet_in - 32'h00010000 : 32'd0;
    assign element_out = mine ? element_in >> WIDTH : element_in;

    always @(posedge clk)
        if (reset) begin
            weight <= 0;
            shadow <= 0;
        end else begin
            if (exchange) weight <= shadow;
            if (mine && DOUBLE) shadow <= element_in[WIDTH-1:0];
            if (mine && !DOUBLE) weight <= element_in[WIDTH-1:0];
        end
endmodule

// One partition of the result buffer; accumulating is read and write in the same cycle.
module result_partition #(
    parameter WORDS = 4096,
    parameter FLOAT = 0,
    parameter WIDTH = 8
) (
    input  wire        clk,
    input  wire        reset,
    input  wire        write,
    input  wire        accumulate,
    input  wire [31:0] address,
    input  wire [31:0] sum,
    output wire [31:0] value
);
    `include "number.vh"

    reg [31:0] words [0:WORDS-1];
    integer i;
    wire [31:0] stored = words[address];
    assign value = accumulate ? number_add(stored, sum) : sum;

    initial for (i = 0; i < WORDS; i = i + 1) words[i] = 0;

    always @(posedge clk) if (write && !reset) words[address] <= value;
endmodule

module pe_array_structural #(
    parameter ROWS = 4,
    parameter COLS = 4,
    parameter FAST = 1,
    parameter TOP = 0,
    parameter DOUBLE = 1,
    parameter DOWN = 1,
    parameter RIGHT = 1,
    parameter TR = 1,
    parameter TC = 1,
    parameter ENTRY = 0,
    parameter FLOAT = 0,
    parameter LATENCY = 0,
    parameter RESULT_WORDS = 4096,
    parameter WIDTH = 8
) (
    input wire                    clk,
    input wire                    reset,
    input wire                    inject,
    input wire [15:0]             inject_rows,
    input wire [15:0]             inject_columns,
    input wire                    inject_exchange,
    input wire [31:0]             inject_result_address,
    input wire                    inject_accumulate,
    input wire [ROWS*WIDTH-1:0]   moving_bus,
    input wire                    read,
    input wire [15:0]             read_first,
    input wire [15:0]             read_count,
    input wire [15:0]             read_extent,
    input wire [(TOP ? COLS : ROWS)*FAST*WIDTH-1:0] weight_bus
);
    localparam PES = ROWS * COLS;
    localparam LANES = TOP ? COLS : ROWS;
    localparam PER_CELL = TOP ? TC : TR;       // lanes that share a tag
    localparam LANE_HOP = TOP ? RIGHT : DOWN;

    // ---- left edge: tags go down from cell to cell, each operand has its own skew chain ------------
    wire [32:0]      row_tag    [0:ROWS/TR-1];        // {exchange, rows, columns}
    wire [17:0]      row_slot   [0:ROWS-1];
    wire [WIDTH-1:0] row_moving [0:ROWS-1];
    wire [32:0] entering = inject ? {inject_exchange, inject_rows, inject_columns} : 33'd0;

    // ---- weight edge: the left one or the top one --------------------------------------------------
    wire [47:0]           lane_tag     [0:LANES/PER_CELL-1];   // {extent, pass by, elements}
    wire [31:0]           lane_packet  [0:LANES-1];
    wire [FAST*WIDTH-1:0] lane_element [0:LANES-1];
    wire [47:0] reading = read ? {read_extent, read_first, read_count} : 48'd0;

    // ---- wires of the grid -------------------------------------------------------------------------
    wire [17:0]           slot_in     [0:PES-1];
    wire [17:0]           slot_out    [0:PES-1];
    wire [WIDTH-1:0]      moving_in   [0:PES-1];
    wire [WIDTH-1:0]      moving_out  [0:PES-1];
    wire [31:0]           sum_in      [0:PES-1];
    wire [31:0]           sum_out     [0:PES-1];
    wire [31:0]           packet_in   [0:PES-1];
    wire [31:0]           packet_out  [0:PES-1];
    wire [FAST*WIDTH-1:0] element_in  [0:PES-1];
    wire [FAST*WIDTH-1:0] element_out [0:PES-1];
    wire [WIDTH-1:0]      weight      [0:PES-1];
    wire [WIDTH-1:0]      shadow      [0:PES-1];

    // ---- bottom edge ---------------------------------------------------------------------------------
    wire [32:0] result_tag  [0:COLS/TC-1];            // {accumulate, address}
    wire [32:0] result_word [0:COLS-1];               // {valid, finished column sum}
    wire [31:0] result_value [0:COLS-1];
    wire [32:0] result_entering = inject ? {inject_accumulate, inject_result_address} : 33'd0;

    genvar r, c, i;
    generate
        for (i = 0; i < ROWS/TR; i = i + 1) begin : row_tags
            if (i == 0)
                delay #(.WIDTH(33), .DEPTH(ENTRY))
                    hop (.clk(clk), .reset(reset), .in(entering), .out(row_tag[0]));
            else
                delay #(.WIDTH(33), .DEPTH(DOWN))
                    hop (.clk(clk), .reset(reset), .in(row_tag[i-1]), .out(row_tag[i]));
        end

        for (r = 0; r < ROWS; r = r + 1) begin : rows
            assign row_slot[r] = {row_tag[r/TR][32], row_tag[r/TR][31:16] > r,
                                  row_tag[r/TR][15:0]};
            delay #(.WIDTH(WIDTH), .DEPTH(ENTRY + DOWN*(r/TR)))
                skew (.clk(clk), .reset(reset), .in(moving_bus[r*WIDTH +: WIDTH]),
                      .out(row_moving[r]));
        end

        for (i = 0; i < LANES/PER_CELL; i = i + 1) begin : lane_tags
            if (i == 0)
                delay #(.WIDTH(48), .DEPTH(ENTRY))
                    hop (.clk(clk), .reset(reset), .in(reading), .out(lane_tag[0]));
            else
                delay #(.WIDTH(48), .DEPTH(LANE_HOP))
                    hop (.clk(clk), .reset(reset), .in(lane_tag[i-1]), .out(lane_tag[i]));
        end

        for (i = 0; i < LANES; i = i + 1) begin : lanes
            assign lane_packet[i] = lane_tag[i/PER_CELL][47:32] > i
                                  ? lane_tag[i/PER_CELL][31:0] : 32'd0;
            delay #(.WIDTH(FAST*WIDTH), .DEPTH(ENTRY + LANE_HOP*(i/PER_CELL)))
                skew (.clk(clk), .reset(reset), .in(weight_bus[i*FAST*WIDTH +: FAST*WIDTH]),
                      .out(lane_element[i]));
        end

        for (r = 0; r < ROWS; r = r + 1) begin : grid_row
            for (c = 0; c < COLS; c = c + 1) begin : grid_col
                if (c == 0) begin : from_left
                    assign slot_in[r*COLS] = row_slot[r];
                    assign moving_in[r*COLS] = row_moving[r];
                end else begin : from_left
                    delay #(.WIDTH(18 + WIDTH), .DEPTH(c % TC == 0 ? RIGHT : 0))
                        hop (.clk(clk), .reset(reset),
                             .in({slot_out[r*COLS+c-1], moving_out[r*COLS+c-1]}),
                             .out({slot_in[r*COLS+c], moving_in[r*COLS+c]}));
                end

                if (r == 0) begin : from_above
                    assign sum_in[c] = 32'd0;
                end else begin : from_above
                    delay #(.WIDTH(32), .DEPTH(r % TR == 0 ? DOWN : 0))
                        hop (.clk(clk), .reset(reset), .in(sum_out[(r-1)*COLS+c]),
                             .out(sum_in[r*COLS+c]));
                end

                if ((TOP ? r : c) == 0) begin : weights
                    assign packet_in[r*COLS+c] = lane_packet[TOP ? c : r];
                    assign element_in[r*COLS+c] = lane_element[TOP ? c : r];
                end else begin : weights
                    localparam SOURCE = TOP ? (r-1)*COLS + c : r*COLS + c - 1;
                    localparam HOP = TOP ? (r % TR == 0 ? DOWN : 0) : (c % TC == 0 ? RIGHT : 0);
                    delay #(.WIDTH(32 + FAST*WIDTH), .DEPTH(HOP))
                        hop (.clk(clk), .reset(reset),
                             .in({packet_out[SOURCE], element_out[SOURCE]}),
                             .out({packet_in[r*COLS+c], element_in[r*COLS+c]}));
                end

                pe #(.FAST(FAST), .DOUBLE(DOUBLE), .FLOAT(FLOAT), .WIDTH(WIDTH)) cell_ (
                    .clk(clk), .reset(reset),
                    .slot_in(slot_in[r*COLS+c]), .slot_out(slot_out[r*COLS+c]),
                    .moving_in(moving_in[r*COLS+c]), .moving_out(moving_out[r*COLS+c]),
                    .sum_in(sum_in[r*COLS+c]), .sum_out(sum_out[r*COLS+c]),
                    .packet_in(packet_in[r*COLS+c]), .packet_out(packet_out[r*COLS+c]),
                    .element_in(element_in[r*COLS+c]), .element_out(element_out[r*COLS+c]),
                    .weight(weight[r*COLS+c]), .shadow(shadow[r*COLS+c])
                );
            end
        end

        for (i = 0; i < COLS/TC; i = i + 1) begin : result_tags
            if (i == 0)
                delay #(.WIDTH(33), .DEPTH(ENTRY + DOWN*(ROWS/TR) - 1 + LATENCY))
                    hop (.clk(clk), .reset(reset), .in(result_entering), .out(result_tag[0]));
            else
                delay #(.WIDTH(33), .DEPTH(RIGHT))
                    hop (.clk(clk), .reset(reset), .in(result_tag[i-1]), .out(result_tag[i]));
        end

        for (c = 0; c < COLS; c = c + 1) begin : results
            delay #(.WIDTH(33), .DEPTH(DOWN - 1 + LATENCY))
                hop (.clk(clk), .reset(reset),
                     .in({slot_in[(ROWS-1)*COLS+c][15:0] != 0, sum_out[(ROWS-1)*COLS+c]}),
                     .out(result_word[c]));
            result_partition #(.WORDS(RESULT_WORDS), .FLOAT(FLOAT), .WIDTH(WIDTH)) partition (
                .clk(clk), .reset(reset), .write(result_word[c][32]),
                .accumulate(result_tag[c/TC][32]), .address(result_tag[c/TC][31:0]),
                .sum(result_word[c][31:0]), .value(result_value[c])
            );
        end
    endgenerate

    // ---- observation: what the wires showed in the cycle that ends with this edge ----------------
    reg [WIDTH-1:0] moving       [0:PES-1];
    reg [17:0]      slot         [0:PES-1];
    reg [31:0]      sum          [0:PES-1];
    reg             took         [0:COLS-1];
    reg [31:0]      took_address [0:COLS-1];
    reg [31:0]      took_value   [0:COLS-1];
    integer         p;

    always @(posedge clk) begin
        for (p = 0; p < PES; p = p + 1) begin
            moving[p] = moving_in[p];
            slot[p] = slot_in[p];
            sum[p] = sum_out[p];
        end
        for (p = 0; p < COLS; p = p + 1) begin
            took[p] = result_word[p][32];
            took_address[p] = result_tag[p/TC][31:0];
            took_value[p] = result_value[p];
        end
    end
endmodule
