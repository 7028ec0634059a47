//! Builds of a program: what is under way, what came of it, and what is known to come.
//!
//! A program that builds from source and then loads the binary, as those do that keep their own
//! caches, need not wait for the server a second time: [`Given`] remembers what the binaries that a
//! session gave out came from.
#![forbid(unsafe_code)]

use super::kernel::KernelInfo;
use super::prelude::*;
use super::values::Plain;
use busbar_wire::{Reader, WireError};

/// The most binaries that are remembered.
const MOST_GIVEN: usize = 4096;

/// What is known of a program on one device.
#[derive(Clone, Default)]
pub struct Build {
    /// `CL_BUILD_*`.
    status: i32,
    options: String,
    log: Vec<u8>,
    /// `CL_PROGRAM_BINARY_TYPE_*`.
    kind: u32,
    /// Bytes of variables at program scope.
    globals: u64,
}

/// What became of a program: all that a build tells of it.
pub struct Outcome {
    /// By device.
    builds: Vec<(u32, Build)>,
    kernels: Vec<Arc<KernelInfo>>,
    names: String,
}

impl Outcome {
    /// Whether it is of these devices.
    pub fn is_for(&self, devices: &[u32]) -> bool {
        self.builds.iter().map(|b| b.0).eq(devices.iter().copied())
    }
}

/// What is known of a program.
#[derive(Default)]
pub struct Builds {
    /// By device, in the order of the program's list.
    list: Vec<(u32, Build)>,
    kernels: Option<Vec<Arc<KernelInfo>>>,
    names: String,
    /// The sizes of its binaries.
    pub sizes: Option<Vec<u64>>,
    /// The binaries, if they came with their sizes and nobody has asked for them yet.
    pub binaries: Vec<u8>,
    /// What building these binaries, which this session has given out, will come to.
    foreseen: Option<Arc<Outcome>>,
}

type Parsed = (Vec<(u32, Build)>, Option<(String, Vec<Arc<KernelInfo>>)>);

fn parse(info: &[u8]) -> std::result::Result<Parsed, WireError> {
    let mut r = Reader::new(info);
    let n = r.count(4096, 8)?;
    let mut builds = Vec::new();
    for _ in 0..n {
        let id = r.u32()?;
        let build = Build {
            status: r.i32()?,
            kind: r.u32()?,
            globals: r.u64()?,
            log: r.bytes()?.to_vec(),
            options: String::new(),
        };
        builds.push((id, build));
    }
    let kernels = match r.u8()? {
        0 => None,
        _ => {
            let names = r.str()?.to_string();
            let n = r.count(1 << 16, 8)?;
            let list = (0..n).map(|_| KernelInfo::parse(&mut r).map(Arc::new));
            Some((names, list.collect::<std::result::Result<Vec<_>, _>>()?))
        }
    };
    Ok((builds, kernels))
}

impl Builds {
    /// A program that was never built, for these devices.
    pub fn new(devices: &[u32]) -> Self {
        let fresh = Build {
            status: CL_BUILD_NONE,
            ..Build::default()
        };
        Self {
            list: devices.iter().map(|d| (*d, fresh.clone())).collect(),
            ..Self::default()
        }
    }

    /// Takes in what the worker says of the program after a build or a load.
    pub fn learn(&mut self, info: &[u8]) -> std::result::Result<(), WireError> {
        let (builds, kernels) = parse(info)?;
        for (id, mut b) in builds {
            if let Some((_, mine)) = self.list.iter_mut().find(|m| m.0 == id) {
                b.options = std::mem::take(&mut mine.options);
                *mine = b;
            }
        }
        self.sizes = None;
        self.binaries = Vec::new();
        self.foreseen = None;
        (self.names, self.kernels) = match kernels {
            Some((names, list)) => (names, Some(list)),
            None => (String::new(), None),
        };
        Ok(())
    }

