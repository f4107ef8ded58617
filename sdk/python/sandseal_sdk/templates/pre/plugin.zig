//! One row of values, standardised: what many models were trained on.
const sandseal = @import("sandseal");

comptime {
    sandseal.stage("preprocess", preprocess);
}

fn preprocess(call: *sandseal.Call) !void {
    const values = call.input(0).items(f32);
    if (values.len == 0) return call.refuse("values is empty"); // the client gets this text

    const n: f64 = @floatFromInt(values.len);
    var sum: f64 = 0;
    var squares: f64 = 0;
    for (values) |value| sum += value;
    const mean = sum / n;
    for (values) |value| squares += (value - mean) * (value - mean);
    const spread = @sqrt(squares / n);
    if (spread == 0) return call.refuse("all values are the same");

    const x = try call.output(0).make(f32, &.{ 1, @intCast(values.len) });
    for (x, values) |*to, from| to.* = @floatCast((from - mean) / spread);
}
