// sandseal.ts: write a Sandseal plugin in AssemblyScript (plugin ABI v1; sdk/abi/abi-v1.md is normative).
//
//     import { Call, DONE, scale } from "sandseal";
//
//     export function shrink(call: Call): i32 {
//         const from = call.input(0).items<f32>();
//         if (from.length == 0) return call.refuse("x is empty");
//         const to = call.output(0).make<f32>(call.input(0).axes());
//         scale(to, from, 1.0 / 255.0, 0);
//         return DONE;
//     }
//
// The host has checked every input against the signed manifest: data type, rank, fixed axes, size, alignment.
// An instance serves one request and is then dropped, so memory is never collected. `throw`, a failed `assert` and an
// index out of range are the plugin's fault: they trap, with a line in the log where plugin.toml asks for "log".

// ---- What crosses the border ----------------------------------------------------------------------------------------

/** Data types, by their ONNX TensorProto numbers. */
export enum DType {
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
}

/** What a stage returns. */
export const DONE: i32 = 0;

/** A tensor. Of an output the host has set data type, rank, name and the fixed axes; free axes are -1. */
@unmanaged
export class Tensor {
    dtype: u32;
    rank: u32;
    data: u32;
    flags: u32;
    byteLen: u64;
    shape: i64; // the first of eight: see axis
    private shape1: i64;
    private shape2: i64;
    private shape3: i64;
    private shape4: i64;
    private shape5: i64;
    private shape6: i64;
    private shape7: i64;
    name: u32;
    nameLen: u32;

    /** The size of one axis. */
    @inline
    axis(index: u32): i64 {
        return load<i64>(changetype<usize>(this) + offsetof<Tensor>("shape") + <usize>index * 8);
    }

    axes(): StaticArray<i64> {
        const sizes = new StaticArray<i64>(this.rank);
        for (let i: u32 = 0; i < this.rank; i++) sizes[i] = this.axis(i);
        return sizes;
    }

    /** How many elements it has. */
    count(): i32 {
        let product: i64 = 1;
        for (let i: u32 = 0; i < this.rank; i++) product *= this.axis(i);
        return <i32>product;
    }

    /** Its elements, row-major, for the plugin to change if it likes. */
    items<T>(): View<T> {
        assert(fits<T>(this.dtype), "the tensor in plugin.toml has elements of another type");
        return new View<T>(this.data, this.count());
    }

    /** The elements of a BYTES tensor: `for (let text = texts.next(); text; text = texts.next())`. */
    texts(): Texts {
        assert(this.dtype == DType.BYTES, "the tensor in plugin.toml is not BYTES");
        return new Texts(this.data, this.data + <usize>this.byteLen);
    }

    /** Points an output at elements that are already there (an input's, too). */
    give<T>(sizes: StaticArray<i64>, elements: View<T>): void {
        assert(fits<T>(this.dtype), "the output in plugin.toml has elements of another type");
        this.point(sizes, elements.at, <u64>elements.length * sizeof<T>());
    }

    /** Room for a numeric output of this shape, for the caller to fill. */
    make<T>(sizes: StaticArray<i64>): View<T> {
        let wanted: u64 = 1;
        for (let i = 0; i < sizes.length; i++) {
            wanted *= <u64>sizes[i];
            assert(wanted <= <u64>i32.MAX_VALUE, "the output is larger than memory can be");
        }
        const elements = new View<T>(heap.alloc(<usize>wanted * sizeof<T>()), <i32>wanted);
        this.give<T>(sizes, elements);
        return elements;
    }

    point(sizes: StaticArray<i64>, data: usize, size: u64): void {
        for (let i: u32 = 0; i < this.rank; i++) {
            store<i64>(changetype<usize>(this) + offsetof<Tensor>("shape") + <usize>i * 8, sizes[i]);
        }
        this.data = <u32>data;
        this.byteLen = size;
    }
}

/** One call of a stage. Its tensors are in the manifest's order. */
@unmanaged
export class Call {
    nInputs: u32;
    inputs: u32;
    nOutputs: u32;
    outputs: u32;
    params: u32;
    paramsLen: u32;
    config: u32;
    configLen: u32;
    error: u32;
    errorLen: u32;
    flags: u32;
    private reserved: u32;
    private reserved1: u32;
    private reserved2: u32;
    private reserved3: u32;
    private reserved4: u32;

    input(index: u32): Tensor {
        assert(index < this.nInputs, "plugin.toml lists fewer inputs");
        return changetype<Tensor>(this.inputs + index * offsetof<Tensor>());
    }

    output(index: u32): Tensor {
        assert(index < this.nOutputs, "plugin.toml lists fewer outputs");
        return changetype<Tensor>(this.outputs + index * offsetof<Tensor>());
    }

