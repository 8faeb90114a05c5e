// Bench of two 4 x 4 cores that exchange tiles over a link with one pool of bytes each way.
//
// Is:     two cores (exchange_core.v), two DMA queues beside each, their ports, the link between the
//         cores, of whose pool every copy on the way holds a share, and posts from core to core.
// Is not: told any schedule, nor anything of another model. All waits, posts, refusals and shares are
//         registers of its own.
//
// Files, 32-bit words for $readmemh, beside queueC.hex and stateC.hex of each core C:
//   posts.hex    4 words per multiply, those of a core in order: core, its vectors, semaphore + 1 of the
//                core that is posted when it is done (0: none)
//   copies.hex   16 words per copy, those of a queue in order: queue (0 and 1 of core 0, 2 and 3 of
//                core 1), semaphore + 1 of the feeding core to wait for (0: none), value, source core,
//                1 for the result buffer, first word, target core, first word, words per partition,
//                partitions, core to post, semaphore + 1 there (0: none)
// Plus arguments: +posts= +copies= (words of the files), +pool=, +rate= bytes in a cycle of a pool and of
//   a queue, +latency=, +descriptor=, +hop=, +post=, +hand= cycles (hand: from a post to its being
//   visible, at least 2), +limit=. Straps, for the tests that show that the comparison would notice:
//   +early_post=1 a post of the other core is visible a cycle early, +short_share=1 a share is given up
//   before a copy's last cycle, +remainder=1 the first holder gets what is left of a pool.
// Output, events.txt, "kind core cycle a b c", decimal: 1 start index; 2 read index number; 3 inject
//   index vector; 4 write partition address value; 5 copy starts, 6 first byte, 7 last byte: queue,
//   number; 9 end.
module exchange #(
    parameter STATE_WORDS = 64,
    parameter BANK_WORDS = 16,
    parameter RESULT_WORDS = 64,
    parameter COPY_WORDS = 1024
) (
    input wire clk
);
    localparam SIDE = 4;
    localparam QUEUES = 4;
    localparam SEMAPHORES = 16;
    localparam PENDING = 64;
    localparam BANKS = STATE_WORDS / BANK_WORDS;

    reg [31:0] copies [0:COPY_WORDS-1];
    reg [31:0] posts  [0:COPY_WORDS-1];
    integer copy_words, post_words, pool, rate, latency, descriptor, hop, post_hop, hand, limit;
    integer early_post, short_share, remainder, events;
    initial begin
        if (!$value$plusargs("copies=%d", copy_words)) copy_words = 0;
        if (!$value$plusargs("posts=%d", post_words)) post_words = 0;
        if (!$value$plusargs("pool=%d", pool)) pool = 4;
        if (!$value$plusargs("rate=%d", rate)) rate = 4;
        if (!$value$plusargs("latency=%d", latency)) latency = 0;
        if (!$value$plusargs("descriptor=%d", descriptor)) descriptor = 0;
        if (!$value$plusargs("hop=%d", hop)) hop = 0;
        if (!$value$plusargs("post=%d", post_hop)) post_hop = 0;
        if (!$value$plusargs("hand=%d", hand)) hand = 2;
        if (!$value$plusargs("limit=%d", limit)) limit = 100000;
        if (!$value$plusargs("early_post=%d", early_post)) early_post = 0;
        if (!$value$plusargs("short_share=%d", short_share)) short_share = 0;
        if (!$value$plusargs("remainder=%d", remainder)) remainder = 0;
        if (copy_words > 0) $readmemh("copies.hex", copies, 0, copy_words - 1);
        if (post_words > 0) $readmemh("posts.hex", posts, 0, post_words - 1);
        events = $fopen("events.txt", "w");
    end

    reg reset;
    exchange_core #(.CORE(0), .STATE_WORDS(STATE_WORDS), .RESULT_WORDS(RESULT_WORDS)) core0 (
        .clk(clk), .reset(reset));
    exchange_core #(.CORE(1), .STATE_WORDS(STATE_WORDS), .RESULT_WORDS(RESULT_WORDS)) core1 (
        .clk(clk), .reset(reset));
    wire [31:0] now = core0.now;

    // ---- registers of the queues, of the posts on their way, and of what lands with the next edge ---
    integer place    [0:QUEUES-1];   // of the next copy of a queue, a word of copies.hex
    integer number   [0:QUEUES-1];   // of that copy in its queue
    reg     at_work  [0:QUEUES-1];
    integer wait_left[0:QUEUES-1];   // cycles of latency left
    integer fetch    [0:QUEUES-1];   // cycles of the descriptor's cost left
    integer row      [0:QUEUES-1];   // partition in hand
    integer moved    [0:QUEUES-1];   // bytes of it
    reg     has_begun[0:QUEUES-1];
    reg     holds    [0:QUEUES-1];   // a share, in this cycle, of the pool from core to core:
    integer hold_from[0:QUEUES-1];
    integer hold_to  [0:QUEUES-1];
    integer due_at   [0:PENDING-1];  // a post: from when it is visible, and where
    integer due_core [0:PENDING-1];
    integer due_sem  [0:PENDING-1];
    reg     is_due   [0:PENDING-1];
    reg [16*SEMAPHORES-1:0] count0, count1;
    integer multiply [0:1];          // the multiply of each core that is written, a word of posts.hex
    integer vectors  [0:1];          // its vectors written
    integer land_count, landing_core [0:QUEUES*16-1], landing_word [0:QUEUES*16-1];
    reg [31:0] landing_value [0:QUEUES*16-1];
    reg     reads_busy  [0:2*BANKS-1];
    reg     writes_busy [0:2*BANKS-1];

    integer q, k, p, base, holders, share, stop, first_bank, found, ends, delay, lane, word;
    integer source_core, target_core, source_bank, target_bank, is_result, size;

    // ---- semaphores ----------------------------------------------------------------------------------
    task send;
        input integer from;
        input integer core;
        input integer sem;
        input integer cycle;
        begin
            delay = hand + (from == core ? 0 : post_hop - (early_post ? 1 : 0));
            found = 0;
            for (k = 0; k < PENDING; k = k + 1)
                if (!found && !is_due[k]) begin
                    found = 1;
                    is_due[k] = 1;
                    due_at[k] = cycle + delay;
                    due_core[k] = core;
                    due_sem[k] = sem;
                end
        end
    endtask

    function integer visible;
        input integer core;
        input integer sem;
        visible = core ? core1.count[16*sem +: 16] : core0.count[16*sem +: 16];
    endfunction

    // What is visible from the next cycle on.
    task count_posts;
        for (k = 0; k < PENDING; k = k + 1)
            if (is_due[k] && due_at[k] <= now + 1) begin
                is_due[k] = 0;
                if (due_core[k] == 0)
                    count0[16*due_sem[k] +: 16] = count0[16*due_sem[k] +: 16] + 16'd1;
                else
                    count1[16*due_sem[k] +: 16] = count1[16*due_sem[k] +: 16] + 16'd1;
            end
    endtask

    // A multiply is done when its last sum is in the last column.
    task complete;
        input integer core;
        begin
            vectors[core] = vectors[core] + 1;
            while (multiply[core] < post_words && posts[multiply[core]] != core)
                multiply[core] = multiply[core] + 4;
            if (vectors[core] == posts[multiply[core] + 1]) begin
                if (posts[multiply[core] + 2] != 0)
                    send(core, core, posts[multiply[core] + 2] - 1, now - 1);
                vectors[core] = 0;
                multiply[core] = multiply[core] + 4;
            end
        end
    endtask

    // ---- DMA: a cycle of all queues ------------------------------------------------------------------
    // Starts what can start, and says who holds a share in this cycle.
    task begin_queues;
        for (q = 0; q < QUEUES; q = q + 1) begin
            while (place[q] < copy_words && copies[place[q]] != q) place[q] = place[q] + 16;
            if (!at_work[q] && place[q] < copy_words
                && (copies[place[q] + 1] == 0
                    || visible(q / 2, copies[place[q] + 1] - 1) >= copies[place[q] + 2])) begin
                at_work[q] = 1;
                wait_left[q] = latency
                    + (copies[place[q] + 3] == copies[place[q] + 6] ? 0 : hop);
                fetch[q] = descriptor;
                row[q] = 0;
                moved[q] = 0;
                has_begun[q] = 0;
                $fwrite(events, "5 0 %0d %0d %0d 0\n", now, q, number[q]);
            end
            holds[q] = at_work[q] && wait_left[q] == 0;
            hold_from[q] = copies[place[q] + 3];
            hold_to[q] = copies[place[q] + 6];
            if (short_share && holds[q] && row[q] + 1 == copies[place[q] + 9]
                && moved[q] + rate >= 4*copies[place[q] + 8]) holds[q] = 0;
        end
    endtask

    // The bytes that the pool of a copy's way leaves it: all shares of a pool are alike.
    task find_share;
        begin
            source_core = copies[base + 3];
            target_core = copies[base + 6];
            share = rate;
            if (source_core != target_core) begin
                holders = 0;
                for (p = 0; p < QUEUES; p = p + 1)
                    if (holds[p] && hold_from[p] == source_core && hold_to[p] == target_core)
                        holders = holders + 1;
                if (holders == 0) holders = 1;
                k = pool / holders;
                if (remainder && q < 2) k = k + pool % holders;
                if (k < share) share = k;
            end
        end
    endtask

    task move_bytes;
        begin
            find_share;
            size = 4*copies[base + 8];
            stop = moved[q] + share < size ? moved[q] + share : size;
            is_result = copies[base + 4];
            source_bank = source_core*BANKS + (copies[base + 5] + moved[q] / 4) / BANK_WORDS;
            target_bank = target_core*BANKS + (copies[base + 7] + moved[q] / 4) / BANK_WORDS;
            if (!((!is_result && reads_busy[source_bank]) || writes_busy[target_bank])) begin
                if (!is_result) reads_busy[source_bank] = 1;
                writes_busy[target_bank] = 1;
                if (!has_begun[q]) $fwrite(events, "6 0 %0d %0d %0d 0\n", now, q, number[q]);
                has_begun[q] = 1;
                for (word = moved[q] / 4; word < stop / 4; word = word + 1) begin
                    landing_core[land_count] = target_core;
                    landing_word[land_count] = row[q]*STATE_WORDS + copies[base + 7] + word;
                    k = is_result ? row[q]*RESULT_WORDS + copies[base + 5] + word
                                  : row[q]*STATE_WORDS + copies[base + 5] + word;
                    if (is_result)
                        landing_value[land_count] = source_core ? core1.grid.result[k]
                                                                : core0.grid.result[k];
                    else
                        landing_value[land_count] = source_core ? core1.state[k] : core0.state[k];
                    land_count = land_count + 1;
                end
                moved[q] = stop;
                if (stop == size) end_descriptor;
            end
        end
    endtask

    task end_descriptor;
        begin
            moved[q] = 0;
            fetch[q] = descriptor;
            row[q] = row[q] + 1;
            if (row[q] == copies[base + 9]) begin
                $fwrite(events, "7 0 %0d %0d %0d 0\n", now, q, number[q]);
                if (copies[base + 11] != 0)
                    send(q / 2, copies[base + 10], copies[base + 11] - 1, now);
                at_work[q] = 0;
                place[q] = place[q] + 16;
                number[q] = number[q] + 1;
            end
        end
    endtask

    task step_queues;
        begin
            for (k = 0; k < 2*BANKS; k = k + 1) begin
                reads_busy[k] = 0;
                writes_busy[k] = 0;
            end
            if (core0.inject) reads_busy[core0.inject_address / BANK_WORDS] = 1;
            if (core1.inject) reads_busy[BANKS + core1.inject_address / BANK_WORDS] = 1;
            if (core0.read)
                reads_busy[(core0.read_address + core0.read_first) / BANK_WORDS] = 1;
            if (core1.read)
                reads_busy[BANKS + (core1.read_address + core1.read_first) / BANK_WORDS] = 1;
            land_count = 0;
            begin_queues;
            for (q = 0; q < QUEUES; q = q + 1) begin
                base = place[q];
                if (at_work[q]) begin
                    if (wait_left[q] != 0) wait_left[q] = wait_left[q] - 1;
                    else if (fetch[q] != 0) fetch[q] = fetch[q] - 1;
                    else move_bytes;
                end
            end
        end
    endtask

    // ---- observation ---------------------------------------------------------------------------------
    task dump;
        begin
            if (core0.start_multiply)
                $fwrite(events, "1 0 %0d %0d 0 0\n", now, core0.start_multiply_index);
            if (core1.start_multiply)
                $fwrite(events, "1 1 %0d %0d 0 0\n", now, core1.start_multiply_index);
            if (core0.start_load) $fwrite(events, "1 0 %0d %0d 0 0\n", now, core0.start_load_index);
            if (core1.start_load) $fwrite(events, "1 1 %0d %0d 0 0\n", now, core1.start_load_index);
            if (core0.read)
                $fwrite(events, "2 0 %0d %0d %0d 0\n", now, core0.active_load_index, core0.read_first);
            if (core1.read)
                $fwrite(events, "2 1 %0d %0d %0d 0\n", now, core1.active_load_index, core1.read_first);
            if (core0.inject)
                $fwrite(events, "3 0 %0d %0d %0d 0\n", now, core0.active_multiply_index,
                        core0.active_vector);
            if (core1.inject)
                $fwrite(events, "3 1 %0d %0d %0d 0\n", now, core1.active_multiply_index,
                        core1.active_vector);
        end
    endtask

    task dump_results;
        for (p = 0; p < SIDE; p = p + 1) begin
            if (core0.grid.took[p])
                $fwrite(events, "4 0 %0d %0d %0d %0d\n", now - 1, p, core0.grid.took_address[p],
                        core0.grid.took_value[p]);
            if (core1.grid.took[p])
                $fwrite(events, "4 1 %0d %0d %0d %0d\n", now - 1, p, core1.grid.took_address[p],
                        core1.grid.took_value[p]);
        end
    endtask

    // ---- time ------------------------------------------------------------------------------------------
    integer edges, quiet;
    reg stopped;
    initial begin
        reset = 1;
        edges = 0;
        quiet = 0;
        stopped = 0;
        land_count = 0;
        for (k = 0; k < QUEUES; k = k + 1) begin
            place[k] = 0;
            number[k] = 0;
            at_work[k] = 0;
        end
        for (k = 0; k < PENDING; k = k + 1) is_due[k] = 0;
        count0 = 0;
        count1 = 0;
        for (k = 0; k < 2; k = k + 1) begin
            multiply[k] = 0;
            vectors[k] = 0;
        end
    end

    always @(posedge clk) begin
        edges <= edges + 1;
        reset <= edges < 1;
        if (!reset) begin
            core0.count <= count0;
            core1.count <= count1;
            for (lane = 0; lane < land_count; lane = lane + 1)
                if (landing_core[lane] == 0) core0.state[landing_word[lane]] = landing_value[lane];
                else core1.state[landing_word[lane]] = landing_value[lane];
        end
    end

    always @(negedge clk) begin
        if (!reset && !stopped) begin
            if (now != 0) begin
                dump_results;
                if (core0.grid.took[SIDE-1]) complete(0);
                if (core1.grid.took[SIDE-1]) complete(1);
            end
            dump;
            step_queues;
            count_posts;
            ends = 0;
            for (k = 0; k < QUEUES; k = k + 1)
                if (at_work[k] || place[k] < copy_words) ends = 1;
            quiet = core0.idle && core1.idle && ends == 0 ? quiet + 1 : 0;
            if (quiet > 4*SIDE || now == limit) begin
                stopped = 1;
                $fwrite(events, "9 0 %0d 0 0 0\n", now == limit ? 0 : now);
                $fclose(events);
                $finish;
            end
        end
    end
endmodule
