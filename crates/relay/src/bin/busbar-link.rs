//! The link emulator on its own.

use clap::Parser;

#[derive(Parser)]
#[command(
    name = "busbar-link",
    version,
    about = "Emulates a network link between two programs"
)]
struct Command {
    #[command(flatten)]
    link: busbar_relay::LinkArgs,
}

fn main() -> std::process::ExitCode {
    busbar_relay::cli::main(&Command::parse().link)
}
