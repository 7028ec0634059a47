//! Instructions of the program that change a word of memory, so that the device may do it in their
//! place: those that are atomic, and plain stores.
//!
//! Of x86-64 those are known that compilers write for C++'s and C's atomics, with operands of up to
//! eight bytes. What is not known here is let in to the memory like any other access.

use busbar_wire::atomics::{Atomic, Operation};

/// The registers of a thread that has been stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers {
    /// As instructions number them, from RAX to R15.
    pub general: [u64; 16],
    pub ip: u64,
    pub flags: u64,
}

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;

const CARRY: u64 = 1;
const PARITY: u64 = 1 << 2;
const ADJUST: u64 = 1 << 4;
const ZERO: u64 = 1 << 6;
const SIGN: u64 = 1 << 7;
const OVERFLOW: u64 = 1 << 11;
const ALL: u64 = CARRY | PARITY | ADJUST | ZERO | SIGN | OVERFLOW;

/// What an instruction leaves in registers, of what memory had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Nothing,
    /// The flags of a sum, which `keeps` the carry or does not.
    Sum {
        keeps_carry: bool,
    },
    /// The same of a difference.
    Difference {
        keeps_carry: bool,
    },
    /// The flags of a logical operation.
    Logic,
    /// The word itself.
    Word(Part),
    /// The word itself, and the flags of a sum.
    WordAndSum(Part),
    /// The flags of a comparison, and the word itself in the accumulator where it is another.
    Compared,
    /// The same of a pair of registers; of the flags one.
    ComparedPair,
    /// Whether the bit was set.
    Bit(u32),
}

/// A register, or the high byte of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    register: usize,
    high: bool,
}

/// An instruction that changes a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    pub atomic: Atomic,
    /// Nothing but a store: nobody sees what was there.
    pub is_store: bool,
    leaves: Leaves,
    /// Its bytes.
    len: u64,
}

/// As many ones as an operand of some bytes has bits.
fn mask(bytes: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(bytes))
}

fn sign_bit(bytes: u8) -> u64 {
    1 << (8 * u32::from(bytes) - 1)
}

impl Registers {
    fn get(&self, p: Part, bytes: u8) -> u64 {
        self.general[p.register] >> (8 * u32::from(p.high)) & mask(bytes)
    }

    /// Four bytes clear the rest of a register, fewer leave it.
    fn set(&mut self, p: Part, bytes: u8, value: u64) {
        let r = &mut self.general[p.register];
        let shift = 8 * u32::from(p.high);
        *r = match bytes {
            8 => value,
            4 => value & mask(4),
            _ => *r & !(mask(bytes) << shift) | (value & mask(bytes)) << shift,
        };
    }

    fn set_flags(&mut self, which: u64, to: u64) {
        self.flags = self.flags & !which | to & which;
    }
}

/// The flags that a result alone tells.
fn flags_of(value: u64, bytes: u8) -> u64 {
    let value = value & mask(bytes);
    let mut flags = 0;
    if value == 0 {
        flags |= ZERO;
    }
    if value & sign_bit(bytes) != 0 {
        flags |= SIGN;
    }
    if (value as u8).count_ones().is_multiple_of(2) {
        flags |= PARITY;
    }
    flags
}

fn flags_of_sum(a: u64, b: u64, bytes: u8) -> u64 {
    let (a, b) = (a & mask(bytes), b & mask(bytes));
    let sum = a.wrapping_add(b) & mask(bytes);
    let mut flags = flags_of(sum, bytes);
    if sum < a {
        flags |= CARRY;
    }
    if (a ^ b ^ sum) & 0x10 != 0 {
        flags |= ADJUST;
    }
    if (a ^ sum) & (b ^ sum) & sign_bit(bytes) != 0 {
        flags |= OVERFLOW;
    }
    flags
}

fn flags_of_difference(a: u64, b: u64, bytes: u8) -> u64 {
    let (a, b) = (a & mask(bytes), b & mask(bytes));
    let rest = a.wrapping_sub(b) & mask(bytes);
    let mut flags = flags_of(rest, bytes);
    if a < b {
        flags |= CARRY;
    }
    if (a ^ b ^ rest) & 0x10 != 0 {
        flags |= ADJUST;
    }
    if (a ^ b) & (a ^ rest) & sign_bit(bytes) != 0 {
        flags |= OVERFLOW;
    }
    flags
}

/// The bytes of an instruction, from its beginning on.
struct Code<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Code<'_> {
    fn byte(&mut self) -> Option<u8> {
        let b = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(b)
    }

    /// A number of up to four bytes, with its sign.
    fn number(&mut self, bytes: u8) -> Option<i64> {
        let mut v = 0u64;
        for i in 0..bytes {
            v |= u64::from(self.byte()?) << (8 * i);
        }
        let unused = 64 - 8 * u32::from(bytes);
        Some((v << unused) as i64 >> unused)
    }
}

