//! Every part of sandseal.rs; test_languages.py says what each stage must answer.
use sandseal::{
    asset, dtype, log, now, number, random, stage, Call, Level, RawCall, RawTensor, Refusal,
};

stage!(layout);
stage!(texts);
stage!(numbers);
stage!(asks);
stage!(vectors);
stage!(faulty);

macro_rules! facts {
    ($type:ty: $($field:ident)*) => {{
        let whole = std::mem::MaybeUninit::<$type>::uninit();
        let start = whole.as_ptr();
        let mut found = vec![std::mem::size_of::<$type>() as i64];
        // SAFETY: only addresses are taken.
        $(found.push(unsafe { std::ptr::addr_of!((*start).$field) as i64 } - start as i64);)*
        found
    }};
}

fn layout(call: &Call) -> Result<(), Refusal> {
    let mut facts = [
        facts!(RawCall: n_inputs inputs n_outputs outputs params params_len config config_len
            error error_len flags reserved),
        facts!(RawTensor: dtype rank data flags byte_len shape name name_len),
    ]
    .concat();
    use dtype::*;
    let types = [
        FP32, UINT8, INT8, UINT16, INT16, INT32, INT64, BYTES, BOOL, FP16, FP64, UINT32, UINT64,
        BF16,
    ];
    facts.extend(types.map(i64::from));
    facts.extend([
        Level::Debug as i64,
        Level::Info as i64,
        Level::Warning as i64,
        Level::Error as i64,
    ]);
    call.output(0).give(&[facts.len() as i64], facts);
    Ok(())
}

fn texts(call: &Call) -> Result<(), Refusal> {
    let found = call.input(0).texts();
    if call.input(0).shape() == [0] {
        return Err(Refusal::new("keine Wörter"));
    }
    let mut answers: Vec<Vec<u8>> = found
        .map(|text| text.iter().rev().copied().collect())
        .collect();
    answers.push(b"end".to_vec());
    call.output(0).give_texts(&[answers.len() as i64], answers);
    Ok(())
}

fn numbers(call: &Call) -> Result<(), Refusal> {
    let scale = number(call.config(), "scale").unwrap_or(0.0);
    let read =
        |name| scale * number(call.params(), std::str::from_utf8(name).unwrap()).unwrap_or(-1.0);
    call.output(0).give(
        call.input(0).shape(),
        call.input(0).texts().map(read).collect::<Vec<f64>>(),
    );
    Ok(())
}

fn asks(call: &Call) -> Result<(), Refusal> {
    let table = asset("table.bin").ok_or_else(|| Refusal::new("the asset is not there"))?;
    if asset("other.bin").is_some() {
        return Err(Refusal::new("there is another asset"));
    }
    let mut noise = [[0; 16]; 2];
    noise.iter_mut().for_each(|bytes| random(bytes));
    log(Level::Warning, "asked");
    let differs = i64::from(noise[0] != noise[1]);
    call.output(0).give(
        &[3],
        vec![
            table.len() as i64 * 1000 + i64::from(table[1]),
            now(),
            differs,
        ],
    );
    Ok(())
}

fn vectors(call: &Call) -> Result<(), Refusal> {
    let (x, pixels) = (call.input(0).items::<f32>(), call.input(1).items::<u8>());
    let shape = call.input(0).shape();
    // Some 10 MB in all: what is freed must be taken again.
    let words = (0..100_000).map(|i| format!("{}{}", i, "x".repeat(i % 50)));
    assert!(words.fold(0, |sum, word| sum + word.len()) > 1_000_000);
    call.output(0).give(
        &[2],
        vec![x.iter().sum::<f32>(), x.iter().map(|x| x * x).sum::<f32>()],
    );
    call.output(1)
        .give(shape, x.iter().map(|x| x * 0.5 + 1.0).collect());
    call.output(2).give(
        shape,
        pixels.iter().map(|&x| f32::from(x) * 0.25 - 1.0).collect(),
    );
    Ok(())
}

#[inline(never)]
fn deep_inside(x: &[f32]) -> f32 {
    x[..1][x.len() - 1]
}

fn faulty(call: &Call) -> Result<(), Refusal> {
    call.output(0)
        .give(&[1], vec![deep_inside(call.input(0).items())]);
    Ok(())
}
