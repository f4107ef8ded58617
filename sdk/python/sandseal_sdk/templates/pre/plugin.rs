//! One row of values, standardised: what many models were trained on.
use sandseal::{stage, Call, Refusal};

stage!(preprocess);

fn preprocess(call: &Call) -> Result<(), Refusal> {
    let values = call.input(0).items::<f32>();
    if values.is_empty() {
        return Err(Refusal::new("values is empty")); // the client gets this text
    }
    let n = values.len() as f64;
    let sum: f64 = values.iter().map(|&x| f64::from(x)).sum();
    let apart = |x: f32| f64::from(x) - sum / n;
    let squares: f64 = values.iter().map(|&x| apart(x).powi(2)).sum();
    let spread = (squares / n).sqrt();
    if spread == 0.0 {
        return Err(Refusal::new("all values are the same"));
    }
    let x = values.iter().map(|&x| (apart(x) / spread) as f32);
    call.output(0).give(&[1, values.len() as i64], x.collect());
    Ok(())
}
