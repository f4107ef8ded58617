// Every part of sandseal.ts; test_languages.py says what each stage must answer.
import { asset, Call, DONE, DType, Level, log, now, random, Tensor, View, Writer } from "sandseal";
import { dot, scale, scaleBytes, sum } from "sandseal";

export function layout(call: Call): i32 {
    const facts: i64[] = [
        offsetof<Call>(),
        offsetof<Call>("nInputs"), offsetof<Call>("inputs"), offsetof<Call>("nOutputs"), offsetof<Call>("outputs"),
        offsetof<Call>("params"), offsetof<Call>("paramsLen"), offsetof<Call>("config"), offsetof<Call>("configLen"),
        offsetof<Call>("error"), offsetof<Call>("errorLen"), offsetof<Call>("flags"), offsetof<Call>("reserved"),
        offsetof<Tensor>(),
        offsetof<Tensor>("dtype"), offsetof<Tensor>("rank"), offsetof<Tensor>("data"), offsetof<Tensor>("flags"),
        offsetof<Tensor>("byteLen"), offsetof<Tensor>("shape"), offsetof<Tensor>("name"), offsetof<Tensor>("nameLen"),
        DType.FP32, DType.UINT8, DType.INT8, DType.UINT16, DType.INT16, DType.INT32, DType.INT64, DType.BYTES,
        DType.BOOL, DType.FP16, DType.FP64, DType.UINT32, DType.UINT64, DType.BF16,
        Level.DEBUG, Level.INFO, Level.WARNING, Level.ERROR,
    ];
    call.output(0).give<i64>([facts.length], new View<i64>(facts.dataStart, facts.length));
    return DONE;
}

export function texts(call: Call): i32 {
    if (call.input(0).count() == 0) return call.refuse("keine Wörter");
    if (call.configJson() == "{}" || call.paramsJson() != "{}") return call.refuse("no config");
    const writer = new Writer(), found = call.input(0).texts();
    let count: i64 = 1;
    for (let text = found.next(); text; text = found.next(), count++) {
        const to = writer.element(text.length);
        for (let i = 0; i < text.length; i++) to[i] = text[text.length - 1 - i];
    }
    writer.append("end");
    writer.finish(call.output(0), [count]);
    return DONE;
}

export function numbers(call: Call): i32 {
    const y = call.output(0).make<f64>(call.input(0).axes()), names = call.input(0).texts();
    let i = 0;
    for (let name = names.next(); name; name = names.next(), i++) {
        y[i] = call.paramNumber(name.toString(), -1) * call.configNumber("scale", 0);
    }
    return DONE;
}

export function asks(call: Call): i32 {
    const table = asset("table.bin");
    if (!table || asset("other.bin")) return call.refuse("the assets are others");
    const first = new StaticArray<u64>(2), second = new StaticArray<u64>(2);
    random(new View<u8>(changetype<usize>(first), 16));
    random(new View<u8>(changetype<usize>(second), 16));
    log(Level.WARNING, "asked");
    const y = call.output(0).make<i64>([3]);
    y[0] = <i64>table.length * 1000 + table[1];
    y[1] = now();
    y[2] = first[0] != second[0] ? 1 : 0;
    return DONE;
}

export function vectors(call: Call): i32 {
    const x = call.input(0).items<f32>();
    const sums = call.output(0).make<f32>([2]);
    sums[0] = sum(x);
    sums[1] = dot(x, x);
    scale(call.output(1).make<f32>([x.length]), x, 0.5, 1);
    scaleBytes(call.output(2).make<f32>([x.length]), call.input(1).items<u8>(), 0.25, -1);
    return DONE;
}

function deep_inside(x: View<f32>): f32 {
    return x.part(0, 1)[x.length - 1];
}

export function faulty(call: Call): i32 {
    call.output(0).make<f32>([1])[0] = deep_inside(call.input(0).items<f32>());
    return DONE;
}
