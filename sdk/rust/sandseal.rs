//! sandseal.rs: write a Sandseal plugin in Rust 1.63 or newer (plugin ABI v1; sdk/abi/abi-v1.md is normative).
//!
//! ```
//! use sandseal::{stage, Call, Refusal};
//!
//! stage!(scale);
//!
//! fn scale(call: &Call) -> Result<(), Refusal> {
//!     let from = call.input(0).items::<f32>();
//!     if from.is_empty() {
//!         return Err(Refusal::new("x is empty"));
//!     }
//!     call.output(0).give(call.input(0).shape(), from.iter().map(|x| x / 255.0).collect());
//!     Ok(())
//! }
//! ```
//!
//! The host has checked every input against the signed manifest: data type, rank, fixed axes, size, alignment.
//! A `Refusal` reaches the client. A panic is the plugin's fault: it traps, with a line in the log where plugin.toml
//! asks for "log"; the trace names the functions.

#![deny(missing_docs)]

use std::alloc::{alloc, dealloc, GlobalAlloc, Layout};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::slice;

// ---- What crosses the border ----------------------------------------------------------------------------------------

/// Data types, by their ONNX TensorProto numbers.
pub mod dtype {
    #![allow(missing_docs)]
    pub const FP32: u32 = 1;
    pub const UINT8: u32 = 2;
    pub const INT8: u32 = 3;
    pub const UINT16: u32 = 4;
    pub const INT16: u32 = 5;
    pub const INT32: u32 = 6;
    pub const INT64: u32 = 7;
    pub const BYTES: u32 = 8;
    pub const BOOL: u32 = 9;
    pub const FP16: u32 = 10;
    pub const FP64: u32 = 11;
    pub const UINT32: u32 = 12;
    pub const UINT64: u32 = 13;
    pub const BF16: u32 = 16;
}

/// A tensor as the ABI lays it out.
#[repr(C)]
pub struct RawTensor {
    /// One of `dtype`.
    pub dtype: u32,
    /// 0 to 8.
    pub rank: u32,
    /// An address.
    pub data: u32,
    /// 0.
    pub flags: u32,
    /// Bytes of data.
    pub byte_len: u64,
    /// Of an output the host has set the fixed axes; free axes are -1.
    pub shape: [i64; 8],
    /// The address of its name, UTF-8.
    pub name: u32,
    /// Its length.
    pub name_len: u32,
}

/// One call of a stage as the ABI lays it out.
#[repr(C)]
#[allow(missing_docs)]
pub struct RawCall {
    pub n_inputs: u32,
    pub inputs: u32,
    pub n_outputs: u32,
    pub outputs: u32,
    pub params: u32,
    pub params_len: u32,
    pub config: u32,
    pub config_len: u32,
    pub error: u32,
    pub error_len: u32,
    pub flags: u32,
    pub reserved: [u32; 5],
}

/// A type of tensor elements. FP16 and BF16 come as `u16`, BOOL as `u8`.
pub trait Element: Copy + 'static {
    /// Whether it can hold an element of a data type.
    fn fits(dtype: u32) -> bool;
}

macro_rules! elements {
    ($($type:ty: $($dtype:ident)|+;)*) => {$(
        impl Element for $type {
            fn fits(dtype: u32) -> bool { matches!(dtype, $(dtype::$dtype)|+) }
        }
    )*};
}

elements! {
    f32: FP32;
    f64: FP64;
    u8: UINT8 | BOOL;
    i8: INT8;
    u16: UINT16 | FP16 | BF16;
    i16: INT16;
    u32: UINT32;
    i32: INT32;
    u64: UINT64;
    i64: INT64;
}

// ---- Declaring ------------------------------------------------------------------------------------------------------

/// Why the plugin does not take an input; the client gets this text.
pub struct Refusal(String);

impl Refusal {
    /// `return Err(Refusal::new("the image is empty"));`
    pub fn new(why: impl Into<String>) -> Self {
        Refusal(why.into())
    }
}