/// What comes before the operation.
#[derive(Default)]
struct Prefixes {
    lock: bool,
    /// Operands of two bytes.
    short: bool,
    rex: Option<u8>,
}

impl Prefixes {
    fn read(code: &mut Code<'_>) -> Option<Self> {
        let mut p = Self::default();
        loop {
            match *code.bytes.get(code.at)? {
                0xf0 => p.lock = true,
                0x66 => p.short = true,
                // Hints, and segments that begin at 0.
                0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 => {}
                rex @ 0x40..=0x4f => {
                    p.rex = Some(rex);
                    code.at += 1;
                    return Some(p);
                }
                _ => return Some(p),
            }
            code.at += 1;
        }
    }

    /// A bit of the last prefix: 8 for W, 4 for R, 2 for X, 1 for B.
    fn bit(&self, which: u8) -> bool {
        self.rex.is_some_and(|rex| rex & which != 0)
    }

    fn width(&self, byte: bool) -> u8 {
        match (byte, self.bit(8), self.short) {
            (true, ..) => 1,
            (_, true, _) => 8,
            (_, _, true) => 2,
            _ => 4,
        }
    }
}

/// Where the operand in memory is, and the other one's number.
struct Operands {
    reg: u8,
    /// But for what is counted from the instruction's end.
    address: u64,
    from_end: bool,
}

impl Operands {
    fn read(code: &mut Code<'_>, p: &Prefixes, r: &Registers) -> Option<Self> {
        let modrm = code.byte()?;
        let (mode, reg, rm) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
        let wide = |n: u8, bit: u8| usize::from(n) | if p.bit(bit) { 8 } else { 0 };
        let (mut address, mut from_end, mut far) = (0, false, mode == 2);
        match (mode, rm) {
            // No memory.
            (3, _) => return None,
            (0, 5) => (from_end, far) = (true, true),
            (_, 4) => {
                let sib = code.byte()?;
                let (scale, index, base) = (sib >> 6, wide(sib >> 3 & 7, 2), sib & 7);
                if index != 4 {
                    address = r.general[index] << scale;
                }
                match (mode, base) {
                    (0, 5) => far = true,
                    _ => address = address.wrapping_add(r.general[wide(base, 1)]),
                }
            }
            _ => address = r.general[wide(rm, 1)],
        }
        let displacement = match (far, mode) {
            (true, _) => code.number(4)?,
            (_, 1) => code.number(1)?,
            _ => 0,
        };
        Some(Self {
            reg: reg | if p.bit(4) { 8 } else { 0 },
            address: address.wrapping_add(displacement as u64),
            from_end,
        })
    }

    /// The register that is the other operand.
    fn part(&self, p: &Prefixes, width: u8) -> Part {
        let high = width == 1 && p.rex.is_none() && (4..8).contains(&self.reg);
        Part {
            register: usize::from(self.reg) - if high { 4 } else { 0 },
            high,
        }
    }
}

