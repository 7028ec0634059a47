//! Boxes of bytes: pitched memory, arrays, rows of the program.

use busbar_abi::cuda::*;
use busbar_wire::limits::BULK_CHUNK;

/// The program's memory.
pub const HOST: u32 = CU_MEMORYTYPE_HOST;
/// A device's.
pub const DEVICE: u32 = CU_MEMORYTYPE_DEVICE;
/// An array.
pub const ARRAY: u32 = CU_MEMORYTYPE_ARRAY;
/// Whatever the address says.
pub const UNIFIED: u32 = CU_MEMORYTYPE_UNIFIED;

/// Bytes of packed rows in one record.
pub const CHUNK: usize = BULK_CHUNK;

/// Bytes of packed rows in one answer.
const ROOM: usize = 32 << 20;

/// One end of a copy.
#[derive(Debug, Clone, Copy, Default)]
pub struct End {
    pub memory: u32,
    pub host: u64,
    pub device: u64,
    pub array: u64,
    pub context: u64,
    pub x: usize,
    pub y: usize,
    pub z: usize,
    pub lod: usize,
    pub pitch: usize,
    pub height: usize,
}

impl End {
    /// Where the first and the last row of a box begin, from where this end does; `None` when no
    /// address can be that far away.
    pub fn extent(&self, r: &Rows) -> Option<(u64, u64)> {
        let row = |y: usize, z: usize| {
            let rows = z.checked_mul(self.height)?.checked_add(y)?;
            let at = rows.checked_mul(self.pitch)?.checked_add(self.x)?;
            at.checked_add(r.width)?;
            Some(at as u64)
        };
        let last = |at: usize, n: usize| at.checked_add(n - 1);
        let (y, z) = (last(self.y, r.height)?, last(self.z, r.depth)?);
        Some((row(self.y, self.z)?, row(y, z)?))
    }

    /// The address of a row's first byte on the host.
    pub fn row(&self, y: usize, z: usize) -> u64 {
        let rows = (self.z + z) * self.height + self.y + y;
        self.host + (rows * self.pitch + self.x) as u64
    }
}

/// A copy of a box of bytes.
#[derive(Clone, Copy, Default)]
pub struct Rows {
    pub src: End,
    pub dst: End,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

impl Rows {
    /// The same from a column, row and slice on, and no more than so many of each.
    fn part(&self, [x, y, z]: [usize; 3], [width, height, depth]: [usize; 3]) -> Self {
        let from = |mut e: End| {
            (e.x, e.y, e.z) = (e.x + x, e.y + y, e.z + z);
            e
        };
        Self {
            src: from(self.src),
            dst: from(self.dst),
            width: width.min(self.width - x),
            height: height.min(self.height - y),
            depth: depth.min(self.depth - z),
        }
    }

    /// Stripes of rows of at most so many bytes.
    pub fn stripes(self, width: usize) -> impl Iterator<Item = Self> {
        let at = (0..self.width).step_by(width);
        at.map(move |x| self.part([x, 0, 0], [width, usize::MAX, usize::MAX]))
    }

    /// Boxes of about as many bytes as an answer has room for.
    pub fn boxes(self) -> impl Iterator<Item = Self> {
        self.boxes_of(ROOM)
    }

    /// Boxes of at most so many bytes, or of one row.
    pub fn boxes_of(self, bytes: usize) -> impl Iterator<Item = Self> {
        let rows = (bytes / self.width).max(1);
        let (height, depth) = match rows / self.height {
            0 => (rows, 1),
            slices => (self.height, slices),
        };
        let slices = (0..self.depth).step_by(depth);
        slices.flat_map(move |z| {
            let rows = (0..self.height).step_by(height);
            rows.map(move |y| self.part([0, y, z], [usize::MAX, height, depth]))
        })
    }

