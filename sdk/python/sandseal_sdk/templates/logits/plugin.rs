//! The token that was just chosen is less likely to come again at once.
use sandseal::{stage, Call, Refusal};

stage!(constrain);

fn constrain(call: &Call) -> Result<(), Refusal> {
    let mut logits = call.input(1).items::<f32>().to_vec();
    if let Some(&last) = call.input(0).items::<i64>().last() {
        match logits.get_mut(last as usize) {
            Some(logit) => *logit -= 2.0,
            None => return Err(Refusal::new("ids has a token that logits does not")), // the answer ends with this text
        }
    }
    call.output(0).give(call.input(1).shape(), logits);
    Ok(())
}
