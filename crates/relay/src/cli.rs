//! The command line of the link emulator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use crate::control::{self, Event};
use crate::relay::{Options, Relay};
use crate::selftest;
use crate::stats::Report;
use crate::units::{
    LinkSpec, Planned, parse_duration, parse_planned, parse_rate, preset, show_rate,
};

/// Exit status when the machine did not keep up with the link: what ran over it is not to be
/// trusted.
pub const NOT_KEPT_UP: i32 = 2;

/// Presets, as the help shows them.
const AFTER_HELP: &str = "\
Examples:
  busbar link --listen 127.0.0.1:7401 --to 127.0.0.1:7400 --preset ethernet-10g
  busbar link --listen 127.0.0.1:7401 --to 127.0.0.1:7400 --delay 1ms --rate 1gbit
  busbar link --self-test --preset vmxnet3-10g

Presets (one-way delay, rate in each direction):
  vmxnet3-10g   80 us, 4.75 Gb/s    10 GbE between two virtual machines
  ethernet-10g  25 us, 9.4 Gb/s     10 GbE between two hosts
  roce-100g     1.66 us, 96 Gb/s    100 Gb/s RDMA-class network
  wan-10ms      10 ms, 1 Gb/s
  loopback      no delay, no limit

Orders, one a line (--control): stall DUR, cut DUR, resume, stats, quit.
SIGUSR1 reports the counters; SIGINT and SIGTERM report and end.";

/// Emulates a network link between two programs that talk TCP.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct LinkArgs {
    /// Address to listen on; port 0 picks a free one, which is printed
    #[arg(long, value_name = "ADDR", required_unless_present = "self_test")]
    pub listen: Option<String>,
    /// Address to connect to for each connection accepted
    #[arg(long, value_name = "ADDR", required_unless_present = "self_test")]
    pub to: Option<String>,
    /// A link by name; --delay, --rate and --jitter change parts of it
    #[arg(long, value_name = "NAME", value_parser = preset)]
    pub preset: Option<LinkSpec>,
    /// One-way delay, such as 80us
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub delay: Option<Duration>,
    /// Rate of payload in each direction, such as 4.75gbit, or none
    #[arg(long, value_name = "RATE", value_parser = parse_rate_arg)]
    pub rate: Option<Rate>,
    /// Vary the delay uniformly by up to this much either way; bytes stay in order
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub jitter: Option<Duration>,
    /// Seed of the jitter
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Carry nothing from AT, counted from the start, for FOR: 5s+30s; may be repeated
    #[arg(long, value_name = "AT+FOR", value_parser = parse_planned)]
    pub stall: Vec<Planned>,
    /// Close all connections at AT and refuse new ones for FOR; may be repeated
    #[arg(long, value_name = "AT+FOR", value_parser = parse_planned)]
    pub cut: Vec<Planned>,
    /// Take orders from a Unix socket at this path, or from standard input with -
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Wait for a release this close by spinning (default: 250us)
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub spin: Option<Duration>,
    /// After activity look for more this long without sleeping (default: 200us with 8 cores or
    /// more and a delay under 500us, otherwise 0)
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub poll: Option<Duration>,
    /// Print the address and the counters as JSON lines on standard output
    #[arg(long)]
    pub json: bool,
    /// Measure the link beside a direct connection, print a table and end
    #[arg(long)]
    pub self_test: bool,
}

/// A rate as an argument; `None` inside means no limit.
#[derive(Clone, Copy, Debug)]
pub struct Rate(Option<u64>);

fn parse_rate_arg(text: &str) -> Result<Rate, String> {
    parse_rate(text).map(Rate)
}

impl LinkArgs {
    /// The link that was asked for.
    pub fn spec(&self) -> anyhow::Result<LinkSpec> {
        if self.preset.is_none() && self.delay.is_none() && self.rate.is_none() {
            bail!("say which link to play: --preset NAME, or --delay and --rate");
        }
        let mut link = self.preset.unwrap_or_default();
        if let Some(delay) = self.delay {
            link.delay_ns = delay.as_nanos() as u64;
        }
        if let Some(Rate(rate)) = self.rate {
            link.rate_bps = rate;
        }
        if let Some(jitter) = self.jitter {
            link.jitter_ns = jitter.as_nanos() as u64;
        }
        if link.jitter_ns > link.delay_ns {
            bail!("the jitter cannot be larger than the delay");
        }
        Ok(link)
    }

