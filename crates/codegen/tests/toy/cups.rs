//! Cups.

/// Makes a cup.
#[id(0x0101)] #[queued] #[get_proc("toyMake", 100)]
fn toyMake(#[new] cup: *mut ToyCup, #[in_ref] size: *const ToySize, #[cstr] name: *const c_char) -> ToyResult;

#[id(0x0102)] #[queued]
fn toyBreak(#[del] cup: ToyCup) -> ToyResult;

#[id(0x0103)] #[cached]
fn toyMeasure(
    #[handle] cup: ToyCup,
    #[out] size: *mut ToySize,
    #[out(optional)] weight: *mut usize,
    #[out_array(n)] marks: *mut u32,
    n: i32,
) -> ToyResult;

#[id(0x0104)] #[queued] #[per_thread("_ptsz")]
fn toyFillAsync(
    #[handle] cup: ToyCup,
    #[in_array(n - 1)] what: *const u16,
    n: usize,
    #[handle] stream: ToyStream,
) -> ToyResult;

#[id(0x0105)] #[queued_if(speed <= TOY_UNKNOWN && !matches!(how, 1 | 3..=5))]
fn toyStir(#[handle] cup: ToyCup, speed: i32, how: u32) -> ToyResult;

#[is(toyFillAsync(cup, what, n, null))] #[get_proc("toyFill", 200)]
fn toyFill(cup: ToyCup, what: *const u16, n: usize) -> ToyResult;

#[is(pour(cup, TOY_UNKNOWN, false, per_thread))] #[per_thread("_ptsz")]
fn toyPour(cup: ToyCup) -> ToyResult;

#[is(toyStir(cup, TOY_UNKNOWN, how & 1))]
fn toyStirOnce(cup: ToyCup, how: u32) -> ToyResult;

#[is(toyBreak)]
fn toyOld(cup: ToyCup) -> ToyResult;

#[remark("of the table it stands on")]
#[local]
fn toyMine(n: i32) -> ToyResult;

#[unsupported("nobody has one")]
fn toyGone(cup: ToyCup) -> ToyResult;

#[forbidden("somebody else drinks from it, too")]
fn toyPaint(#[handle] cup: ToyCup, colour: u32) -> ToyResult;

#[unsupported("for a debugger")]
static toyData: u32;

#[local] #[cx(local)] #[per_thread("_ptsz")]
fn toyWeigh(
    #[handle] cup: ToyCup,
    #[out] size: *mut ToySize,
    #[out(optional)] weight: *mut usize,
    #[handle] stream: ToyStream,
) -> ToyResult;

#[custom] #[cx(context)] #[per_thread("_ptsz")]
fn toyCopy(#[new] copy: *mut ToyCup, #[handle(optional)] of: ToyCup, n: i32) -> ToyResult;

#[cx] #[is(stir(cup, 1, n))]
fn toyShake(#[handle] cup: ToyCup, #[gives(one)] spilt: *mut ToyCup, n: u32) -> ToyResult;

#[local]
fn toyFavourite(#[gives] cup: *mut ToyCup) -> ToyResult;

/// Fits a handle, and paints it in the same go.
#[id(0x8003)] #[message] #[queued] #[creates(Handle)] #[changes(Cup, "colour")]
fn SetHandle(handle: u32, cup: u32, stream: u32);

#[id(0x8002)] #[message] #[queued_if(lid == 0)]
fn Shake(cup: u32, lid: u32) -> (spilt: u32);

#[id(0x8001)] #[message] #[waits]
fn Pour(cup: u32, into: U32s, label: Str, data: Bytes, at: [i32; 2], seal: [u8; 3]) -> (left: f64);
