//! What is known of kernels and of their arguments.
#![forbid(unsafe_code)]

use super::prelude::*;
use super::values::{Plain, Table};
use busbar_wire::{Reader, WireError};

/// What is known of one argument.
pub struct ArgInfo {
    /// `CL_KERNEL_ARG_ADDRESS_*`.
    pub address: u32,
    /// `CL_KERNEL_ARG_ACCESS_*`.
    pub access: u32,
    /// `CL_KERNEL_ARG_TYPE_*`.
    pub qualifiers: u64,
    /// Its type's name.
    pub type_name: String,
    /// Its name.
    pub name: String,
}

/// What the library takes for an argument, where it tells no more.
#[derive(Clone)]
enum Probed {
    Unknown,
    Local,
    Memory,
    Sizes(Vec<usize>),
}

/// What is known of a kernel.
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// How many arguments it has.
    pub n_args: u32,
    /// Its attributes.
    pub attributes: String,
    devices: Vec<(u32, Table)>,
    args: Option<Vec<ArgInfo>>,
    named: bool,
    probed: Vec<Probed>,
}

impl KernelInfo {
    /// Reads what the worker says of a kernel.
    pub fn parse(r: &mut Reader<'_>) -> std::result::Result<Self, WireError> {
        let name = r.str()?.to_string();
        let n_args = r.u32()?;
        let attributes = r.str()?.to_string();
        let n = r.count(4096, 8)?;
        let devices = (0..n)
            .map(|_| Ok((r.u32()?, Table::read(r)?)))
            .collect::<std::result::Result<_, WireError>>()?;
        let known = r.u8()?;
        let mut args = Vec::new();
        for _ in 0..if known > 0 { n_args } else { 0 } {
            args.push(ArgInfo {
                address: r.u32()?,
                access: r.u32()?,
                qualifiers: r.u64()?,
                type_name: r.str()?.to_string(),
                name: r.str()?.to_string(),
            });
        }
        let mut probed = Vec::new();
        for _ in 0..if known > 0 { 0 } else { n_args } {
            probed.push(match r.u8()? {
                1 => Probed::Local,
                2 => Probed::Memory,
                3 => {
                    let n = r.count(64, 4)?;
                    let sizes = (0..n).map(|_| Ok(r.u32()? as usize));
                    Probed::Sizes(sizes.collect::<std::result::Result<_, WireError>>()?)
                }
                _ => Probed::Unknown,
            });
        }
        Ok(Self {
            name,
            n_args,
            attributes,
            devices,
            args: (known > 0).then_some(args),
            named: known > 1,
            probed,
        })
    }

    /// What an argument may be.
    pub fn expected(&self, i: u32) -> Expected {
        match (&self.args, self.probed.get(i as usize)) {
            (Some(args), _) => expected(&args[i as usize]),
            (None, Some(Probed::Local)) => Expected::Local,
            (None, Some(Probed::Memory)) => Expected::Memory,
            (None, Some(Probed::Sizes(n))) if n.contains(&size_of::<Handle>()) => Expected::Eight,
            (None, Some(Probed::Sizes(n))) => Expected::Plain(n.clone()),
            (None, _) => Expected::Unknown,
        }
    }

    /// Whether an argument is local memory.
    pub fn is_local(&self, i: usize) -> bool {
        matches!(self.expected(i as u32), Expected::Local)
    }

    fn table(&self, device: u32) -> Option<&Table> {
        let its = self.devices.iter().find(|d| d.0 == device);
        its.map(|d| &d.1)
    }

    /// An answer about the kernel on a device.
    pub fn on(&self, device: u32, param: u32) -> Option<&[u8]> {
        self.table(device)?.get(param)
    }

    /// Sizes among the answers about the kernel on a device.
    pub fn sizes(&self, device: u32, param: u32) -> Vec<u64> {
        let table = self.table(device);
        table.map(|t| t.sizes(param)).unwrap_or_default()
    }

    /// Whether the kernel was built for a device.
    pub fn is_for(&self, device: u32) -> bool {
        self.table(device).is_some()
    }

    /// The device that it is for, if it is for only one.
    pub fn only_device(&self) -> Option<u32> {
        match &self.devices[..] {
            [one] => Some(one.0),
            _ => None,
        }
    }

    /// The answer to a query about an argument.
    pub fn arg_info(&self, i: u32, param: u32) -> Result<Vec<u8>> {
        refuse_if(i >= self.n_args, CL_INVALID_ARG_INDEX)?;
        let args = self.args.as_ref();
        let a = &args.ok_or(CL_KERNEL_ARG_INFO_NOT_AVAILABLE)?[i as usize];
        Ok(match param {
            CL_KERNEL_ARG_ADDRESS_QUALIFIER => a.address.plain(),
            CL_KERNEL_ARG_ACCESS_QUALIFIER => a.access.plain(),
            CL_KERNEL_ARG_TYPE_QUALIFIER => a.qualifiers.plain(),
            CL_KERNEL_ARG_TYPE_NAME if self.named => a.type_name.as_str().plain(),
            CL_KERNEL_ARG_NAME if self.named => a.name.as_str().plain(),
            CL_KERNEL_ARG_TYPE_NAME | CL_KERNEL_ARG_NAME => {
                return Err(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
            }
            _ => return Err(CL_INVALID_VALUE),
        })
    }
}

/// What an argument may be.
#[derive(Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing is known of it.
    Unknown,
    /// A buffer.
    Memory,
    /// An image.
    Image,
    /// A sampler.
    Sampler,
    /// A queue on a device.
    Queue,
    /// A size of local memory.
    Local,
    /// Eight bytes: a number, or an object that is not a buffer.
    Eight,
    /// Bytes of one of these sizes, or of any if none is listed.
    Plain(Vec<usize>),
}

