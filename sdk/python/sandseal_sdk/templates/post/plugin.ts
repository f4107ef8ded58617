// Per row of scores: which is the best, and its probability (softmax).
import { Call, DONE } from "sandseal";

export function postprocess(call: Call): i32 {
    const scores = call.input(0);
    const rows = <i32>scores.axis(0), labels = <i32>scores.axis(1);
    if (labels == 0) return call.refuse("scores is empty"); // the client gets this text

    const best = call.output(0).make<i64>([rows]);
    const probability = call.output(1).make<f32>([rows]);
    for (let i = 0; i < rows; i++) {
        const row = scores.items<f32>().part(i * labels, labels);
        let largest = 0;
        for (let j = 1; j < labels; j++) if (row[j] > row[largest]) largest = j;
        let sum: f32 = 0;
        for (let j = 0; j < labels; j++) sum += Mathf.exp(row[j] - row[largest]);
        best[i] = largest;
        probability[i] = 1 / sum;
    }
    return DONE;
}
