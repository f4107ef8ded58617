//! sandseal.zig: write a Sandseal plugin in Zig (plugin ABI v1; sdk/abi/abi-v1.md is normative).
//!
//!     const sandseal = @import("sandseal");
//!
//!     comptime {
//!         sandseal.stage("scale", scale);
//!     }
//!
//!     fn scale(call: *sandseal.Call) !void {
//!         const from = call.input(0).items(f32);
//!         if (from.len == 0) return call.refuse("x is empty");
//!         const to = try call.output(0).make(f32, call.input(0).axes());
//!         sandseal.scale(to, from, 1.0 / 255.0, 0);
//!     }
//!
//! The host has checked every input against the signed manifest: data type, rank, fixed axes, size, alignment.
//! An instance serves one request and is then dropped, so nothing need be freed. An error other than that of
//! `refuse` is the plugin's fault and ends in a trap; the trace names it.

const std = @import("std");
const builtin = @import("builtin");

comptime {
    if (builtin.target.cpu.arch != .wasm32) @compileError("build for wasm32: `sandseal build` does");
}

// ---- What crosses the border --------------------------------------------------------------------------------------

/// Data types, by their ONNX TensorProto numbers.
pub const DType = enum(u32) {
    FP32 = 1,
    UINT8 = 2,
    INT8 = 3,
    UINT16 = 4,
    INT16 = 5,
    INT32 = 6,
    INT64 = 7,
    BYTES = 8,
    BOOL = 9,
    FP16 = 10,
    FP64 = 11,
    UINT32 = 12,
    UINT64 = 13,
    BF16 = 16,
    _,

    /// Whether T can hold an element; BF16 comes as u16.
    pub fn fits(self: DType, comptime T: type) bool {
        return switch (T) {
            f16 => self == .FP16,
            f32 => self == .FP32,
            f64 => self == .FP64,
            bool => self == .BOOL,
            u8 => self == .UINT8 or self == .BOOL,
            i8 => self == .INT8,
            u16 => self == .UINT16 or self == .BF16,
            i16 => self == .INT16,
            u32 => self == .UINT32,
            i32 => self == .INT32,
            u64 => self == .UINT64,
            i64 => self == .INT64,
            else => @compileError("no tensor has elements of type " ++ @typeName(T)),
        };
    }
};

/// A tensor. Of an output the host has set data type, rank, name and the fixed axes; free axes are -1.
pub const Tensor = extern struct {
    dtype: DType,
    rank: u32,
    data: u32,
    flags: u32,
    byte_len: u64,
    shape: [8]i64,
    name: u32,
    name_len: u32,

    pub fn axes(self: *const Tensor) []const i64 {
        return self.shape[0..self.rank];
    }

    /// How many elements it has.
    pub fn count(self: *const Tensor) usize {
        var product: usize = 1;
        for (self.axes()) |size| product *= @intCast(size);
        return product;
    }

    /// Its elements, row-major, for the plugin to change if it likes.
    pub fn items(self: *const Tensor, comptime T: type) []T {
        if (!self.dtype.fits(T)) @panic("the tensor in plugin.toml has no elements of type " ++ @typeName(T));
        return view(T, self.data, self.count());
    }

    /// The elements of a BYTES tensor: `while (texts.next()) |text|`.
    pub fn texts(self: *const Tensor) Texts {
        return .{ .rest = view(u8, self.data, @intCast(self.byte_len)) };
    }

    /// Points an output at elements that are already there (an input's, too).
    pub fn give(self: *Tensor, comptime T: type, sizes: []const i64, elements: []const T) void {
        if (!self.dtype.fits(T)) @panic("the output in plugin.toml has no elements of type " ++ @typeName(T));
        self.point(sizes, std.mem.sliceAsBytes(elements));
    }

    /// Room for a numeric output of this shape, for the caller to fill.
    pub fn make(self: *Tensor, comptime T: type, sizes: []const i64) error{OutOfMemory}![]T {
        var wanted: usize = 1;
        for (sizes) |size| wanted = std.math.mul(usize, wanted, @intCast(size)) catch return error.OutOfMemory;
        const elements = try allocator.alloc(T, wanted);
        self.give(T, sizes, elements);
        return elements;
    }

    fn point(self: *Tensor, sizes: []const i64, bytes: []const u8) void {
        @memcpy(self.shape[0..self.rank], sizes);
        self.data = @intFromPtr(bytes.ptr);
        self.byte_len = bytes.len;
    }
};

