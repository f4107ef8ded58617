//! Per row of scores: which is the best, and its probability (softmax).
const std = @import("std");
const sandseal = @import("sandseal");

comptime {
    sandseal.stage("postprocess", postprocess);
}

fn postprocess(call: *sandseal.Call) !void {
    const scores = call.input(0);
    const rows: usize = @intCast(scores.shape[0]);
    const labels: usize = @intCast(scores.shape[1]);
    if (labels == 0) return call.refuse("scores is empty"); // the client gets this text

    const best = try call.output(0).make(i64, &.{scores.shape[0]});
    const probability = try call.output(1).make(f32, &.{scores.shape[0]});
    for (best, probability, 0..rows) |*b, *p, i| {
        const row = scores.items(f32)[i * labels ..][0..labels];
        const largest = std.mem.findMax(f32, row);
        var sum: f32 = 0;
        for (row) |score| sum += @exp(score - row[largest]);
        b.* = @intCast(largest);
        p.* = 1 / sum;
    }
}