    /// The program's memory that the box is copied to, or from.
    pub fn host(&self, end: End) -> HostBox {
        HostBox {
            end,
            width: self.width,
            height: self.height,
            depth: self.depth,
        }
    }
}

/// The copy as the worker gets it: without addresses of the program's.
pub fn shape(r: &Rows) -> CUDA_MEMCPY3D {
    let mut c: CUDA_MEMCPY3D = busbar_abi::zeroed();
    c.srcXInBytes = r.src.x;
    c.srcY = r.src.y;
    c.srcZ = r.src.z;
    c.srcLOD = r.src.lod;
    c.srcMemoryType = r.src.memory as _;
    c.srcDevice = r.src.device as _;
    c.srcPitch = r.src.pitch;
    c.srcHeight = r.src.height;
    c.dstXInBytes = r.dst.x;
    c.dstY = r.dst.y;
    c.dstZ = r.dst.z;
    c.dstLOD = r.dst.lod;
    c.dstMemoryType = r.dst.memory as _;
    c.dstDevice = r.dst.device as _;
    c.dstPitch = r.dst.pitch;
    c.dstHeight = r.dst.height;
    c.WidthInBytes = r.width;
    c.Height = r.height;
    c.Depth = r.depth;
    c
}

/// The copy that a structure describes.
pub fn from_2d(c: &CUDA_MEMCPY2D) -> Rows {
    let src = End {
        memory: c.srcMemoryType,
        host: c.srcHost as u64,
        device: c.srcDevice,
        array: c.srcArray as u64,
        x: c.srcXInBytes,
        y: c.srcY,
        pitch: c.srcPitch,
        ..End::default()
    };
    let dst = End {
        memory: c.dstMemoryType,
        host: c.dstHost as u64,
        device: c.dstDevice,
        array: c.dstArray as u64,
        x: c.dstXInBytes,
        y: c.dstY,
        pitch: c.dstPitch,
        ..End::default()
    };
    Rows {
        src,
        dst,
        width: c.WidthInBytes,
        height: c.Height,
        depth: 1,
    }
}

/// The same of a box, with the handles of the contexts of its ends.
macro_rules! from_3d {
    ($c:expr, $src_ctx:expr, $dst_ctx:expr) => {{
        let c = $c;
        let src = End {
            memory: c.srcMemoryType as u32,
            host: c.srcHost as u64,
            device: c.srcDevice,
            array: c.srcArray as u64,
            context: $src_ctx,
            x: c.srcXInBytes,
            y: c.srcY,
            z: c.srcZ,
            lod: c.srcLOD,
            pitch: c.srcPitch,
            height: c.srcHeight,
        };
        let dst = End {
            memory: c.dstMemoryType as u32,
            host: c.dstHost as u64,
            device: c.dstDevice,
            array: c.dstArray as u64,
            context: $dst_ctx,
            x: c.dstXInBytes,
            y: c.dstY,
            z: c.dstZ,
            lod: c.dstLOD,
            pitch: c.dstPitch,
            height: c.dstHeight,
        };
        Rows {
            src,
            dst,
            width: c.WidthInBytes,
            height: c.Height,
            depth: c.Depth,
        }
    }};
}

pub(in crate::cuda) use from_3d;

/// One row of an array, from a byte on.
pub fn in_array(a: CUarray, offset: usize) -> End {
    End {
        memory: ARRAY,
        array: a as u64,
        x: offset,
        ..End::default()
    }
}

/// One row in memory of a kind.
pub fn at(memory: u32, p: u64) -> End {
    End {
        memory,
        host: p,
        device: p,
        ..End::default()
    }
}

/// The copy that a node's parameters describe.
pub fn rows_of(c: &CUDA_MEMCPY3D) -> Rows {
    from_3d!(c, 0, 0)
}

/// A box of the program's memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostBox {
    /// Where it begins, and its pitch.
    pub end: End,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

impl HostBox {
    /// Its bytes.
    pub fn len(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// Its first address, and how many bytes its rows span.
    pub fn span(&self) -> (u64, usize) {
        let last = self.end.row(self.height - 1, self.depth - 1);
        let first = self.end.row(0, 0);
        (first, (last - first) as usize + self.width)
    }

    /// What of it is not in some ranges of addresses: where that is among its packed bytes, its
    /// address, and how many bytes.
    pub fn without(&self, ranges: &[(u64, u64)]) -> Vec<(usize, u64, usize)> {
        let mut left = match self.whole() {
            Some(p) => vec![(0, p, self.len())],
            None => {
                let place = |i: usize| self.end.row(i % self.height, i / self.height);
                let row = |i: usize| (i * self.width, place(i), self.width);
                (0..self.height * self.depth).map(row).collect()
            }
        };
        for (from, to) in ranges {
            let around = |(offset, p, n): (usize, u64, usize)| {
                let end = p + n as u64;
                let (before, behind) = match *from < end && p < *to {
                    true => ((*from).max(p), (*to).min(end)),
                    false => (end, end),
                };
                let first = (offset, p, (before - p) as usize);
                let second = offset + (behind - p) as usize;
                [first, (second, behind, (end - behind) as usize)]
            };
            left = left.into_iter().flat_map(around).collect();
            left.retain(|(_, _, n)| *n > 0);
        }
        left
    }

    /// Its first byte, if its rows lie one behind the other.
    pub fn whole(&self) -> Option<u64> {
        let rows = self.height * self.depth == 1 || self.end.pitch == self.width;
        let planes = self.depth == 1 || self.end.height == self.height;
        (rows && planes).then(|| self.end.row(0, 0))
    }
}

/// An array's extent.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes of an element; 0 for formats that have no single one.
    pub element: usize,
    /// Bytes of a row.
    row: usize,
    height: usize,
    depth: usize,
}

/// Bytes of one channel of a format.
fn channel(format: CUarray_format) -> usize {
    match format {
        0x01 | 0x08 | 0xc0 | 0xc3 => 1,
        0x02 | 0x09 | 0x10 | 0xc1 | 0xc4 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 0,
    }
}

impl Shape {
    /// Whether a box of bytes lies inside: places and sizes along each side.
    pub fn holds(&self, at: [usize; 3], size: [usize; 3]) -> bool {
        let ends = [self.row, self.height, self.depth];
        let inside = |i: usize| at[i].checked_add(size[i]).is_some_and(|end| end <= ends[i]);
        self.element == 0 || (0..3).all(inside)
    }
}

/// The shape that a description says.
pub fn shape_of(d: &CUDA_ARRAY3D_DESCRIPTOR) -> Shape {
    let element = channel(d.Format) * d.NumChannels as usize;
    Shape {
        element,
        row: d.Width * element,
        height: d.Height.max(1),
        depth: d.Depth.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_newer_elsewhere_is_not_sent() {
        let line = |p, width| HostBox {
            end: End {
                host: p,
                pitch: width,
                height: 1,
                ..End::default()
            },
            width,
            height: 1,
            depth: 1,
        };
        let b = line(100, 50);
        let whole = vec![(0, 100, 50)];
        for without in [(0, 100), (150, 200), (0, 1), (400, 500)] {
            assert_eq!(b.without(&[without]), whole, "{without:?}");
        }
        assert_eq!(b.without(&[(0, 500)]), []);
        assert_eq!(b.without(&[(90, 110)]), [(10, 110, 40)]);
        assert_eq!(b.without(&[(140, 160)]), [(0, 100, 40)]);
        let two = [(110, 120), (115, 130)];
        assert_eq!(b.without(&two), [(0, 100, 10), (30, 130, 20)]);
        let mut rows = line(100, 4);
        (rows.end.pitch, rows.height, rows.end.height) = (10, 3, 3);
        let all = [(0, 100, 4), (4, 110, 4), (8, 120, 4)];
        assert_eq!(rows.without(&[]), all);
        assert_eq!(rows.without(&[(104, 110)]), all, "between the rows");
        let left = [(0, 100, 4), (4, 110, 1), (10, 122, 2)];
        assert_eq!(rows.without(&[(111, 122)]), left);
    }
}