    /// A build for some of the devices begins.
    pub fn begin(&mut self, chosen: &[u32], options: &str) -> Result<()> {
        let mut its = self.list.iter_mut().filter(|b| chosen.contains(&b.0));
        if its.any(|b| b.1.status == CL_BUILD_IN_PROGRESS) {
            return Err(CL_INVALID_OPERATION);
        }
        for (_, b) in self.list.iter_mut().filter(|b| chosen.contains(&b.0)) {
            *b = Build {
                status: CL_BUILD_IN_PROGRESS,
                options: options.into(),
                ..Build::default()
            };
        }
        Ok(())
    }

    /// The build that was under way is over; devices that it told nothing of have failed.
    pub fn end(&mut self) {
        for (_, b) in &mut self.list {
            if b.status == CL_BUILD_IN_PROGRESS {
                b.status = CL_BUILD_ERROR;
            }
        }
    }

    /// What the last build came to, if that was a success on all devices.
    pub fn outcome(&self) -> Option<Arc<Outcome>> {
        let good = |b: &(u32, Build)| b.1.status == CL_BUILD_SUCCESS;
        self.list.iter().all(good).then_some(())?;
        Some(Arc::new(Outcome {
            builds: self.list.clone(),
            kernels: self.kernels.clone()?,
            names: self.names.clone(),
        }))
    }

    /// The program is of binaries whose build is known to come to this.
    pub fn foresee(&mut self, outcome: Arc<Outcome>) {
        for ((_, b), (_, made)) in self.list.iter_mut().zip(&outcome.builds) {
            b.kind = made.kind;
        }
        self.foreseen = Some(outcome);
    }

    /// Whether it is known what a build will come to.
    pub fn is_foreseen(&self) -> bool {
        self.foreseen.is_some()
    }

    /// The build came to what was foreseen.
    pub fn fulfil(&mut self) {
        let Some(o) = self.foreseen.clone() else {
            return;
        };
        for ((_, b), (_, made)) in self.list.iter_mut().zip(&o.builds) {
            b.status = CL_BUILD_SUCCESS;
            b.kind = made.kind;
            b.globals = made.globals;
        }
        self.kernels = Some(o.kernels.clone());
        self.names.clone_from(&o.names);
    }

    /// What is known of a kernel, or why there is no such kernel.
    pub fn kernel(&self, name: &str) -> Result<Arc<KernelInfo>> {
        let mut list = self.kernels()?.iter();
        let found = list.find(|k| k.name == name).cloned();
        found.ok_or(CL_INVALID_KERNEL_NAME)
    }

    /// All kernels, or why there are none.
    pub fn kernels(&self) -> Result<&[Arc<KernelInfo>]> {
        let list = self.kernels.as_deref();
        list.ok_or(CL_INVALID_PROGRAM_EXECUTABLE)
    }

    /// Their names, as the library lists them.
    pub fn names(&self) -> Result<&str> {
        self.kernels().map(|_| self.names.as_str())
    }

    /// The answer to a query about the build for a device.
    pub fn info(&self, device: u32, param: u32) -> Result<Vec<u8>> {
        let its = self.list.iter().find(|b| b.0 == device);
        let b = &its.ok_or(CL_INVALID_DEVICE)?.1;
        Ok(match param {
            CL_PROGRAM_BUILD_STATUS => b.status.plain(),
            CL_PROGRAM_BUILD_OPTIONS => b.options.as_str().plain(),
            CL_PROGRAM_BUILD_LOG if b.log.is_empty() => vec![0],
            CL_PROGRAM_BUILD_LOG => b.log.clone(),
            CL_PROGRAM_BINARY_TYPE => b.kind.plain(),
            CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE => (b.globals as usize).plain(),
            _ => return Err(CL_INVALID_VALUE),
        })
    }
}

/// Binaries that a session has given out, by their hash.
#[derive(Default)]
pub struct Given(HashMap<blake3::Hash, Arc<Outcome>>);

