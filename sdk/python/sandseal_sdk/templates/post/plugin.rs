//! Per row of scores: which is the best, and its probability (softmax).
use sandseal::{stage, Call, Refusal};

stage!(postprocess);

fn postprocess(call: &Call) -> Result<(), Refusal> {
    let scores = call.input(0);
    let (rows, labels) = (scores.shape()[0], scores.shape()[1] as usize);
    if labels == 0 {
        return Err(Refusal::new("scores is empty")); // the client gets this text
    }
    let (mut best, mut probability) = (Vec::<i64>::new(), Vec::<f32>::new());
    for row in scores.items::<f32>().chunks_exact(labels) {
        let largest = (1..labels).fold(0, |best, j| if row[j] > row[best] { j } else { best });
        let sum: f32 = row.iter().map(|score| (score - row[largest]).exp()).sum();
        best.push(largest as i64);
        probability.push(1.0 / sum);
    }
    call.output(0).give(&[rows], best);
    call.output(1).give(&[rows], probability);
    Ok(())
}
