use std::io::Write;
use std::process::ExitCode;

use tcpf_trace::analysis::{Options, analyse};
use tcpf_trace::json;
use tcpf_trace::reader::Reader;

fn main() -> ExitCode {
    let mut options = Options::default();
    let mut found = Vec::new();
    let mut status = ExitCode::SUCCESS;
    for name in std::env::args_os().skip(1) {
        if name == "--events" {
            options.events = true;
            continue;
        }
        match Reader::open(&name).and_then(|reader| analyse(reader, &options, |_| true)) {
            Ok(one) => found.push(one),
            Err(error) => {
                eprintln!("error: {error}");
                status = ExitCode::FAILURE;
            }
        }
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    json::write(&mut out, &found, options.events).and_then(|()| writeln!(out)).expect("stdout");
    status
}