    /** Refuses the input: the client gets this text. `return call.refuse("the image is empty");` */
    refuse(why: string): i32 {
        const text = String.UTF8.encode(why);
        this.error = <u32>changetype<usize>(text);
        this.errorLen = text.byteLength;
        return 1;
    }

    /** A number of the stage's signed config; `otherwise` when it is absent or no number. */
    configNumber(name: string, otherwise: f64): f64 {
        return new Json(this.config, this.configLen).number(name, otherwise);
    }

    /** All of the config, as JSON. */
    configJson(): string {
        return String.UTF8.decodeUnsafe(this.config, this.configLen);
    }

    /** All of the parameters, as JSON. */
    paramsJson(): string {
        return String.UTF8.decodeUnsafe(this.params, this.paramsLen);
    }

    /** A number of the request's parameters. The client chooses them: check the range. */
    paramNumber(name: string, otherwise: f64): f64 {
        return new Json(this.params, this.paramsLen).number(name, otherwise);
    }
}

/** `length` elements that lie elsewhere. An index is checked, save within `unchecked(...)`. */
export class View<T> {
    constructor(public readonly at: usize, public readonly length: i32) {}

    @inline @operator("[]")
    private get(index: i32): T {
        if (<u32>index >= <u32>this.length) throw new RangeError("index out of range");
        return load<T>(this.at + <usize>index * sizeof<T>());
    }

    @inline @operator("[]=")
    private set(index: i32, value: T): void {
        if (<u32>index >= <u32>this.length) throw new RangeError("index out of range");
        store<T>(this.at + <usize>index * sizeof<T>(), value);
    }

    @inline @operator("{}")
    private uncheckedGet(index: i32): T {
        return load<T>(this.at + <usize>index * sizeof<T>());
    }

    @inline @operator("{}=")
    private uncheckedSet(index: i32, value: T): void {
        store<T>(this.at + <usize>index * sizeof<T>(), value);
    }

    /** `length` of them, from `first` on. */
    part(first: i32, length: i32): View<T> {
        assert(first >= 0 && length >= 0 && length <= this.length - first, "the part is larger than the whole");
        return new View<T>(this.at + <usize>first * sizeof<T>(), length);
    }
}

/** Whether T can hold an element of a data type; FP16 and BF16 come as u16. */
function fits<T>(dtype: u32): bool {
    if (isFloat<T>()) return dtype == (sizeof<T>() == 4 ? DType.FP32 : DType.FP64);
    if (isBoolean<T>()) return dtype == DType.BOOL;
    if (isSigned<T>()) {
        if (sizeof<T>() == 1) return dtype == DType.INT8;
        if (sizeof<T>() == 2) return dtype == DType.INT16;
        return dtype == (sizeof<T>() == 4 ? DType.INT32 : DType.INT64);
    }
    if (sizeof<T>() == 1) return dtype == DType.UINT8 || dtype == DType.BOOL;
    if (sizeof<T>() == 2) return dtype == DType.UINT16 || dtype == DType.FP16 || dtype == DType.BF16;
    return dtype == (sizeof<T>() == 4 ? DType.UINT32 : DType.UINT64);
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

export function sandseal_abi(): i32 {
    return 1;
}

const OVERHEAD: usize = 4; // before each block of the runtime `stub`: its size
let block: usize = 0; // the first one given to the host since the last reset

/** Where the next block would start: the runtime takes a last block back. */
function top(): usize {
    const next = heap.alloc(0);
    heap.free(next);
    return next;
}

export function sandseal_alloc(size: usize, align: usize): usize {
    if (align > 16 || size > <usize>i32.MAX_VALUE) return 0;
    const missing = <i64>top() + <i64>size + 16 - (<i64>memory.size() << 16); // heap.alloc would trap
    if (missing > 0 && memory.grow(<i32>((missing + 0xffff) >> 16)) < 0) return 0;
    const room = heap.alloc(size);
    if (!block) block = room;
    return room;
}

/** Frees `block` and all that was taken after it, as the one last block that it makes of them. */
export function sandseal_reset(): void {
    if (!block) return;
    store<usize>(block - OVERHEAD, top() - OVERHEAD - block);
    heap.free(block);
    block = 0;
}

// ---- Text and BYTES tensors -----------------------------------------------------------------------------------------

/** Bytes that lie elsewhere. */
@final
export class Text extends View<u8> {
    toString(): string {
        return String.UTF8.decodeUnsafe(this.at, this.length);
    }
}

/** Walks the elements of a BYTES tensor. */
@final
export class Texts {
    constructor(private at: usize, private end: usize) {}

    /** The next one; null after the last. */
    next(): Text | null {
        if (this.at == this.end) return null;
        const text = new Text(this.at + 4, load<i32>(this.at));
        this.at = text.at + text.length;
        return text;
    }
}

/** Collects the elements of a BYTES output. */
@final
export class Writer {
    private data: usize = heap.alloc(64);
    private size: usize = 0;
    private room: usize = 64;

    append(text: string): void {
        const size = String.UTF8.byteLength(text);
        String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, this.element(size).at);
    }

    /** Adds an element and returns where to write it; the address is good until the next element. */
    element(size: i32): Text {
        const wanted = this.size + 4 + <usize>size;
        if (wanted > this.room) {
            this.room = wanted + wanted / 2;
            this.data = heap.realloc(this.data, this.room);
        }
        const text = new Text(this.data + this.size + 4, size);
        store<i32>(this.data + this.size, size);
        this.size = wanted;
        return text;
    }

    finish(output: Tensor, sizes: StaticArray<i64>): void {
        output.point(sizes, this.data, this.size);
    }
}