    fn options(&self, listen: &str, to: &str) -> anyhow::Result<Options> {
        let mut options = Options::new(listen, to, self.spec()?);
        options.seed = self.seed;
        options.spin = self.spin.unwrap_or(options.spin);
        options.poll = self.poll.unwrap_or(options.poll);
        options.stalls = self.stall.clone();
        options.cuts = self.cut.clone();
        Ok(options)
    }
}

/// Runs the command; errors go to standard error.
pub fn main(args: &LinkArgs) -> ExitCode {
    match run(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOT_KEPT_UP as u8),
        Err(error) => {
            eprintln!("busbar link: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command; false if the machine did not keep up with the link.
pub fn run(args: &LinkArgs) -> anyhow::Result<bool> {
    if args.self_test {
        return selftest::run(args.options("127.0.0.1:0", "")?, args.json);
    }
    let listen = args.listen.as_deref().context("--listen is missing")?;
    let to = args.to.as_deref().context("--to is missing")?;
    control::block_signals();
    let relay = Relay::start(args.options(listen, to)?)?;
    let (events, queue) = mpsc::channel();
    control::listen_to_signals(events.clone());
    match args.control.as_deref() {
        Some(path) if path.as_os_str() == "-" => control::listen_to_stdin(events),
        Some(path) => control::listen_to_socket(path, events)?,
        None => {}
    }
    announce(args, &relay)?;
    for event in queue {
        match event {
            Event::Report => print_report(args, &relay.report()),
            Event::Quit => break,
            Event::Line(line, from) => match control::obey(&relay, &line) {
                Some(text) => control::answer(&text, from),
                None => break,
            },
        }
    }
    if let Some(path) = args
        .control
        .as_deref()
        .filter(|path| path.as_os_str() != "-")
    {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(path);
    }
    let report = relay.report();
    print_report(args, &report);
    Ok(report.kept_up)
}

fn announce(args: &LinkArgs, relay: &Relay) -> anyhow::Result<()> {
    let link = args.spec()?;
    if args.json {
        println!(
            "{}",
            json!({ "listening": relay.address().to_string(), "link": link })
        );
        return Ok(());
    }
    println!("listening on {}", relay.address());
    let delay = link.delay_ns as f64 / 1e3;
    eprintln!(
        "busbar link: {delay} us one way, {}",
        show_rate(link.rate_bps)
    );
    Ok(())
}

fn print_report(args: &LinkArgs, report: &Report) {
    if args.json {
        control::answer(&json!({ "stats": report }).to_string(), None);
    } else {
        for (name, direction) in [("forward", &report.forward), ("backward", &report.backward)] {
            let late = &direction.lateness;
            eprintln!(
                "busbar link: {name}: {} bytes in {} releases, late by {:.1} us (median), \
                 {:.1} us (p99), {:.1} us (most); receivers took nothing for {:.1} ms",
                direction.bytes,
                late.releases,
                late.p50_ns as f64 / 1e3,
                late.p99_ns as f64 / 1e3,
                late.max_ns as f64 / 1e3,
                direction.receiver_blocked_ns as f64 / 1e6,
            );
        }
    }
    for warning in &report.warnings {
        eprintln!("busbar link: warning: the machine does not keep up: {warning}");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        link: LinkArgs,
    }

    fn spec(args: &str) -> anyhow::Result<LinkSpec> {
        let words = ["x", "--listen", "a", "--to", "b"]
            .into_iter()
            .chain(args.split_whitespace());
        Command::try_parse_from(words)?.link.spec()
    }

    #[test]
    fn parts_of_a_preset_can_be_changed() {
        let link = spec("--preset vmxnet3-10g --delay 1ms --jitter 10us").unwrap();
        let wanted = LinkSpec {
            delay_ns: 1_000_000,
            rate_bps: Some(4_750_000_000),
            jitter_ns: 10_000,
        };
        assert_eq!(link, wanted);
        assert_eq!(
            spec("--preset vmxnet3-10g --rate none").unwrap().rate_bps,
            None
        );
        assert_eq!(spec("--delay 0").unwrap(), LinkSpec::default());
    }

    #[test]
    fn links_that_make_no_sense_are_refused() {
        for (args, reason) in [
            ("", "which link"),
            ("--delay 10us --jitter 20us", "larger than the delay"),
            ("--preset token-ring", "no preset"),
            ("--delay 10", "needs a unit"),
            ("--rate fast", "number"),
            ("--preset loopback --stall 5s", "AT+FOR"),
        ] {
            let error = format!("{:#}", spec(args).unwrap_err());
            assert!(error.contains(reason), "{args}: {error}");
        }
    }
}
