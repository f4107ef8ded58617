// The token that was just chosen is less likely to come again at once.
import { Call, DONE } from "sandseal";

export function constrain(call: Call): i32 {
    const ids = call.input(0).items<i64>();
    const logits = call.input(1).items<f32>();
    if (ids.length != 0) {
        const last = ids[ids.length - 1];
        if (last < 0 || last >= logits.length)
            return call.refuse("ids has a token that logits does not"); // the answer ends with this text
        logits[<i32>last] = logits[<i32>last] - 2;
    }
    call.output(0).give<f32>(call.input(1).axes(), logits);
    return DONE;
}
