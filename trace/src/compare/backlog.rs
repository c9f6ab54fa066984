//! A queue, rebuilt from what entered and what left it.

/// One packet's stay in a queue.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    pub arrival_ns: i64,
    /// `None`: it was dropped, and never was in the queue.
    pub departure_ns: Option<i64>,
    /// Bytes of its frame, which is what `tc` counts.
    pub wire_length: i64,
}

/// The queue's length as a step function: bytes from each instant on.
///
/// At equal times departures count first.
pub fn backlog(stays: &[Stay]) -> Vec<(i64, i64)> {
    let through = || stays.iter().filter_map(|stay| Some((stay, stay.departure_ns?)));
    let left = through().map(|(stay, departure)| (departure, -stay.wire_length));
    let came = through().map(|(stay, _)| (stay.arrival_ns, stay.wire_length));
    let mut steps: Vec<_> = left.chain(came).collect();
    steps.sort_by_key(|step| step.0);
    let mut size = 0;
    for step in &mut steps {
        size += step.1;
        step.1 = size.max(0);
    }
    steps
}

/// Rate of departures while the next packet was already waiting, bit/s, and the number of departures
/// it was measured on; `None` if the queue never was busy long enough.
///
/// `settle_bytes`: what is left out at the start of each busy period, as a token bucket lets a burst
/// pass there.
pub fn backlogged_rate(stays: &[Stay], settle_bytes: i64) -> Option<(f64, usize)> {
    let through = stays.iter().filter_map(|stay| Some((stay.departure_ns?, *stay)));
    let mut through: Vec<_> = through.collect();
    through.sort_by_key(|stay| stay.0);
    let (mut passed, mut bytes, mut duration, mut count) = (0, 0, 0, 0);
    for pair in through.windows(2) {
        let (before, (left, stay)) = (pair[0].0, pair[1]);
        if stay.arrival_ns > before {
            passed = 0;
            continue;
        }
        passed += stay.wire_length;
        if passed > settle_bytes {
            (bytes, duration, count) =
                (bytes + stay.wire_length, duration + left - before, count + 1);
        }
    }
    (duration > 0).then(|| (8e9 * bytes as f64 / duration as f64, count))
}
