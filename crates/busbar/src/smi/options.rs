//! The forms of nvidia-smi that are drawn here.

use super::card::Card;
use super::fields::{self, Csv};
use super::monitor::{Monitor, What};
use super::readings::{self, Section};
use super::topology::Topology;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::time::Duration;

/// How long it is between two looks where nothing is said, and at least.
const EVERY: Duration = Duration::from_secs(5);
const LEAST: f64 = 0.1;
/// How long it is between two samples of `dmon` and `pmon` where nothing is said.
const SAMPLE: Duration = Duration::from_secs(1);

/// What is to be shown.
pub enum Form {
    /// The table.
    Screen,
    /// A line for each GPU.
    List,
    /// All that is known, in these sections.
    Long(Vec<&'static Section>),
    /// The same in XML.
    Xml(Vec<&'static Section>),
    /// Fields of each GPU.
    Gpus(Csv),
    /// Fields of each program.
    Processes(Csv),
    /// How GPUs reach each other.
    Topology(Topology),
    /// Samples, line under line.
    Monitor(Monitor),
    /// This text.
    Help(String),
}

/// What somebody asks for.
pub struct Options {
    /// What is to be shown.
    pub form: Form,
    /// How long it is between two looks, if there is to be more than one.
    pub every: Option<Duration>,
    /// How many there are to be then, if they are to end.
    pub times: Option<u64>,
    /// The GPUs that it is of, by number, UUID or place; none are all.
    ids: Vec<String>,
}

/// A flag, and what was written behind it.
struct Words<'a> {
    flag: &'a str,
    value: Option<&'a str>,
    rest: &'a [String],
}

impl<'a> Words<'a> {
    /// The next flag of some words: long ones have their value behind `=`, too.
    fn next(all: &'a [String]) -> Option<Self> {
        let (word, rest) = all.split_first()?;
        let cut = word.split_once('=');
        let (flag, value) = cut.map_or((word.as_str(), None), |(f, v)| (f, Some(v)));
        Some(Self { flag, value, rest })
    }

    /// The value that must be there.
    fn value(&mut self) -> Result<&'a str> {
        if let Some(value) = self.value {
            return Ok(value);
        }
        let next = self.rest.split_first();
        let (value, rest) = next.with_context(|| format!("{} of what?", self.flag))?;
        self.rest = rest;
        Ok(value)
    }

    /// A time, where there is one, in these units.
    fn time(&mut self, unit: f64) -> Result<Option<Duration>> {
        let next = || self.rest.first().filter(|w| !w.starts_with('-'));
        if self.value.is_none() && next().is_none() {
            return Ok(None);
        }
        let text = self.value()?;
        let seconds = text.parse::<f64>().ok().map(|n| n * unit);
        let seconds = seconds.filter(|s| (LEAST..=86400.0).contains(s));
        let seconds = seconds.with_context(|| {
            format!(
                "{}: `{text}` is no time between two looks, from 0.1 s on",
                self.flag
            )
        })?;
        Ok(Some(Duration::from_secs_f64(seconds)))
    }

    /// The time that must be there, in seconds.
    fn seconds(&mut self) -> Result<Duration> {
        let flag = self.flag;
        let time = self.time(1.0)?;
        time.with_context(|| format!("{flag} of how many seconds?"))
    }

    /// How often something is to be done.
    fn count(&mut self) -> Result<u64> {
        let text = self.value()?;
        let count = text.parse().ok().filter(|n| *n > 0);
        count.with_context(|| format!("{}: `{text}` is no number of samples, from 1 on", self.flag))
    }

    /// The words between commas of what must be there.
    fn list(&mut self) -> Result<impl Iterator<Item = String>> {
        let all = self.value()?.split(',');
        Ok(all.map(|w| w.trim().to_string()))
    }
}

