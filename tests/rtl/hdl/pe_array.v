// The array of processing elements with its operand edges and its result buffer (PSUM).
//
// Is:     registers between nearest neighbours, stepped once per clock edge. Tags (which columns a
//         vector still has to visit, whether a row's product counts, the weight exchange, how far
//         a weight still has to travel) move with the data they belong to; no PE knows the time,
//         the instruction or its own position.
// Is not: in charge of when anything enters: that is sequencer.v.
//
// Form. The grid is written as loops over memories, which builds in seconds at any size;
// pe_array_structural.v is the same hardware as instances of modules, for small sizes, and the tests
// hold the two equal. One PE is the task step_pe. Within a clock edge, cells (TR x TC PEs between
// registers) are visited from the far corner to the origin, so whatever a cell reads from another
// cell is that neighbour's *register*, not yet updated; the PEs inside one cell are visited forwards,
// so what they read from each other is a *wire* of this cycle. Hence after the edge that ends cycle t
//     moving[p], slot[p], sum[p]  (hop register 0) hold what PE p had in cycle t,
//     weight[p], shadow[p]        hold the registers as they stand at the end of cycle t.
//
// Hops. Between cells lie RIGHT (DOWN) registers: planes 1..RIGHT-1 (1..DOWN-1) of the memories are
// the further ones. ENTRY registers lie before the first PE; row r (column c, on the top weight path)
// has a skew chain as long as the path of the tags to it.
module pe_array #(
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
    parameter LATENCY = 0,        // result-buffer write latency
    parameter RESULT_WORDS = 4096,
    parameter WIDTH = 8           // bits of an operand
) (
    input wire                    clk,
    input wire                    reset,
    // a moving vector, one operand per row
    input wire                    inject,
    input wire [15:0]             inject_rows,
    input wire [15:0]             inject_columns,
    input wire                    inject_exchange,
    input wire [31:0]             inject_result_address,
    input wire                    inject_accumulate,
    input wire [ROWS*WIDTH-1:0]   moving_bus,
    // a read of weights: FAST elements per row (left path) or column (top path)
    input wire                    read,
    input wire [15:0]             read_first,   // columns (rows) the first element has to pass by
    input wire [15:0]             read_count,   // elements per lane, 1..FAST
    input wire [15:0]             read_extent,  // rows (columns) that get a share
    input wire [(TOP ? COLS : ROWS)*FAST*WIDTH-1:0] weight_bus
);
    `include "number.vh"

    localparam PES = ROWS * COLS;
    localparam LAST_ROW_DEPTH = ENTRY + DOWN * (ROWS / TR - 1);
    localparam LAST_COL_DEPTH = ENTRY + RIGHT * (COLS / TC - 1);
    localparam LANES = TOP ? COLS : ROWS;
    localparam LANE_DEPTH = TOP ? LAST_COL_DEPTH : LAST_ROW_DEPTH;
    localparam RESULT_DEPTH = LAST_ROW_DEPTH + DOWN - 1 + LATENCY;
    localparam LAST_RESULT_DEPTH = RESULT_DEPTH + RIGHT * (COLS / TC - 1);
    localparam PACKET_HOPS = TOP ? DOWN : RIGHT;

    // ---- registers of the grid ---------------------------------------------------------------
    reg [WIDTH-1:0] moving [0:RIGHT*PES-1];
    reg [17:0]      slot   [0:RIGHT*PES-1];              // {exchange, enable, columns left}
    reg [31:0]      sum    [0:DOWN*PES-1];
    reg [WIDTH-1:0] weight [0:PES-1];
    reg [WIDTH-1:0] shadow [0:PES-1];
    reg [31:0]      packet [0:PACKET_HOPS*PES-1];        // {still to pass by, elements left}
    reg [FAST*WIDTH-1:0] element [0:PACKET_HOPS*PES-1];  // the next element lowest

    // ---- registers of the edges; depth 0 is the wire from the port -----------------------------
    reg [32:0]      edge_slot    [0:LAST_ROW_DEPTH];              // {exchange, rows, columns}
    reg [WIDTH-1:0] edge_moving  [0:ROWS*(LAST_ROW_DEPTH+1)-1];
    reg [47:0]      edge_packet  [0:LANE_DEPTH];                  // {extent, pass by, elements}
    reg [FAST*WIDTH-1:0] edge_element [0:LANES*(LANE_DEPTH+1)-1];

    // ---- the result buffer ---------------------------------------------------------------------
    reg        bottom      [0:COLS*DOWN-1];                       // valid, under the last row
    reg [32:0] result_tag  [0:LAST_RESULT_DEPTH];                 // {accumulate, address}
    reg [32:0] result_late [0:COLS*(LATENCY+1)-1];                // {valid, finished column sum}
    reg [31:0] result      [0:COLS*RESULT_WORDS-1];
    reg        took        [0:COLS-1];                            // observation: written this cycle
    reg [31:0] took_address [0:COLS-1];
    reg [31:0] took_value   [0:COLS-1];

    // What a PE hands to its right: one column fewer to visit, an empty slot when none is left.
    function [17:0] slot_after;
        input [17:0] tag;
        slot_after = {tag[17:16], (tag[15:0] == 0) ? 16'd0 : tag[15:0] - 16'd1};
    endfunction

    // What a PE hands on of a packet of weights: nearer, or without the element it has taken.
    function [31:0] packet_after;
        input [31:0] tag;
        begin
            if (tag[15:0] == 0) packet_after = 0;
            else if (tag[31:16] != 0) packet_after = tag - 32'h00010000;
            else packet_after = tag - 32'd1;
        end
    endfunction

    integer r, c, i, j, k, p, q, depth, cell_row, cell_col, lane;
    reg [17:0]           slot_in;
    reg [WIDTH-1:0]      moving_in;
    reg [31:0]           sum_in;
    reg [31:0]           packet_in;
    reg [FAST*WIDTH-1:0] element_in;
    reg [32:0]           row_tag;
    reg [47:0]           lane_tag;
    reg [32:0]           word;

    // One PE (r, c), p = its number, for one clock edge.
    task step_pe;
        begin
            // operand and tags, from the left
            if (c == 0) begin
                depth = ENTRY + DOWN * (r / TR);
                row_tag = edge_slot[depth];
                slot_in = {row_tag[32], {16'd0, row_tag[31:16]} > r, row_tag[15:0]};
                moving_in = edge_moving[r*(LAST_ROW_DEPTH+1) + depth];
            end else begin
                q = p - 1 + ((c % TC == 0) ? (RIGHT-1)*PES : 0);
                slot_in = slot_after(slot[q]);
                moving_in = (slot_in[15:0] == 0) ? {WIDTH{1'b0}} : moving[q];
            end
            for (k = RIGHT-1; k > 0; k = k - 1) begin
                slot[k*PES + p] = slot[(k-1)*PES + p];
                moving[k*PES + p] = moving[(k-1)*PES + p];
            end
            slot[p] = slot_in;
            moving[p] = moving_in;

            // weights: exchange first, then the element that arrives in this cycle
            if (DOUBLE && slot_in[17]) weight[p] = shadow[p];
            step_sum;
            step_packet;
        end
    endtask

    // The multiplier, the adder and the hop registers below them.
    task step_sum;
        begin
            if (r == 0) sum_in = 0;
            else if (r % TR != 0) sum_in = sum[p - COLS];
            else sum_in = sum[(DOWN-1)*PES + p - COLS];
            for (k = DOWN-1; k > 0; k = k - 1) sum[k*PES + p] = sum[(k-1)*PES + p];
            if (slot_in[15:0] == 0) sum[p] = 0;
            else if (!slot_in[16]) sum[p] = sum_in;
            else sum[p] = number_add(sum_in, number_multiply(moving_in, weight[p]));
        end
    endtask

    // The weight chain: from the left or from the top, taken when nothing is left to pass by.
    task step_packet;
        begin
            lane = TOP ? c : r;
            if ((TOP ? r : c) == 0) begin
                depth = ENTRY + (TOP ? RIGHT * (c / TC) : DOWN * (r / TR));
                lane_tag = edge_packet[depth];
                packet_in = ({16'd0, lane_tag[47:32]} > lane) ? lane_tag[31:0] : 32'd0;
                element_in = edge_element[lane*(LANE_DEPTH+1) + depth];
            end else begin
                q = p - (TOP ? COLS : 1);
                if ((TOP ? r % TR : c % TC) == 0) q = q + (PACKET_HOPS-1)*PES;
                packet_in = packet_after(packet[q]);
                element_in = element[q];
                if (packet[q] >> 16 == 0) element_in = element_in >> WIDTH;
            end
            for (k = PACKET_HOPS-1; k > 0; k = k - 1) begin
                packet[k*PES + p] = packet[(k-1)*PES + p];
                element[k*PES + p] = element[(k-1)*PES + p];
            end
            packet[p] = packet_in;
            if (packet_in[15:0] != 0) element[p] = element_in;  // without a packet: don't care
            if (packet_in[31:16] == 0 && packet_in[15:0] != 0) begin
                if (DOUBLE) shadow[p] = element_in[WIDTH-1:0];
                else weight[p] = element_in[WIDTH-1:0];
            end
        end
    endtask

    task step_grid;
        for (cell_row = ROWS/TR - 1; cell_row >= 0; cell_row = cell_row - 1)
            for (cell_col = COLS/TC - 1; cell_col >= 0; cell_col = cell_col - 1)
                for (i = 0; i < TR; i = i + 1)
                    for (j = 0; j < TC; j = j + 1) begin
                        r = cell_row*TR + i;
                        c = cell_col*TC + j;
                        p = r*COLS + c;
                        step_pe;
                    end
    endtask

    // The result buffer takes what leaves the last register under the grid in this cycle. Of the
    // DOWN hop registers there, DOWN-1 are used: the word of the buffer is the last one. The valid
    // bit of the last row goes down with the sum, the address comes along the edge.
    task step_results;
        for (c = 0; c < COLS; c = c + 1) begin
            for (k = DOWN-1; k > 0; k = k - 1) bottom[c*DOWN + k] = bottom[c*DOWN + k - 1];
            slot_in = slot[(ROWS-1)*COLS + c];
            bottom[c*DOWN] = slot_in[15:0] != 0;

            for (k = LATENCY; k > 0; k = k - 1)
                result_late[c*(LATENCY+1) + k] = result_late[c*(LATENCY+1) + k - 1];
            result_late[c*(LATENCY+1)] = {bottom[c*DOWN + DOWN-1],
                                          sum[(DOWN-1)*PES + (ROWS-1)*COLS + c]};
            word = result_late[c*(LATENCY+1) + LATENCY];
            row_tag = result_tag[RESULT_DEPTH + RIGHT * (c / TC)];

            took[c] = word[32];
            took_address[c] = row_tag[31:0];
            if (word[32]) begin
                p = c*RESULT_WORDS + row_tag[31:0];
                took_value[c] = row_tag[32] ? number_add(result[p], word[31:0]) : word[31:0];
                result[p] = took_value[c];
            end
        end
    endtask

    // Depth 0 of every chain is what the ports show in this cycle.
    task drive_edges;
        begin
            edge_slot[0] = inject ? {inject_exchange, inject_rows, inject_columns} : 33'd0;
            edge_packet[0] = read ? {read_extent, read_first, read_count} : 48'd0;
            result_tag[0] = inject ? {inject_accumulate, inject_result_address} : 33'd0;
            for (r = 0; r < ROWS; r = r + 1)
                edge_moving[r*(LAST_ROW_DEPTH+1)] = moving_bus[r*WIDTH +: WIDTH];
            for (lane = 0; lane < LANES; lane = lane + 1)
                edge_element[lane*(LANE_DEPTH+1)] = weight_bus[lane*FAST*WIDTH +: FAST*WIDTH];
        end
    endtask

    task step_edges;
        begin
            for (k = LAST_ROW_DEPTH; k > 0; k = k - 1) edge_slot[k] = edge_slot[k-1];
            for (k = LANE_DEPTH; k > 0; k = k - 1) edge_packet[k] = edge_packet[k-1];
            for (k = LAST_RESULT_DEPTH; k > 0; k = k - 1) result_tag[k] = result_tag[k-1];
            for (r = 0; r < ROWS; r = r + 1)
                for (k = ENTRY + DOWN*(r/TR); k > 0; k = k - 1)
                    edge_moving[r*(LAST_ROW_DEPTH+1) + k] = edge_moving[r*(LAST_ROW_DEPTH+1) + k-1];
            for (lane = 0; lane < LANES; lane = lane + 1)
                for (k = ENTRY + (TOP ? RIGHT*(lane/TC) : DOWN*(lane/TR)); k > 0; k = k - 1)
                    edge_element[lane*(LANE_DEPTH+1) + k] = edge_element[lane*(LANE_DEPTH+1) + k-1];
        end
    endtask

    task clear;
        begin
            for (k = 0; k < RIGHT*PES; k = k + 1) begin
                slot[k] = 0;
                moving[k] = 0;
            end
            for (k = 0; k < DOWN*PES; k = k + 1) sum[k] = 0;
            for (k = 0; k < PACKET_HOPS*PES; k = k + 1) begin
                packet[k] = 0;
                element[k] = 0;
            end
            for (k = 0; k < PES; k = k + 1) begin
                weight[k] = 0;
                shadow[k] = 0;
            end
            for (k = 0; k <= LAST_ROW_DEPTH; k = k + 1) edge_slot[k] = 0;
            for (k = 0; k <= LANE_DEPTH; k = k + 1) edge_packet[k] = 0;
            for (k = 0; k <= LAST_RESULT_DEPTH; k = k + 1) result_tag[k] = 0;
            for (k = 0; k < ROWS*(LAST_ROW_DEPTH+1); k = k + 1) edge_moving[k] = 0;
            for (k = 0; k < LANES*(LANE_DEPTH+1); k = k + 1) edge_element[k] = 0;
            for (k = 0; k < COLS*(LATENCY+1); k = k + 1) result_late[k] = 0;
            for (k = 0; k < COLS*RESULT_WORDS; k = k + 1) result[k] = 0;
            for (k = 0; k < COLS*DOWN; k = k + 1) bottom[k] = 0;
            for (k = 0; k < COLS; k = k + 1) took[k] = 0;
        end
    endtask

    always @(posedge clk) begin
        if (reset) clear;
        else begin
            drive_edges;
            step_grid;
            step_results;
            step_edges;
        end
    end
endmodule