fn expected(a: &ArgInfo) -> Expected {
    match a.address {
        CL_KERNEL_ARG_ADDRESS_LOCAL => Expected::Local,
        CL_KERNEL_ARG_ADDRESS_GLOBAL | CL_KERNEL_ARG_ADDRESS_CONSTANT => match a.access {
            CL_KERNEL_ARG_ACCESS_NONE => Expected::Memory,
            _ => Expected::Image,
        },
        _ => match a.type_name.as_str() {
            "sampler_t" => Expected::Sampler,
            "queue_t" => Expected::Queue,
            t if t.starts_with("image") && t.ends_with("_t") => Expected::Image,
            t if a.qualifiers & CL_KERNEL_ARG_TYPE_PIPE != 0 || t.starts_with("pipe") => {
                Expected::Unknown
            }
            t => Expected::Plain(scalar(t)),
        },
    }
}

/// The sizes of a built-in type; none for a type of the program's own.
fn scalar(name: &str) -> Vec<usize> {
    let three = name.ends_with('3');
    let Some(n) = size(name) else {
        return Vec::new();
    };
    // A vector of three is as large as one of four, but libraries take it without the fourth, too.
    match three {
        true => vec![n, n / 4 * 3],
        false => vec![n],
    }
}

fn size(name: &str) -> Option<usize> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let lanes = match &name[base.len()..] {
        "" => 1,
        "2" => 2,
        "3" | "4" => 4,
        "8" => 8,
        "16" => 16,
        _ => return None,
    };
    let one = match base {
        "char" | "uchar" | "unsigned char" => 1,
        "short" | "ushort" | "unsigned short" | "half" => 2,
        "int" | "uint" | "unsigned int" | "float" => 4,
        "long" | "ulong" | "unsigned long" | "double" => 8,
        _ => return None,
    };
    Some(one * lanes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_wire::Writer;

    impl KernelInfo {
        /// A kernel of which only its answers on one device are known.
        pub fn on_device(device: u32, table: Table) -> Self {
            Self {
                name: String::new(),
                n_args: 0,
                attributes: String::new(),
                devices: vec![(device, table)],
                args: None,
                named: false,
                probed: Vec::new(),
            }
        }
    }

    fn arg(address: u32, type_name: &str) -> ArgInfo {
        ArgInfo {
            address,
            access: CL_KERNEL_ARG_ACCESS_NONE,
            qualifiers: 0,
            type_name: type_name.into(),
            name: "a".into(),
        }
    }

    #[test]
    fn a_type_says_the_sizes_that_an_argument_may_have() {
        let plain = |t: &str| expected(&arg(CL_KERNEL_ARG_ADDRESS_PRIVATE, t));
        assert_eq!(plain("float"), Expected::Plain(vec![4]));
        assert_eq!(plain("uchar16"), Expected::Plain(vec![16]));
        assert_eq!(plain("unsigned long2"), Expected::Plain(vec![16]));
        // A vector of three is as large as one of four, or is taken without the fourth.
        assert_eq!(plain("int3"), Expected::Plain(vec![16, 12]));
        assert_eq!(plain("struct own"), Expected::Plain(Vec::new()));
        assert_eq!(plain("float5"), Expected::Plain(Vec::new()));
        assert_eq!(plain("sampler_t"), Expected::Sampler);
        assert_eq!(plain("image2d_t"), Expected::Image);
        let global = expected(&arg(CL_KERNEL_ARG_ADDRESS_GLOBAL, "float*"));
        assert_eq!(global, Expected::Memory);
        let local = expected(&arg(CL_KERNEL_ARG_ADDRESS_LOCAL, "float*"));
        assert_eq!(local, Expected::Local);
    }

    #[test]
    fn a_description_without_types_says_what_the_library_takes() {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.str("k");
        w.u32(4);
        w.str("");
        w.u32(1);
        w.u32(9);
        w.u32(0);
        w.u8(0);
        w.u8(1);
        w.u8(2);
        w.u8(3);
        w.u32(1);
        w.u32(8);
        w.u8(0);
        let k = KernelInfo::parse(&mut Reader::new(&bytes)).unwrap();
        assert!(k.is_for(9) && !k.is_for(8));
        assert_eq!(k.only_device(), Some(9));
        let all: Vec<_> = (0..4).map(|i| k.expected(i)).collect();
        let wanted = [
            Expected::Local,
            Expected::Memory,
            Expected::Eight,
            Expected::Unknown,
        ];
        assert_eq!(all, wanted);
        let not_known = Err(CL_KERNEL_ARG_INFO_NOT_AVAILABLE);
        assert_eq!(k.arg_info(0, CL_KERNEL_ARG_NAME), not_known);
        assert_eq!(k.arg_info(4, CL_KERNEL_ARG_NAME), Err(CL_INVALID_ARG_INDEX));
        assert!(KernelInfo::parse(&mut Reader::new(&bytes[..20])).is_err());
    }
}