impl Options {
    /// Reads nvidia-smi's arguments.
    pub fn read(arguments: &[OsString]) -> Result<Self> {
        let all = arguments.iter().map(|a| a.to_string_lossy().into_owned());
        let all: Vec<String> = all.collect();
        match all.first().map(String::as_str) {
            Some("topo") => return Self::topology(&all[1..]),
            Some("dmon") => return Self::monitor(What::Gpus, &all),
            Some("pmon") => return Self::monitor(What::Programs, &all),
            _ => {}
        }
        let (mut list, mut long, mut xml, mut sections) = (false, false, false, None);
        let (mut gpus, mut processes, mut format) = (None, None, "csv");
        let (mut every, mut ids, mut help) = (None, Vec::new(), None);
        let mut left = all.as_slice();
        while let Some(mut words) = Words::next(left) {
            match words.flag {
                "-L" | "--list-gpus" => list = true,
                "-q" | "--query" => long = true,
                "-x" | "--xml-format" => xml = true,
                "-d" | "--display" => sections = Some(words.value()?),
                "-i" | "--id" => ids.extend(words.list()?),
                "--query-gpu" => gpus = Some(words.value()?),
                "--query-compute-apps" | "--query-apps" => processes = Some(words.value()?),
                "--format" => format = words.value()?,
                "-l" | "--loop" => every = Some(words.time(1.0)?.unwrap_or(EVERY)),
                "-lms" | "--loop-ms" => every = Some(words.time(0.001)?.unwrap_or(EVERY)),
                "--help-query-gpu" => help = Some(fields::help(false)),
                "--help-query-compute-apps" => help = Some(fields::help(true)),
                other => bail!(
                    "without NVIDIA's program on this machine, `busbar smi` knows -L, -q, -x, -d, \
                     -i, -l, -lms, --query-gpu= and --query-compute-apps= with --format=csv, topo, \
                     dmon and pmon, and not `{other}`: install nvidia-smi here, or run it at the \
                     server"
                ),
            }
            left = words.rest;
        }
        let forms = [
            list,
            long || sections.is_some(),
            gpus.is_some(),
            processes.is_some(),
        ];
        if forms.iter().filter(|f| **f).count() > 1 {
            bail!("choose one of -L, -q, --query-gpu and --query-compute-apps");
        }
        if xml && !forms[1] {
            bail!("-x goes with -q: `busbar smi -q -x`");
        }
        let form = match (help, gpus, processes) {
            (Some(text), ..) => Form::Help(text),
            (_, Some(names), _) => Form::Gpus(Csv::new(false, names, format)?),
            (_, _, Some(names)) => Form::Processes(Csv::new(true, names, format)?),
            _ if list => Form::List,
            _ if forms[1] => {
                let none = |word| {
                    let all = readings::words();
                    anyhow::Error::msg(format!("-d: there is no `{word}` here: say {all}"))
                };
                let sections = readings::sections(sections).map_err(none)?;
                match xml {
                    true => Form::Xml(sections),
                    false => Form::Long(sections),
                }
            }
            _ => Form::Screen,
        };
        Ok(Self {
            form,
            every,
            times: None,
            ids,
        })
    }

    /// Reads what stands behind `topo`.
    fn topology(mut left: &[String]) -> Result<Self> {
        let mut shown = None;
        while let Some(mut words) = Words::next(left) {
            let form = match words.flag {
                "-m" | "--matrix" => Topology::Matrix,
                "-p2p" | "--p2pstatus" => Topology::peers(words.value()?)?,
                other => bail!("`busbar smi topo` knows -m and -p2p here, and not `{other}`"),
            };
            if shown.replace(form).is_some() {
                bail!("topo: choose one of -m and -p2p");
            }
            left = words.rest;
        }
        let shown = shown.context("topo of what? say -m, or -p2p and r, w, n, a or p")?;
        Ok(Self {
            form: Form::Topology(shown),
            every: None,
            times: None,
            ids: Vec::new(),
        })
    }

    /// Reads `dmon` or `pmon`, and what stands behind it.
    fn monitor(what: What, all: &[String]) -> Result<Self> {
        let (mut every, mut times, mut ids) = (SAMPLE, None, Vec::new());
        let (mut letters, mut stamps) = (None, "");
        let mut left = &all[1..];
        while let Some(mut words) = Words::next(left) {
            match words.flag {
                "-s" | "--select" => letters = Some(words.value()?),
                "-c" | "--count" => times = Some(words.count()?),
                "-d" | "--delay" => every = words.seconds()?,
                "-i" | "--id" => ids.extend(words.list()?),
                "-o" | "--options" => stamps = words.value()?,
                other => bail!(
                    "`busbar smi {}` knows -s, -c, -d, -i and -o here, and not `{other}`",
                    all[0]
                ),
            }
            left = words.rest;
        }
        Ok(Self {
            form: Form::Monitor(Monitor::new(what, letters, stamps)?),
            every: Some(every),
            times,
            ids,
        })
    }

