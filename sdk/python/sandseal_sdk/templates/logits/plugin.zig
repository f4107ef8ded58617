//! The token that was just chosen is less likely to come again at once.
const sandseal = @import("sandseal");

comptime {
    sandseal.stage("constrain", constrain);
}

fn constrain(call: *sandseal.Call) !void {
    const ids = call.input(0).items(i64);
    const logits = call.input(1).items(f32);
    if (ids.len != 0) {
        const last = ids[ids.len - 1];
        if (last < 0 or last >= logits.len)
            return call.refuse("ids has a token that logits does not"); // the answer ends with this text
        logits[@intCast(last)] -= 2;
    }
    call.output(0).give(f32, call.input(1).axes(), logits);
}