// ---- Numbers from the config and the request's parameters -----------------------------------------------------------

/** Looks for one number of a JSON object, which the host has checked to be one. */
@final
class Json {
    private end: usize;

    constructor(private at: usize, size: usize) {
        this.end = at + size;
    }

    number(name: string, otherwise: f64): f64 {
        const wanted = `"${name}"`;
        let depth = 0;
        while (this.at < this.end) {
            const code = this.take();
            if (code == 0x7b || code == 0x5b) depth++;
            else if (code == 0x7d || code == 0x5d) depth--;
            else if (code == 0x22 && this.text() == wanted && depth == 1 && this.colon()) return this.value(otherwise);
        }
        return otherwise;
    }

    private take(): u8 {
        return load<u8>(this.at++);
    }

    /** A string with its quotes, of which the first is taken already; escapes stay as they are. */
    private text(): string {
        const from = this.at - 1;
        while (this.at < this.end) {
            const code = this.take();
            if (code == 0x5c) this.at++;
            else if (code == 0x22) break;
        }
        return String.UTF8.decodeUnsafe(from, this.at - from);
    }

    private space(): void {
        while (this.at < this.end && load<u8>(this.at) <= 0x20) this.at++;
    }

    private colon(): bool {
        this.space();
        return this.at < this.end && this.take() == 0x3a;
    }

    private value(otherwise: f64): f64 {
        this.space();
        const from = this.at;
        while (this.at < this.end && isNumeric(load<u8>(this.at))) this.at++;
        return this.at == from ? otherwise : F64.parseFloat(String.UTF8.decodeUnsafe(from, this.at - from));
    }
}

/** Whether a number of JSON may hold this: + - . 0 to 9 E e. */
function isNumeric(code: u8): bool {
    return code == 0x2b || code == 0x2d || code == 0x2e || (code >= 0x30 && code <= 0x39) || (code | 0x20) == 0x65;
}

// ---- Many numbers at once -------------------------------------------------------------------------------------------

// The compiler makes no SIMD of loops: these do, in steps of sixteen, which also makes the host's time check free.

/** The sum of x[i] * y[i], in sixteen partial sums. */
export function dot(x: View<f32>, y: View<f32>): f32 {
    assert(x.length == y.length, "dot takes two views of one length");
    let a = f32x4.splat(0), b = a, c = a, d = a;
    let at = x.at, other = y.at;
    const end = at + (<usize>(x.length & ~15) << 2);
    for (; at < end; at += 64, other += 64) {
        a = f32x4.add(a, f32x4.mul(v128.load(at), v128.load(other)));
        b = f32x4.add(b, f32x4.mul(v128.load(at, 16), v128.load(other, 16)));
        c = f32x4.add(c, f32x4.mul(v128.load(at, 32), v128.load(other, 32)));
        d = f32x4.add(d, f32x4.mul(v128.load(at, 48), v128.load(other, 48)));
    }
    let total = across(f32x4.add(f32x4.add(a, b), f32x4.add(c, d)));
    for (let i = x.length & ~15; i < x.length; i++) total += unchecked(x[i]) * unchecked(y[i]);
    return total;
}

/** The sum of x[i], likewise. */
export function sum(x: View<f32>): f32 {
    let a = f32x4.splat(0), b = a, c = a, d = a;
    let at = x.at;
    const end = at + (<usize>(x.length & ~15) << 2);
    for (; at < end; at += 64) {
        a = f32x4.add(a, v128.load(at));
        b = f32x4.add(b, v128.load(at, 16));
        c = f32x4.add(c, v128.load(at, 32));
        d = f32x4.add(d, v128.load(at, 48));
    }
    let total = across(f32x4.add(f32x4.add(a, b), f32x4.add(c, d)));
    for (let i = x.length & ~15; i < x.length; i++) total += unchecked(x[i]);
    return total;
}