/// Exports the stage function that plugin.toml names: `stage!(scale);`, where it is
/// `fn scale(call: &Call) -> Result<(), Refusal>`.
#[macro_export]
macro_rules! stage {
    ($function:ident) => {
        const _: () = {
            #[export_name = stringify!($function)]
            extern "C" fn enter(call: &mut $crate::RawCall) -> i32 {
                $crate::run(call, $function)
            }
        };
    };
}

/// Runs a stage; `stage!` calls it.
pub fn run(raw: &mut RawCall, body: fn(&Call) -> Result<(), Refusal>) -> i32 {
    #[cfg(sandseal_imports_log)]
    std::panic::set_hook(Box::new(|panic| log(Level::Error, &panic.to_string())));
    match body(&Call { raw }) {
        Ok(()) => 0,
        Err(Refusal(why)) => {
            raw.error = why.as_ptr() as u32;
            raw.error_len = why.len() as u32;
            keep(why);
            1
        }
    }
}

// ---- Memory ---------------------------------------------------------------------------------------------------------

/// Hands out the memory that the module starts with before it grows: a fresh instance has that one for nothing, and the
/// allocator of Rust's `std` leaves it alone. Freed blocks are kept by size, in four steps per doubling.
struct Heap {
    top: Cell<usize>, // where free memory starts; 0 before the first allocation
    free: [Cell<usize>; 4 * 33],
}

// SAFETY: a wasm instance has one thread.
unsafe impl Sync for Heap {}

#[allow(clippy::declare_interior_mutable_const)]
const NONE: Cell<usize> = Cell::new(0);

#[global_allocator]
static HEAP: Heap = Heap {
    top: Cell::new(0),
    free: [NONE; 4 * 33],
};

extern "C" {
    static __heap_base: u8; // from the linker: where static data ends
}

const PAGE: usize = 65_536;
const LARGEST: usize = 1 << 31;

/// How large a block is for a layout, and which list such blocks are kept in when they are free.
fn class(layout: Layout) -> (usize, usize) {
    let size = layout.size().max(16);
    let bits = (usize::BITS - (size - 1).leading_zeros()) as usize;
    let step = (1 << (bits - 3)).max(16);
    let rounded = (size + step - 1) & !(step - 1);
    (rounded, 4 * bits + (rounded >> (bits - 3)) - 5)
}

impl Heap {
    fn extend(&self, size: usize, align: usize) -> Option<usize> {
        let from = match self.top.get() {
            // SAFETY: only its address is taken.
            0 => unsafe { &__heap_base as *const u8 as usize },
            top => top,
        };
        let start = from.checked_add(align - 1)? & !(align - 1);
        let end = start.checked_add(size)?;
        let have = core::arch::wasm32::memory_size(0) * PAGE;
        if end > have
            && core::arch::wasm32::memory_grow(0, (end - have + PAGE - 1) / PAGE) == usize::MAX
        {
            return None;
        }
        self.top.set(end);
        Some(start)
    }
}

// SAFETY: a block is in use, in one free list, or above `top`, and never in two of these.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST || layout.align() > 16 {
            return self
                .extend(layout.size(), layout.align().max(16))
                .unwrap_or(0) as *mut u8;
        }
        let (size, list) = class(layout);
        match self.free[list].get() {
            0 => self.extend(size, 16).unwrap_or(0) as *mut u8,
            block => {
                self.free[list].set(*(block as *const usize));
                block as *mut u8
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if layout.size() > LARGEST || layout.align() > 16 {
            return; // rare: it stays until the instance goes
        }
        let (size, list) = class(layout);
        if block as usize + size == self.top.get() {
            self.top.set(block as usize);
        } else {
            *(block as *mut usize) = self.free[list].replace(block as usize);
        }
    }
}

thread_local! {
    /// What the host reads after the call, and the block that it wrote; gone at the next call of the same instance.
    static KEPT: RefCell<Vec<Box<dyn Any>>> = RefCell::new(Vec::new());
}

fn keep(value: impl Any) {
    KEPT.with(|kept| kept.borrow_mut().push(Box::new(value)));
}

