//! What is known of instructions, against the processor that these tests run on.

use super::*;
use std::ffi::c_void;

// Loads the registers that its argument points at, executes what stands in the gap, and stores the
// registers there. The stack pointer stays.
std::arch::global_asm!(
    ".globl busbar_test_begin",
    ".globl busbar_test_gap",
    ".globl busbar_test_rest",
    ".globl busbar_test_end",
    "busbar_test_begin:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15; push rdi",
    "push [rdi + 128]; popfq",
    "mov rax, [rdi]; mov rcx, [rdi + 8]; mov rdx, [rdi + 16]; mov rbx, [rdi + 24]",
    "mov rbp, [rdi + 40]; mov rsi, [rdi + 48]",
    "mov r8, [rdi + 64]; mov r9, [rdi + 72]; mov r10, [rdi + 80]; mov r11, [rdi + 88]",
    "mov r12, [rdi + 96]; mov r13, [rdi + 104]; mov r14, [rdi + 112]; mov r15, [rdi + 120]",
    "mov rdi, [rdi + 56]",
    "busbar_test_gap:",
    "busbar_test_rest:",
    "push rdi; mov rdi, [rsp + 8]",
    "mov [rdi], rax; mov [rdi + 8], rcx; mov [rdi + 16], rdx; mov [rdi + 24], rbx",
    "mov [rdi + 40], rbp; mov [rdi + 48], rsi",
    "mov [rdi + 64], r8; mov [rdi + 72], r9; mov [rdi + 80], r10; mov [rdi + 88], r11",
    "mov [rdi + 96], r12; mov [rdi + 104], r13; mov [rdi + 112], r14; mov [rdi + 120], r15",
    "pushfq; pop [rdi + 128]",
    "pop rax; mov [rdi + 56], rax",
    "pop rdi; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
    "busbar_test_end:",
);

unsafe extern "C" {
    fn busbar_test_begin();
    fn busbar_test_rest();
    fn busbar_test_end();
}

/// A page for code.
struct Page(*mut u8);

impl Page {
    fn new() -> Self {
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let p = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) };
        assert_ne!(p, libc::MAP_FAILED);
        Self(p.cast())
    }

    /// Has the processor execute an instruction with these registers.
    fn execute(&self, instruction: &[u8], r: &mut Registers) {
        let begin = busbar_test_begin as *const () as *const u8;
        let rest = busbar_test_rest as *const () as *const u8;
        let end = busbar_test_end as *const () as *const u8;
        let mut all = [0u64; 17];
        all[..16].copy_from_slice(&r.general);
        all[16] = r.flags | 2;
        // SAFETY: the parts of a function, laid out one after the other, which keeps its caller's
        // registers; its argument is room for as many.
        unsafe {
            let before = rest.offset_from(begin) as usize;
            let after = end.offset_from(rest) as usize;
            std::ptr::copy_nonoverlapping(begin, self.0, before);
            let gap = self.0.add(before);
            std::ptr::copy_nonoverlapping(instruction.as_ptr(), gap, instruction.len());
            std::ptr::copy_nonoverlapping(rest, gap.add(instruction.len()), after);
            let f: extern "C" fn(*mut u64) = std::mem::transmute(self.0.cast::<c_void>());
            f(all.as_mut_ptr());
        }
        let sp = r.general[4];
        r.general.copy_from_slice(&all[..16]);
        (r.general[4], r.flags) = (sp, all[16]);
        r.ip += instruction.len() as u64;
    }
}

/// Numbers that come again with the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Numbers at whose edges flags change are as likely as others.
    fn word(&mut self) -> u64 {
        let n = self.next();
        match n % 8 {
            0 => 0,
            1 => u64::MAX,
            2 => 0x8080_8080_8080_8080,
            3 => 0x7f7f_7f7f_7f7f_7f7f,
            4 => n >> 8 & 0xf,
            _ => self.next(),
        }
    }
}

/// All operations of one byte, and of two, with what stands in the middle of their operands.
fn forms() -> Vec<(Vec<u8>, Option<u8>, usize)> {
    let mut all = Vec::new();
    let one = |op: u8| vec![op];
    for op in [0x00, 0x08, 0x20, 0x28, 0x30, 0x86, 0x88] {
        all.extend([0, 1].map(|full| (one(op + full), None, 0)));
    }
    for by in [0, 1, 4, 5, 6] {
        all.push((one(0x80), Some(by), 1));
        all.push((one(0x81), Some(by), 4));
        all.push((one(0x83), Some(by), 1));
    }
    for (op, by) in [(0xfe, 0), (0xfe, 1), (0xf6, 2)] {
        all.extend([0, 1].map(|full| (one(op + full), Some(by), 0)));
    }
    all.push((one(0xc6), Some(0), 1));
    all.push((one(0xc7), Some(0), 4));
    for op in [0xb0, 0xb1, 0xc0, 0xc1, 0xab, 0xb3, 0xbb] {
        all.push((vec![0x0f, op], None, 0));
    }
    all.push((vec![0x0f, 0xc7], Some(1), 0));
    for by in [5, 6, 7] {
        all.push((vec![0x0f, 0xba], Some(by), 1));
    }
    all
}