/// The instruction at the beginning of some bytes, if it changes a word and is known.
pub fn read(bytes: &[u8], r: &Registers) -> Option<Instruction> {
    let mut code = Code { bytes, at: 0 };
    let p = Prefixes::read(&mut code)?;
    let first = code.byte()?;
    let two = first == 0x0f;
    let op = if two { code.byte()? } else { first };
    let mut o = Operands::read(&mut code, &p, r)?;
    let (width, by) = (p.width(op & 1 == 0), o.reg & 7);
    // Operations of two bytes on bits have no form for a byte.
    let full = p.width(false);
    let immediate = |code: &mut Code<'_>, width: u8| code.number(width.min(4)).map(|v| v as u64);
    let register = |width| r.get(o.part(&p, width), width);
    let logic = |operation, operand, width| (operation, operand, 0, width, Leaves::Logic);
    let sum = |operand, width, keeps_carry| {
        (
            Operation::Add,
            operand,
            0,
            width,
            Leaves::Sum { keeps_carry },
        )
    };
    // Taken away by adding the opposite, but for the flags.
    let difference = |operand: u64, width, keeps_carry| {
        let leaves = Leaves::Difference { keeps_carry };
        (Operation::Add, operand.wrapping_neg(), 0, width, leaves)
    };
    let arithmetic = |which, operand, width| {
        Some(match which {
            0 => sum(operand, width, false),
            1 => logic(Operation::Or, operand, width),
            4 => logic(Operation::And, operand, width),
            5 => difference(operand, width, false),
            6 => logic(Operation::Xor, operand, width),
            _ => return None,
        })
    };
    let exchange = |operand, width, leaves| (Operation::Exchange, operand, 0, width, leaves);
    let bit = |n: u64, which| {
        let n = (n & (8 * u64::from(full) - 1)) as u32;
        let one = 1 << n;
        let (operation, operand) = match which {
            5 => (Operation::Or, one),
            6 => (Operation::And, !one),
            7 => (Operation::Xor, one),
            _ => return None,
        };
        Some((operation, operand, 0, full, Leaves::Bit(n)))
    };
    let mut is_store = false;
    let (operation, operand, expected, width, leaves) = match (two, op, p.lock) {
        (false, 0x00 | 0x01 | 0x08 | 0x09 | 0x20 | 0x21 | 0x28 | 0x29 | 0x30 | 0x31, true) => {
            arithmetic(op >> 3, register(width), width)?
        }
        (false, 0x80 | 0x83, true) => arithmetic(by, immediate(&mut code, 1)?, width)?,
        (false, 0x81, true) => arithmetic(by, immediate(&mut code, width)?, width)?,
        (false, 0x86 | 0x87, _) => {
            exchange(register(width), width, Leaves::Word(o.part(&p, width)))
        }
        (false, 0x88 | 0x89, false) => {
            is_store = true;
            exchange(register(width), width, Leaves::Nothing)
        }
        (false, 0xc6 | 0xc7, false) if by == 0 => {
            is_store = true;
            exchange(immediate(&mut code, width)?, width, Leaves::Nothing)
        }
        (false, 0xfe | 0xff, true) if by == 0 => sum(1, width, true),
        (false, 0xfe | 0xff, true) if by == 1 => difference(1, width, true),
        (false, 0xf6 | 0xf7, true) if by == 2 => {
            (Operation::Xor, u64::MAX, 0, width, Leaves::Nothing)
        }
        (true, 0xb0 | 0xb1, true) => {
            let expected = r.general[RAX];
            (
                Operation::Compare,
                register(width),
                expected,
                width,
                Leaves::Compared,
            )
        }
        (true, 0xc7, true) if by == 1 && !p.bit(8) => {
            let pair = |high: usize, low: usize| r.general[high] << 32 | r.general[low] & mask(4);
            let (new, expected) = (pair(RCX, RBX), pair(RDX, RAX));
            (Operation::Compare, new, expected, 8, Leaves::ComparedPair)
        }
        (true, 0xc0 | 0xc1, true) => {
            let leaves = Leaves::WordAndSum(o.part(&p, width));
            (Operation::Add, register(width), 0, width, leaves)
        }
        (true, 0xab | 0xb3 | 0xbb, true) => {
            // Of a bit beyond the word, that word is meant.
            let unused = 64 - 8 * u32::from(full);
            let n = (r.general[usize::from(o.reg)] << unused) as i64 >> unused;
            let words = n.div_euclid(8 * i64::from(full));
            o.address = o.address.wrapping_add((words * i64::from(full)) as u64);
            bit(n as u64, op >> 3 & 7)?
        }
        (true, 0xba, true) => bit(immediate(&mut code, 1)?, by)?,
        _ => return None,
    };
    let len = code.at as u64;
    if o.from_end {
        o.address = o.address.wrapping_add(r.ip.wrapping_add(len));
    }
    let (operand, expected) = (operand & mask(width), expected & mask(width));
    let atomic = Atomic {
        at: o.address,
        width,
        operation,
        operand,
        expected,
    };
    atomic.is_whole().then_some(Instruction {
        atomic,
        is_store,
        leaves,
        len,
    })
}

impl Instruction {
    /// It has been done: memory had a word before.
    pub fn done(&self, r: &mut Registers, had: u64) {
        let Atomic {
            width,
            operand,
            expected,
            ..
        } = self.atomic;
        let had = had & mask(width);
        let all_but_carry = |keeps| if keeps { ALL & !CARRY } else { ALL };
        match self.leaves {
            Leaves::Nothing => {}
            Leaves::Sum { keeps_carry } => {
                r.set_flags(
                    all_but_carry(keeps_carry),
                    flags_of_sum(had, operand, width),
                );
            }
            Leaves::Difference { keeps_carry } => {
                let flags = flags_of_difference(had, operand.wrapping_neg(), width);
                r.set_flags(all_but_carry(keeps_carry), flags);
            }
            Leaves::Logic => {
                let is = self.atomic.operation.of(had, operand, expected);
                r.set_flags(ALL, flags_of(is, width));
            }
            Leaves::Word(part) => r.set(part, width, had),
            Leaves::WordAndSum(part) => {
                r.set_flags(ALL, flags_of_sum(had, operand, width));
                r.set(part, width, had);
            }
            Leaves::Compared => {
                r.set_flags(ALL, flags_of_difference(expected, had, width));
                if had != expected {
                    let accumulator = Part {
                        register: RAX,
                        high: false,
                    };
                    r.set(accumulator, width, had);
                }
            }
            Leaves::ComparedPair => {
                r.set_flags(ZERO, if had == expected { ZERO } else { 0 });
                if had != expected {
                    r.general[RAX] = had & mask(4);
                    r.general[RDX] = had >> 32;
                }
            }
            Leaves::Bit(n) => r.set_flags(CARRY, if had >> n & 1 != 0 { CARRY } else { 0 }),
        }
        r.ip = r.ip.wrapping_add(self.len);
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