struct Block(*mut u8, Layout);

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: as `sandseal_alloc` allocated it.
        unsafe { dealloc(self.0, self.1) }
    }
}

#[no_mangle]
extern "C" fn sandseal_abi() -> i32 {
    1
}

#[no_mangle]
extern "C" fn sandseal_alloc(size: usize, align: usize) -> *mut u8 {
    let layout = match Layout::from_size_align(size.max(1), align) {
        Ok(layout) => layout,
        Err(_) => return std::ptr::null_mut(),
    };
    // SAFETY: the layout is not of size 0.
    let block = unsafe { alloc(layout) };
    if !block.is_null() {
        keep(Block(block, layout));
    }
    block
}

#[no_mangle]
extern "C" fn sandseal_reset() {
    KEPT.with(|kept| while kept.borrow_mut().pop().is_some() {}); // the last first
}

/// What the host laid out at an address.
fn view<'call, T>(at: u32, count: usize) -> &'call [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the host has checked address, size and alignment, and it all lives as long as the call.
    unsafe { slice::from_raw_parts(at as usize as *const T, count) }
}

// ---- Calls and tensors ----------------------------------------------------------------------------------------------

/// One call of a stage; its tensors are in plugin.toml's order.
pub struct Call<'call> {
    raw: &'call RawCall,
}

impl<'call> Call<'call> {
    /// An input of the stage.
    pub fn input(&self, index: usize) -> Input<'call> {
        Input {
            raw: &view(self.raw.inputs, self.raw.n_inputs as usize)[index],
        }
    }

    /// An output of the stage.
    pub fn output(&self, index: usize) -> Output<'call> {
        assert!(
            index < self.raw.n_outputs as usize,
            "plugin.toml lists fewer outputs"
        );
        Output {
            raw: (self.raw.outputs as usize as *mut RawTensor).wrapping_add(index),
            call: PhantomData,
        }
    }

    /// The stage's signed config, as JSON; `number` reads one of it.
    pub fn config(&self) -> &'call str {
        text(view(self.raw.config, self.raw.config_len as usize))
    }

    /// The request's parameters, as JSON. The client chooses them: check the range.
    pub fn params(&self) -> &'call str {
        text(view(self.raw.params, self.raw.params_len as usize))
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the host gives UTF-8")
}

/// An input tensor.
pub struct Input<'call> {
    raw: &'call RawTensor,
}

impl<'call> Input<'call> {
    /// The sizes of its axes.
    pub fn shape(&self) -> &'call [i64] {
        &self.raw.shape[..self.raw.rank as usize]
    }

    /// Its elements, row-major.
    pub fn items<T: Element>(&self) -> &'call [T] {
        assert!(
            T::fits(self.raw.dtype),
            "plugin.toml gives this input another type"
        );
        view(
            self.raw.data,
            self.raw.byte_len as usize / std::mem::size_of::<T>(),
        )
    }

    /// The elements of a BYTES tensor.
    pub fn texts(&self) -> Texts<'call> {
        assert!(
            self.raw.dtype == dtype::BYTES,
            "plugin.toml gives this input another type"
        );
        Texts {
            rest: view(self.raw.data, self.raw.byte_len as usize),
        }
    }
}

/// Walks the elements of a BYTES tensor.
pub struct Texts<'call> {
    rest: &'call [u8],
}

impl<'call> Iterator for Texts<'call> {
    type Item = &'call [u8];

    fn next(&mut self) -> Option<&'call [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (size, rest) = self.rest.split_at(4);
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        let (element, rest) = rest.split_at(size);
        self.rest = rest;
        Some(element)
    }
}

/// An output tensor, for the plugin to fill.
pub struct Output<'call> {
    raw: *mut RawTensor,
    call: PhantomData<&'call RawCall>,
}

impl<'call> Output<'call> {
    /// Gives it its shape and elements, row-major.
    pub fn give<T: Element>(&self, shape: &[i64], items: Vec<T>) {
        self.check::<T>();
        self.point(shape, &items);
        keep(items);
    }

    /// Points it at elements that live as long as the call (an input's, say); they are not copied.
    pub fn share<T: Element>(&self, shape: &[i64], items: &'call [T]) {
        self.check::<T>();
        self.point(shape, items);
    }