#[test]
fn the_device_does_what_the_processor_would_have_done() {
    let (page, mut dice) = (Page::new(), Dice(0x1234_5678_9abc_def1));
    let mut memory = [0u64; 64];
    let middle = memory.as_ptr() as u64 + 256;
    let mut done = 0;
    for round in 0..200_000 {
        let all = forms();
        let (op, by, immediate) = &all[round % all.len()];
        // Operands of eight, four, two bytes; the address in one of three ways.
        let (wide, short) = (dice.next() % 3 == 0, dice.next() % 3 == 0);
        let mut r = Registers {
            general: [(); 16].map(|()| dice.word()),
            ip: 0x1000,
            flags: dice.next() & ALL,
        };
        // Of bits far away only the near ones.
        let far = op.first() == Some(&0x0f) && matches!(op[1], 0xab | 0xb3 | 0xbb);
        let reg = by.map_or_else(|| (dice.next() % 16) as u8, |by| by);
        if far {
            r.general[usize::from(reg)] = (dice.next() % 512).wrapping_sub(256);
        }
        let (base, index) = (6, 14);
        if by.is_none() && (reg == 4 || reg == base || reg == index) {
            continue;
        }
        let mut code = Vec::new();
        let is_store = matches!(op[..], [0x88 | 0x89 | 0xc6 | 0xc7]);
        let locks = !is_store && !matches!(op[..], [0x86 | 0x87]);
        if short {
            code.push(0x66);
        }
        if locks {
            code.push(0xf0);
        }
        let rex = 0x40 | u8::from(wide) << 3 | (reg >> 3) << 2;
        let way = dice.next() % 3;
        let rex = rex | if way == 2 { 2 } else { 0 };
        if rex != 0x40 || dice.next() % 2 == 0 {
            code.push(rex);
        }
        code.extend(op);
        let width: u64 = match (op.last().is_some_and(|op| op & 1 == 0), wide, short) {
            (true, ..) if !far && *by != Some(5) && op[..] != [0x0f, 0xba] => 1,
            (_, true, _) => 8,
            (_, _, true) => 2,
            _ => 4,
        };
        let at = middle + 8 * (dice.next() % 4);
        let reg = reg & 7;
        match way {
            // [rsi]
            0 => {
                code.push(reg << 3 | base);
                r.general[6] = at;
            }
            // [rsi + disp8]
            1 => {
                code.extend([0x40 | reg << 3 | base, 0xf8]);
                r.general[6] = at + 8;
            }
            // [rsi + r14 * 4 + disp32]
            _ => {
                code.extend([0x80 | reg << 3 | 4, 2 << 6 | 6 << 3 | base]);
                code.extend(100i32.to_le_bytes());
                r.general[14] = dice.next() % 1000;
                r.general[6] = at - 4 * r.general[14] - 100;
            }
        }
        let n = match (immediate, width) {
            (4, 2) => 2,
            (n, _) => *n,
        };
        code.extend(&dice.word().to_le_bytes()[..n]);
        if op[..] == [0x0f, 0xc7] && wide {
            // Sixteen bytes are let in.
            assert_eq!(read(&code, &r), None);
            continue;
        }
        memory.fill_with(|| dice.word());
        // So that a comparison may find what it expects.
        if dice.next() % 2 == 0 && !far {
            r.general[RAX] = memory[((at - memory.as_ptr() as u64) / 8) as usize];
            r.general[RDX] = r.general[RAX] >> 32;
        }
        let Some(found) = read(&code, &r) else {
            panic!("{code:02x?} is not known");
        };
        let what = format!("{code:02x?} {r:x?} {found:x?}");
        let a = found.atomic;
        assert_eq!(found.is_store, is_store, "{what}");
        let word = a.at as *mut u8;
        let (mut had, n) = ([0; 8], usize::from(a.width));
        // SAFETY: within the memory of this test.
        unsafe { std::ptr::copy_nonoverlapping(word, had.as_mut_ptr(), n) };
        let had = u64::from_le_bytes(had);
        let mut ours = r;
        found.done(&mut ours, had);
        let is = a.operation.of(had, a.operand, a.expected).to_le_bytes();
        page.execute(&code, &mut r);
        let mut same = [0; 8];
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(word, same.as_mut_ptr(), n) };
        assert_eq!(same[..n], is[..n], "{what}");
        // Some flags are undefined.
        let defined = match found.leaves {
            Leaves::Logic => ALL & !ADJUST,
            Leaves::Bit(_) => CARRY,
            _ => ALL,
        };
        (ours.flags, r.flags) = (ours.flags & defined, r.flags & defined);
        assert_eq!(ours, r, "{what}");
        done += 1;
    }
    assert!(done > 150_000, "{done}");
}

#[test]
fn what_is_no_change_of_a_word_is_not_known() {
    let r = Registers {
        general: [0x1000; 16],
        ..Registers::default()
    };
    for code in [
        // A load, and a register.
        &[0x8b, 0x06][..],
        &[0x89, 0xc6],
        // Without a lock others may come in between.
        &[0x01, 0x06],
        // A vector, and a string.
        &[0x0f, 0x11, 0x06],
        &[0xf3, 0xa4],
        // By a segment.
        &[0x64, 0x89, 0x06],
        // Cut short.
        &[0xf0, 0x48, 0x0f],
        &[0xf0],
        &[],
        // Across words.
        &[0x89, 0x46, 0x01],
    ] {
        assert_eq!(read(code, &r), None, "{code:02x?}");
    }
    let far = read(&[0x89, 0x05, 0x12, 0, 0, 0], &Registers { ip: 0x20, ..r });
    assert_eq!(far.map(|i| i.atomic.at), Some(0x38), "from its end");
}