    /// Those of some GPUs that it is about.
    pub fn chosen<'a>(&self, all: Vec<Card<'a>>) -> Result<Vec<Card<'a>>> {
        let meant = |c: &Card<'_>| self.ids.is_empty() || self.ids.iter().any(|id| c.is(id));
        let none = self.ids.iter().find(|id| !all.iter().any(|c| c.is(id)));
        if let (Some(id), false) = (none, all.is_empty()) {
            bail!("-i: there is no GPU `{id}`: `busbar smi -L` lists them");
        }
        Ok(all.into_iter().filter(meant).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Options> {
        let words: Vec<_> = words.split_whitespace().map(OsString::from).collect();
        Options::read(&words)
    }

    #[test]
    fn nvidias_ways_to_write_flags_are_read() {
        let every = |words| read(words).unwrap().every.map(|e| e.as_millis());
        assert_eq!(every("-l 2"), Some(2000));
        assert_eq!(every("--loop=2 -L"), Some(2000));
        assert_eq!(every("-l -L"), Some(5000));
        assert_eq!(every("-lms 250"), Some(250));
        assert_eq!(every("-L"), None);
        let ids = |words| read(words).unwrap().ids;
        assert_eq!(ids("-i 0,GPU-1 -q"), ["0", "GPU-1"]);
        assert_eq!(ids("--id=1"), ["1"]);
        let csv = |words| match read(words).unwrap().form {
            Form::Gpus(csv) | Form::Processes(csv) => csv.heading(),
            _ => panic!("{words} is no list"),
        };
        assert_eq!(
            csv("--query-gpu=gpu_name,memory.used --format=csv").unwrap(),
            "name, memory.used [MiB]\n"
        );
        assert_eq!(csv("--query-gpu name --format csv,noheader"), None);
        assert_eq!(
            csv("--query-compute-apps=pid,used_memory").unwrap(),
            "pid, used_gpu_memory [MiB]\n"
        );
        assert!(matches!(read("-d memory,pids").unwrap().form, Form::Long(s) if s.len() == 2));
        assert!(matches!(read("-x -q").unwrap().form, Form::Xml(_)));
        assert!(
            matches!(read("-d POWER --xml-format").unwrap().form, Form::Xml(s) if s.len() == 1)
        );
        assert!(matches!(read("").unwrap().form, Form::Screen));
        let topology = |words| match read(words).unwrap().form {
            Form::Topology(t) => t,
            _ => panic!("{words} is no topology"),
        };
        assert_eq!(topology("topo -m"), Topology::Matrix);
        assert_eq!(topology("topo -p2p wr"), Topology::Peers(vec![1, 0]));
        assert_eq!(every("dmon"), Some(1000));
        assert_eq!(every("pmon --delay=3"), Some(3000));
        assert_eq!(ids("dmon -i 1,2 -c 3"), ["1", "2"]);
        let times = |words| read(words).unwrap().times;
        assert_eq!((times("dmon -c 3"), times("pmon")), (Some(3), None));
    }

    #[test]
    fn what_is_not_drawn_here_is_a_sentence() {
        for (words, said) in [
            ("-pm 1", "`-pm`: install nvidia-smi here"),
            ("-x", "-x goes with -q"),
            ("-L -x", "-x goes with -q"),
            ("topo", "say -m, or -p2p"),
            ("topo -mp", "knows -m and -p2p here, and not `-mp`"),
            ("topo -m -p2p r", "choose one"),
            ("topo -p2p z", "no `z` here: say r (read)"),
            ("dmon -s puz", "no `z` here: say one or several of pucvmet"),
            ("dmon -c 0", "`0` is no number of samples"),
            ("dmon -d", "-d of how many seconds?"),
            ("dmon -o X", "say D for the date"),
            ("dmon -f x", "`busbar smi dmon` knows -s, -c, -d, -i and -o"),
            ("pmon -s p", "no `p` here: say one or several of um"),
            ("-l 0", "`0` is no time"),
            ("-i", "-i of what?"),
            ("--query-gpu=name,heat", "--help-query-gpu"),
            ("--query-gpu=name --format=xml", "say csv"),
            ("-q -d HEAT", "say PERFORMANCE, MEMORY"),
            ("-q -L", "choose one"),
        ] {
            let why = read(words).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(why.contains(said), "{words}: {why}");
            assert_eq!(why.lines().count(), 1, "{words}: {why}");
        }
    }
}