    /// Gives it its shape and BYTES elements.
    pub fn give_texts<E: AsRef<[u8]>>(&self, shape: &[i64], texts: impl IntoIterator<Item = E>) {
        assert!(
            self.raw().dtype == dtype::BYTES,
            "plugin.toml gives this output another type"
        );
        let mut bytes = Vec::new();
        for text in texts {
            let text = text.as_ref();
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text);
        }
        self.point(shape, &bytes);
        keep(bytes);
    }

    fn check<T: Element>(&self) {
        assert!(
            T::fits(self.raw().dtype),
            "plugin.toml gives this output another type"
        );
    }

    fn raw(&self) -> &RawTensor {
        // SAFETY: `Call::output` has checked the index, and the host the address.
        unsafe { &*self.raw }
    }

    fn point<T>(&self, shape: &[i64], items: &[T]) {
        // SAFETY: as in `raw`; a wasm instance has one thread, and no reference to this descriptor outlives a method.
        let raw = unsafe { &mut *self.raw };
        raw.shape[..raw.rank as usize].copy_from_slice(shape);
        raw.data = items.as_ptr() as u32;
        raw.byte_len = std::mem::size_of_val(items) as u64;
    }
}

/// The number that member `name` of a JSON object holds; none when it is absent or no number.
/// `number(call.config(), "top_k").unwrap_or(5.0)`
pub fn number(json: &str, name: &str) -> Option<f64> {
    let wanted = format!("\"{}\"", name);
    let (mut rest, mut depth) = (json, 0);
    while let Some(code) = rest.bytes().next() {
        let size = if code == b'"' { quoted(rest) } else { 1 };
        let (token, after) = rest.split_at(size);
        rest = after.trim_start();
        match code {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 1 && token == wanted && rest.starts_with(':') {
            let value = rest[1..].trim_start();
            let end = value
                .find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c))
                .unwrap_or(value.len());
            return value[..end].parse().ok();
        }
    }
    None
}

/// How many bytes a JSON string takes, quotes included.
fn quoted(json: &str) -> usize {
    let mut escaped = true; // so is the first quote, as it were
    for (at, code) in json.bytes().enumerate() {
        match code {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    json.len()
}

// ---- The host's functions; each needs its name among the manifest's `imports` ---------------------------------------

mod host {
    #[link(wasm_import_module = "sandseal")]
    extern "C" {
        pub fn log(level: i32, text: *const u8, size: usize);
        pub fn now() -> i64;
        pub fn random(to: *mut u8, size: usize);
        pub fn asset(name: *const u8, name_size: usize, to: *mut u8, room: usize) -> i64;
    }
}

/// How serious a line of the log is.
#[allow(missing_docs)]
pub enum Level {
    Debug,
    Info,
    Warning,
    Error,
}

/// A line in the host's log (import "log"); the host limits the rate and escapes control characters.
pub fn log(level: Level, line: &str) {
    // SAFETY: the host only reads the line.
    unsafe { host::log(level as i32, line.as_ptr(), line.len()) }
}

/// Milliseconds since 1970 (import "now").
pub fn now() -> i64 {
    // SAFETY: it takes nothing.
    unsafe { host::now() }
}

/// Fills with random bytes, at most 65,536 (import "random").
pub fn random(to: &mut [u8]) {
    // SAFETY: the host writes as many bytes as it is told.
    unsafe { host::random(to.as_mut_ptr(), to.len()) }
}

/// A signed file that the manifest lists under `assets` (import "asset"); none when it does not.
pub fn asset(name: &str) -> Option<Vec<u8>> {
    // SAFETY: with room for nothing, the host only says the size.
    let size = unsafe { host::asset(name.as_ptr(), name.len(), std::ptr::null_mut(), 0) };
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    // SAFETY: the host writes at most as many bytes as there is room for.
    unsafe { host::asset(name.as_ptr(), name.len(), bytes.as_mut_ptr(), bytes.len()) };
    Some(bytes)
}
