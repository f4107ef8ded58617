//! Every part of sandseal.zig; test_languages.py says what each stage must answer.
const std = @import("std");
const sandseal = @import("sandseal");
const Call = sandseal.Call;

pub const panic = sandseal.panic;

comptime {
    sandseal.stage("layout", layout);
    sandseal.stage("texts", texts);
    sandseal.stage("numbers", numbers);
    sandseal.stage("asks", asks);
    sandseal.stage("vectors", vectors);
    sandseal.stage("faulty", faulty);
}

const facts = blk: {
    var found: []const i64 = &.{};
    for (.{ Call, sandseal.Tensor }) |T| {
        found = found ++ [_]i64{@sizeOf(T)};
        for (@typeInfo(T).@"struct".field_names) |name| found = found ++ [_]i64{@offsetOf(T, name)};
    }
    for (.{ sandseal.DType, sandseal.Level }) |E| {
        for (@typeInfo(E).@"enum".field_names) |name| found = found ++ [_]i64{@intFromEnum(@field(E, name))};
    }
    break :blk found;
};

fn layout(call: *Call) !void {
    call.output(0).give(i64, &.{facts.len}, facts);
}

fn texts(call: *Call) !void {
    if (call.input(0).count() == 0) return call.refuse("keine Wörter");
    var writer: sandseal.Writer = .{};
    var found = call.input(0).texts();
    var count: i64 = 1;
    while (found.next()) |text| : (count += 1) {
        const to = try writer.element(text.len);
        @memcpy(to, text);
        std.mem.reverse(u8, to);
    }
    try writer.append("end");
    writer.finish(call.output(0), &.{count});
}

fn numbers(call: *Call) !void {
    const y = try call.output(0).make(f64, call.input(0).axes());
    var names = call.input(0).texts();
    for (y) |*to| {
        const found = sandseal.number(call.paramsJson(), names.next().?) orelse -1;
        to.* = found * (sandseal.number(call.configJson(), "scale") orelse 0);
    }
}

fn asks(call: *Call) !void {
    const asset = try sandseal.asset("table.bin") orelse return call.refuse("the asset is not there");
    if (try sandseal.asset("other.bin") != null) return call.refuse("there is another asset");
    var noise: [2][16]u8 = undefined;
    for (&noise) |*bytes| sandseal.random(bytes);
    sandseal.log(.warning, "asked");
    const y = try call.output(0).make(i64, &.{3});
    y[0] = @as(i64, asset.len) * 1000 + asset[1];
    y[1] = sandseal.now();
    y[2] = @intFromBool(!std.mem.eql(u8, &noise[0], &noise[1]));
}

fn vectors(call: *Call) !void {
    const x = call.input(0).items(f32);
    const sums = try call.output(0).make(f32, &.{2});
    sums[0] = sandseal.sum(x);
    sums[1] = sandseal.dot(x, x);
    sandseal.scale(try call.output(1).make(f32, call.input(0).axes()), x, 0.5, 1);
    sandseal.scale(try call.output(2).make(f32, call.input(0).axes()), call.input(1).items(u8), 0.25, -1);
}

noinline fn deep_inside(x: []const f32) f32 {
    const hidden: *const volatile usize = &x.len;
    return x[0..1][hidden.* - 1];
}

fn faulty(call: *Call) !void {
    const y = try call.output(0).make(f32, &.{1});
    y[0] = deep_inside(call.input(0).items(f32));
}