/// One call of a stage. Its tensors are in the manifest's order.
pub const Call = extern struct {
    n_inputs: u32,
    inputs: u32,
    n_outputs: u32,
    outputs: u32,
    params: u32,
    params_len: u32,
    config: u32,
    config_len: u32,
    @"error": u32,
    error_len: u32,
    flags: u32,
    reserved: [5]u32,

    pub fn input(self: *const Call, index: usize) *const Tensor {
        return &view(Tensor, self.inputs, self.n_inputs)[index];
    }

    pub fn output(self: *const Call, index: usize) *Tensor {
        return &view(Tensor, self.outputs, self.n_outputs)[index];
    }

    /// Refuses the input: the client gets this text. `return call.refuse("the image is empty");`
    pub fn refuse(self: *Call, why: []const u8) error{Refused} {
        self.@"error" = @intFromPtr(why.ptr);
        self.error_len = why.len;
        return error.Refused;
    }

    /// The stage's signed config, JSON; `number` reads one of it, std.json all.
    pub fn configJson(self: *const Call) []const u8 {
        return view(u8, self.config, self.config_len);
    }

    /// The request's parameters, JSON. The client chooses them: check the range.
    pub fn paramsJson(self: *const Call) []const u8 {
        return view(u8, self.params, self.params_len);
    }
};

comptime {
    if (@sizeOf(Tensor) != 96 or @offsetOf(Tensor, "shape") != 24) @compileError("ABI v1: a tensor");
    if (@sizeOf(Call) != 64 or @offsetOf(Call, "error") != 32) @compileError("ABI v1: a call");
}

fn view(comptime T: type, at: u32, size: usize) []T {
    const first: [*]T = if (size == 0) &[0]T{} else @ptrFromInt(at);
    return first[0..size];
}

// ---- Declaring ----------------------------------------------------------------------------------------------------

/// Exports the stage function that plugin.toml names: `comptime { sandseal.stage("scale", scale); }`
pub fn stage(comptime name: []const u8, comptime body: fn (*Call) anyerror!void) void {
    const exported = struct {
        fn enter(call: *Call) callconv(.c) i32 {
            body(call) catch |problem| switch (problem) {
                error.Refused => return 1,
                else => @panic(@errorName(problem)),
            };
            return 0;
        }
    };
    @export(&exported.enter, .{ .name = name });
}

/// Logs what went wrong before it traps (import "log"). In plugin.zig: `pub const panic = sandseal.panic;`
pub const panic = std.debug.FullPanic(struct {
    fn logAndTrap(what: []const u8, _: ?usize) noreturn {
        log(.@"error", what);
        @trap();
    }
}.logAndTrap);

// ---- Memory -------------------------------------------------------------------------------------------------------

export fn sandseal_abi() i32 {
    return 1;
}

export fn sandseal_alloc(size: u32, alignment: u32) ?[*]u8 {
    return take(null, size, .fromByteUnits(alignment), 0);
}

export fn sandseal_reset() void {
    top = 0;
}

extern const __heap_base: u8; // from the linker: where static data ends
var top: usize = 0; // where free memory starts; 0 before the first allocation

/// Memory that lives as long as the call: only the last block is really freed or resized.
pub const allocator: std.mem.Allocator = .{
    .ptr = undefined,
    .vtable = &.{
        .alloc = take,
        .resize = resize,
        .remap = remap,
        .free = free,
    },
};

fn take(_: ?*anyopaque, size: usize, alignment: std.mem.Alignment, _: usize) ?[*]u8 {
    const free_from = if (top != 0) top else @intFromPtr(&__heap_base);
    const start = alignment.forward(free_from);
    return if (reach(start, size)) @ptrFromInt(start) else null;
}

fn resize(_: ?*anyopaque, block: []u8, _: std.mem.Alignment, size: usize, _: usize) bool {
    const start = @intFromPtr(block.ptr);
    return if (start + block.len == top) reach(start, size) else size <= block.len;
}

fn remap(self: ?*anyopaque, block: []u8, alignment: std.mem.Alignment, size: usize, caller: usize) ?[*]u8 {
    return if (resize(self, block, alignment, size, caller)) block.ptr else null;
}

fn free(_: ?*anyopaque, block: []u8, _: std.mem.Alignment, _: usize) void {
    if (@intFromPtr(block.ptr) + block.len == top) top = @intFromPtr(block.ptr);
}

/// Ends what is taken `size` bytes after `start`; false when there is no room.
fn reach(start: usize, size: usize) bool {
    const end = std.math.add(usize, start, size) catch return false;
    const have = @wasmMemorySize(0) * page;
    if (end > have and @wasmMemoryGrow(0, (end - have + page - 1) / page) < 0) return false;
    top = end;
    return true;
}

const page = 65_536;

// ---- Text and BYTES tensors ---------------------------------------------------------------------------------------

/// Walks the elements of a BYTES tensor.
pub const Texts = struct {
    rest: []const u8,

    pub fn next(self: *Texts) ?[]const u8 {
        if (self.rest.len == 0) return null;
        const size = std.mem.readInt(u32, self.rest[0..4], .little);
        defer self.rest = self.rest[4 + size ..];
        return self.rest[4..][0..size];
    }
};

