//! `cargo xtask`: parses, runs, prints an error, gives the exit code.

use std::process::ExitCode;

use clap::Parser as _;
use xtask::exit::{Code, code_of};
use xtask::{cli, cmd, interrupt, launch};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if args.by_ref().nth(1).is_some_and(|word| word == launch::COMMAND) {
        let Err(error) = launch::main(args);
        eprintln!("error: {error:#}");
        return ExitCode::from(126);
    }
    let cli = cli::Cli::parse();
    match interrupt::install().and_then(|()| cmd::run(cli)) {
        Ok(code) => ExitCode::from(code as u8),
        Err(_) if interrupt::requested() => ExitCode::from(Code::Interrupted as u8),
        // The reader of a pipe has seen enough (`| head`): no failure.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(code_of(&error) as u8)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        let json =
            cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.map(std::io::Error::kind).or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}
