//! What probers ask and hosts answer: segments of two streams in any order, read by the HTTP, TLS and PROXY sniffers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_user::probe::{http, request, stream::Stream, tls};

fuzz_target!(|data: &[u8]| {
    let Some((base, mut rest)) = data.split_first_chunk::<4>() else { return };
    let base = u32::from_be_bytes(*base);
    let mut asked = Stream::from(base);
    let mut answered = Stream::from(base);
    let (mut request_then, mut http_then, mut tls_then) =
        (request::Request::default(), http::Answer::Partial, tls::Answer::Partial);
    // Segments: which stream, how far on, how much was captured, how much more there was.
    while let Some(([what, offset, length, more], tail)) = rest.split_first_chunk() {
        let (bytes, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let stream = if what & 1 == 0 { &mut asked } else { &mut answered };
        let sequence = base.wrapping_add(u32::from(*offset)).wrapping_sub(u32::from(what >> 4));
        stream.push(sequence, bytes, bytes.len() as u32 + u32::from(*more));
        // What was decided stays decided: streams only grow.
        let request = request::sniff(asked.bytes());
        assert!(request_then.speaks.is_none() || request == request_then);
        let http = http::answer(answered.bytes());
        assert!(http_then == http::Answer::Partial || http == http_then);
        let tls = tls::answer(answered.bytes());
        assert!(tls_then == tls::Answer::Partial || tls == tls_then);
        (request_then, http_then, tls_then) = (request, http, tls);
        let _ = tls::prober_alert(bytes);
    }
});