impl Given {
    fn name(lengths: &[u64], binaries: &[u8]) -> blake3::Hash {
        let mut h = blake3::Hasher::new();
        for n in lengths {
            h.update(&n.to_le_bytes());
        }
        h.update(binaries).finalize()
    }

    /// Remembers binaries and the build that they came from.
    pub fn add(&mut self, lengths: &[u64], binaries: &[u8], outcome: Arc<Outcome>) {
        if self.0.len() >= MOST_GIVEN {
            self.0.clear();
        }
        self.0.insert(Self::name(lengths, binaries), outcome);
    }

    /// The build that these binaries came from, if this session gave them out.
    pub fn find(&self, lengths: &[u64], binaries: &[u8]) -> Option<Arc<Outcome>> {
        self.0.get(&Self::name(lengths, binaries)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_wire::Writer;

    /// A build for device 1 with no kernels, as a worker tells of it.
    fn told(status: i32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u32(1);
        w.u32(1);
        w.i32(status);
        w.u32(CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
        w.u64(16);
        w.bytes(b"log\0");
        w.u8(u8::from(status == CL_BUILD_SUCCESS));
        if status == CL_BUILD_SUCCESS {
            w.str("");
            w.u32(0);
        }
        bytes
    }

    #[test]
    fn a_build_ends_well_or_in_an_error_and_keeps_its_options() {
        let mut b = Builds::new(&[1, 2]);
        assert!(b.kernels().is_err() && b.outcome().is_none());
        b.begin(&[1, 2], "-w").unwrap();
        assert_eq!(b.begin(&[2], ""), Err(CL_INVALID_OPERATION));
        b.learn(&told(CL_BUILD_SUCCESS)).unwrap();
        b.end();
        let status = |b: &Builds, d| b.info(d, CL_PROGRAM_BUILD_STATUS);
        assert_eq!(status(&b, 1), Ok(CL_BUILD_SUCCESS.plain()));
        assert_eq!(status(&b, 2), Ok(CL_BUILD_ERROR.plain()));
        assert_eq!(status(&b, 3), Err(CL_INVALID_DEVICE));
        assert_eq!(b.info(1, CL_PROGRAM_BUILD_OPTIONS), Ok("-w".plain()));
        assert_eq!(b.info(1, CL_PROGRAM_BUILD_LOG), Ok(b"log\0".to_vec()));
        assert_eq!(b.kernels().map(<[_]>::len), Ok(0));
        assert!(b.outcome().is_none(), "one device has none");
        assert!(b.learn(&told(CL_BUILD_SUCCESS)[..9]).is_err());
    }

    #[test]
    fn binaries_that_were_given_out_come_to_what_they_came_from() {
        let mut first = Builds::new(&[1]);
        first.learn(&told(CL_BUILD_SUCCESS)).unwrap();
        let outcome = first.outcome().unwrap();
        let mut given = Given::default();
        given.add(&[3], b"abc", outcome);
        assert!(given.find(&[3], b"abd").is_none() && given.find(&[1, 2], b"abc").is_none());
        let known = given.find(&[3], b"abc").unwrap();
        assert!(known.is_for(&[1]) && !known.is_for(&[2]) && !known.is_for(&[1, 2]));
        let mut second = Builds::new(&[1]);
        second.foresee(known);
        assert!(second.kernels().is_err(), "not before the build");
        second.begin(&[1], "").unwrap();
        second.fulfil();
        assert_eq!(
            second.info(1, CL_PROGRAM_BUILD_STATUS),
            Ok(CL_BUILD_SUCCESS.plain())
        );
        assert_eq!(second.names(), Ok(""));
        // Another build of the source tells for itself.
        second.learn(&told(CL_BUILD_ERROR)).unwrap();
        assert!(!second.is_foreseen() && second.kernels().is_err());
    }
}