/// Collects the elements of a BYTES output: `var writer: sandseal.Writer = .{};`
pub const Writer = struct {
    bytes: std.ArrayList(u8) = .empty,

    pub fn append(self: *Writer, text: []const u8) error{OutOfMemory}!void {
        @memcpy(try self.element(text.len), text);
    }

    /// Adds an element and returns where to write it; the address is good until the next element.
    pub fn element(self: *Writer, size: usize) error{OutOfMemory}![]u8 {
        std.mem.writeInt(u32, try self.bytes.addManyAsArray(allocator, 4), @intCast(size), .little);
        return self.bytes.addManyAsSlice(allocator, size);
    }

    pub fn finish(self: *const Writer, output: *Tensor, sizes: []const i64) void {
        output.point(sizes, self.bytes.items);
    }
};

/// The number that member `name` of a JSON object holds; null when it is absent or no number.
/// `sandseal.number(call.configJson(), "top_k") orelse 5`
pub fn number(json: []const u8, name: []const u8) ?f64 {
    var scanner = std.json.Scanner.initCompleteInput(allocator, json);
    if ((scanner.next() catch return null) != .object_begin) return null;
    while (true) {
        const key = switch (scanner.nextAlloc(allocator, .alloc_if_needed) catch return null) {
            inline .string, .allocated_string => |text| text,
            else => return null,
        };
        if (!std.mem.eql(u8, key, name)) {
            scanner.skipValue() catch return null;
            continue;
        }
        return switch (scanner.nextAlloc(allocator, .alloc_if_needed) catch return null) {
            inline .number, .allocated_number => |text| std.fmt.parseFloat(f64, text) catch null,
            else => null,
        };
    }
}

// ---- Many numbers at once -----------------------------------------------------------------------------------------

const Block = @Vector(16, f32); // four SIMD registers a step, which also makes the host's time check free

/// The sum of x[i] * y[i], in sixteen partial sums: what the compiler may not make of a loop, as it rounds otherwise.
pub fn dot(x: []const f32, y: []const f32) f32 {
    var sums: Block = @splat(0);
    var i: usize = 0;
    while (i + 16 <= x.len) : (i += 16) sums += @as(Block, x[i..][0..16].*) * @as(Block, y[i..][0..16].*);
    var total = @reduce(.Add, sums);
    for (x[i..], y[i..x.len]) |a, b| total += a * b;
    return total;
}

/// The sum of x[i], likewise.
pub fn sum(x: []const f32) f32 {
    var sums: Block = @splat(0);
    var i: usize = 0;
    while (i + 16 <= x.len) : (i += 16) sums += x[i..][0..16].*;
    var total = @reduce(.Add, sums);
    for (x[i..]) |a| total += a;
    return total;
}

/// to[i] = from[i] * factor + offset, of floats or bytes; `to` may be `from`.
pub fn scale(to: []f32, from: anytype, factor: f32, offset: f32) void {
    const T = std.meta.Elem(@TypeOf(from));
    var i: usize = 0;
    while (i + 16 <= to.len) : (i += 16) {
        const values: @Vector(16, T) = from[i..][0..16].*;
        const floats: Block = if (T == f32) values else @floatFromInt(values);
        to[i..][0..16].* = floats * @as(Block, @splat(factor)) + @as(Block, @splat(offset));
    }
    for (to[i..], from[i..to.len]) |*t, f| {
        const float: f32 = if (T == f32) f else @floatFromInt(f);
        t.* = float * factor + offset;
    }
}

// ---- The host's functions; each needs its name among the manifest's `imports` ---------------------------------------

const host = struct {
    extern "sandseal" fn log(level: u32, text: [*]const u8, size: u32) void;
    extern "sandseal" fn now() i64;
    extern "sandseal" fn random(to: [*]u8, size: u32) void;
    extern "sandseal" fn asset(name: [*]const u8, name_size: u32, to: ?[*]u8, room: u32) i64;
};

pub const Level = enum(u32) { debug, info, warning, @"error" };

/// A line in the host's log (import "log"); the host limits the rate and escapes control characters.
pub fn log(level: Level, line: []const u8) void {
    host.log(@intFromEnum(level), line.ptr, line.len);
}

/// Milliseconds since 1970 (import "now").
pub fn now() i64 {
    return host.now();
}

/// Fills with random bytes, at most 65,536 (import "random").
pub fn random(to: []u8) void {
    host.random(to.ptr, to.len);
}

/// A signed file that the manifest lists under `assets` (import "asset"); null when it does not.
pub fn asset(name: []const u8) error{OutOfMemory}!?[]const u8 {
    const size = host.asset(name.ptr, name.len, null, 0);
    if (size < 0) return null;
    const bytes = try allocator.alloc(u8, @intCast(size));
    _ = host.asset(name.ptr, name.len, bytes.ptr, bytes.len);
    return bytes;
}