@inline
function across(x: v128): f32 {
    return f32x4.extract_lane(x, 0) + f32x4.extract_lane(x, 1) + (f32x4.extract_lane(x, 2) + f32x4.extract_lane(x, 3));
}

/** to[i] = from[i] * factor + offset; `to` may be `from`. */
export function scale(to: View<f32>, from: View<f32>, factor: f32, offset: f32): void {
    assert(to.length == from.length, "scale takes two views of one length");
    const factors = f32x4.splat(factor), offsets = f32x4.splat(offset);
    let at = to.at, source = from.at;
    const end = at + (<usize>(to.length & ~15) << 2);
    for (; at < end; at += 64, source += 64) {
        v128.store(at, f32x4.add(f32x4.mul(v128.load(source), factors), offsets));
        v128.store(at, f32x4.add(f32x4.mul(v128.load(source, 16), factors), offsets), 16);
        v128.store(at, f32x4.add(f32x4.mul(v128.load(source, 32), factors), offsets), 32);
        v128.store(at, f32x4.add(f32x4.mul(v128.load(source, 48), factors), offsets), 48);
    }
    for (let i = to.length & ~15; i < to.length; i++) unchecked(to[i] = from[i] * factor + offset);
}

/** Likewise from bytes: pixels to what a model takes. */
export function scaleBytes(to: View<f32>, from: View<u8>, factor: f32, offset: f32): void {
    assert(to.length == from.length, "scaleBytes takes two views of one length");
    const factors = f32x4.splat(factor), offsets = f32x4.splat(offset);
    let at = to.at, source = from.at;
    const end = at + (<usize>(to.length & ~15) << 2);
    for (; at < end; at += 64, source += 16) {
        const bytes = v128.load(source);
        const low = i16x8.extend_low_i8x16_u(bytes), high = i16x8.extend_high_i8x16_u(bytes);
        v128.store(at, widened(i32x4.extend_low_i16x8_u(low), factors, offsets));
        v128.store(at, widened(i32x4.extend_high_i16x8_u(low), factors, offsets), 16);
        v128.store(at, widened(i32x4.extend_low_i16x8_u(high), factors, offsets), 32);
        v128.store(at, widened(i32x4.extend_high_i16x8_u(high), factors, offsets), 48);
    }
    for (let i = to.length & ~15; i < to.length; i++) unchecked(to[i] = <f32>from[i] * factor + offset);
}

@inline
function widened(integers: v128, factors: v128, offsets: v128): v128 {
    return f32x4.add(f32x4.mul(f32x4.convert_i32x4_s(integers), factors), offsets);
}

// ---- The host's functions; each needs its name among the manifest's `imports` ---------------------------------------

@external("sandseal", "log")
declare function hostLog(level: i32, text: usize, size: usize): void;
@external("sandseal", "now")
declare function hostNow(): i64;
@external("sandseal", "random")
declare function hostRandom(to: usize, size: usize): void;
@external("sandseal", "asset")
declare function hostAsset(name: usize, nameSize: usize, to: usize, room: usize): i64;

export enum Level {
    DEBUG,
    INFO,
    WARNING,
    ERROR,
}

/** A line in the host's log (import "log"); the host limits the rate and escapes control characters. */
export function log(level: Level, line: string): void {
    const text = String.UTF8.encode(line);
    hostLog(level, changetype<usize>(text), text.byteLength);
}

/** Milliseconds since 1970 (import "now"). */
export function now(): i64 {
    return hostNow();
}

/** Fills with random bytes, at most 65,536 (import "random"). */
export function random(to: View<u8>): void {
    hostRandom(to.at, to.length);
}

/** A signed file that the manifest lists under `assets` (import "asset"); null when it does not. */
export function asset(name: string): Text | null {
    const path = String.UTF8.encode(name);
    const size = hostAsset(changetype<usize>(path), path.byteLength, 0, 0);
    if (size < 0) return null;
    const bytes = new Text(heap.alloc(<usize>size), <i32>size);
    hostAsset(changetype<usize>(path), path.byteLength, bytes.at, bytes.length);
    return bytes;
}

/** Where `throw` and a failed `assert` end: the plugin's fault. */
export function onAbort(message: string | null, file: string | null, line: u32, column: u32): void {
    if (isDefined(SANDSEAL_IMPORTS_LOG)) {
        const text = message ? message : "abort";
        const place = file ? file : "plugin";
        log(Level.ERROR, `${place}:${line}:${column}: ${text}`);
    }
    unreachable();
}
