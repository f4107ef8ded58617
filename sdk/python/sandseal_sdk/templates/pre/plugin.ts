// One row of values, standardised: what many models were trained on.
import { Call, DONE } from "sandseal";

export function preprocess(call: Call): i32 {
    const values = call.input(0).items<f32>();
    const n = values.length;
    if (n == 0) return call.refuse("values is empty"); // the client gets this text

    let sum: f64 = 0, squares: f64 = 0;
    for (let i = 0; i < n; i++) sum += unchecked(values[i]);
    const mean = sum / n;
    for (let i = 0; i < n; i++) {
        const apart = unchecked(values[i]) - mean;
        squares += apart * apart;
    }
    const spread = Math.sqrt(squares / n);
    if (spread == 0) return call.refuse("all values are the same");

    const x = call.output(0).make<f32>([1, n]);
    for (let i = 0; i < n; i++) unchecked(x[i] = <f32>((values[i] - mean) / spread));
    return DONE;
}
