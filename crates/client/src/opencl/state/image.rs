//! Formats, sizes and areas of images.
#![forbid(unsafe_code)]

use super::layout::Layout;
use super::prelude::*;
use super::values::{Plain, Table};

/// How many of origin's and region's numbers count pixels, rows or slices for a kind of image.
pub fn dims(kind: u32) -> usize {
    match kind {
        CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => 1,
        CL_MEM_OBJECT_IMAGE2D | CL_MEM_OBJECT_IMAGE1D_ARRAY => 2,
        _ => 3,
    }
}

/// Bytes of a pixel.
fn element_size(f: &ImageFormat) -> Option<usize> {
    let channels = match f.order {
        CL_R | CL_A | CL_INTENSITY | CL_LUMINANCE | CL_DEPTH | CL_RX => 1,
        CL_RG | CL_RA | CL_RGX => 2,
        CL_RGB | CL_RGBX | CL_S_RGB | CL_S_RGBX => 3,
        CL_RGBA | CL_BGRA | CL_ARGB | CL_ABGR | CL_S_RGBA | CL_S_BGRA => 4,
        _ => return None,
    };
    Some(match f.data_type {
        CL_SNORM_INT8 | CL_UNORM_INT8 | CL_SIGNED_INT8 | CL_UNSIGNED_INT8 => channels,
        CL_SNORM_INT16 | CL_UNORM_INT16 | CL_SIGNED_INT16 | CL_UNSIGNED_INT16 | CL_HALF_FLOAT => {
            2 * channels
        }
        CL_SIGNED_INT32 | CL_UNSIGNED_INT32 | CL_FLOAT => 4 * channels,
        CL_UNORM_SHORT_565 | CL_UNORM_SHORT_555 => 2,
        CL_UNORM_INT_101010 | CL_UNORM_INT_101010_2 => 4,
        _ => return None,
    })
}

/// The kind of an image and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `CL_MEM_OBJECT_*`.
    pub kind: u32,
    /// Width, height, depth and images in an array; 0 for those that the kind does not have.
    pub size: [usize; 4],
    /// Bytes from row to row and from slice to slice of the host's data; 0 where there are no gaps.
    pub pitch: [usize; 2],
}

impl Shape {
    /// The shape in a description. A program need not set sizes that its kind of image does not
    /// have.
    pub fn of(d: &ImageDesc) -> Self {
        let kind = d.kind;
        let array = [CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D_ARRAY].contains(&kind);
        let high = dims(kind) > 1 && kind != CL_MEM_OBJECT_IMAGE1D_ARRAY;
        let if_it = |has: bool, n| if has { n } else { 0 };
        Self {
            kind,
            size: [
                d.width,
                if_it(high, d.height),
                if_it(kind == CL_MEM_OBJECT_IMAGE3D, d.depth),
                if_it(array, d.array_size),
            ],
            pitch: [d.row_pitch, d.slice_pitch],
        }
    }

    /// The whole size, as a region.
    fn whole(&self) -> [u64; 3] {
        let [width, height, depth, array] = self.size;
        let v = match self.kind {
            CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => [width, 1, 1],
            CL_MEM_OBJECT_IMAGE2D => [width, height, 1],
            CL_MEM_OBJECT_IMAGE3D => [width, height, depth],
            CL_MEM_OBJECT_IMAGE1D_ARRAY => [width, array, 1],
            _ => [width, height, array],
        };
        v.map(|x| x as u64)
    }

    /// Whether it has slices, which may have gaps between them.
    pub fn layered(&self) -> bool {
        dims(self.kind) == 3 || self.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY
    }

    /// Rows and slices of a region. The rows of a 1D array are its slices.
    fn rows(&self, region: &[u64; 3]) -> (usize, usize) {
        match self.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY {
            true => (1, region[1] as usize),
            false => (region[1] as usize, region[2] as usize),
        }
    }

    /// Rows and slices of the host's data for the whole image, of pixels of `element` bytes.
    pub fn host_layout(&self, element: usize) -> Layout {
        let row = self.size[0] * element;
        let (rows, slices) = self.rows(&self.whole());
        let or = |given, tight| if given == 0 { tight } else { given };
        let row_pitch = or(self.pitch[0], row);
        Layout {
            row,
            rows,
            slices,
            row_pitch,
            slice_pitch: or(self.pitch[1], row_pitch * rows),
        }
    }
}

/// What a program asks for with a new image, checked as far as that goes without the device.
pub struct Wanted {
    /// Order and type of its channels.
    pub format: ImageFormat,
    /// Its kind and sizes.
    pub shape: Shape,
    /// Bytes of a pixel.
    pub element: usize,
    /// Of the data that the program gives.
    pub layout: Layout,
}

impl Wanted {
    /// Checks a description. `host`: the program gives data for it.
    pub fn check(format: ImageFormat, desc: &ImageDesc, host: bool) -> Result<Self> {
        let mut shape = Shape::of(desc);
        if !host && desc.parent.is_null() {
            // Of data that there is not, which drivers take, though the standard refuses it.
            shape.pitch = [0, 0];
        }
        let element = element_size(&format).ok_or(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)?;
        if !(CL_MEM_OBJECT_IMAGE2D..=CL_MEM_OBJECT_IMAGE1D_BUFFER).contains(&shape.kind)
            || desc.levels != 0
            || desc.samples != 0
        {
            return Err(CL_INVALID_IMAGE_DESCRIPTOR);
        }
        if shape.size.iter().any(|s| *s > 1 << 32) {
            return Err(CL_INVALID_IMAGE_SIZE);
        }
        let layout = shape.host_layout(element);
        if layout.row_pitch < layout.row
            || layout.slices > 1 && layout.slice_pitch < layout.row_pitch * layout.rows
        {
            return Err(CL_INVALID_IMAGE_DESCRIPTOR);
        }
        Ok(Self {
            format,
            shape,
            element,
            layout,
        })
    }

    /// Sizes as they travel. The pitches are those of a parent's data; data that the program gives
    /// travels without gaps.
    pub fn sent(&self, parent: bool) -> [u64; 8] {
        let [width, height, depth, array] = self.shape.size;
        let [row, slice] = if parent { self.shape.pitch } else { [0, 0] };
        [width, height, depth, array, row, slice, 0, 0].map(|v| v as u64)
    }
}

/// What an image is.
pub struct Image {
    /// Order and type of its channels.
    pub format: ImageFormat,
    /// Its kind and sizes.
    pub shape: Shape,
    /// Bytes of a pixel.
    pub element: usize,
    /// What the device says of it.
    pub table: Table,
}

impl Image {
    /// Fails when a region does not lie in the image.
    pub fn check_area(&self, origin: &[u64; 3], region: &[u64; 3]) -> Result<()> {
        let whole = self.shape.whole();
        let outside = |x: usize| match origin[x].checked_add(region[x]) {
            Some(end) => end > whole[x] || region[x] == 0,
            None => true,
        };
        let stray = |x: usize| origin[x] != 0 || region[x] != 1;
        let mut beyond = dims(self.shape.kind)..3;
        refuse_if((0..3).any(outside) || beyond.any(stray), CL_INVALID_VALUE)
    }

    /// The host's box for a region, with given pitches (0 for none).
    pub fn area(&self, region: &[u64; 3], row_pitch: usize, slice_pitch: usize) -> Result<Layout> {
        let row = region[0] as usize * self.element;
        let (rows, slices) = self.shape.rows(region);
        let row_pitch = if row_pitch == 0 { row } else { row_pitch };
        let given = slice_pitch != 0;
        let slice_pitch = if given { slice_pitch } else { row_pitch * rows };
        let flat = !self.shape.layered();
        if row_pitch < row || slice_pitch < row_pitch * rows || given && flat {
            return Err(CL_INVALID_VALUE);
        }
        Ok(Layout {
            row,
            rows,
            slices,
            row_pitch,
            slice_pitch,
        })
    }

    /// The box of the whole image where the program maps it; `host`: in memory of the program's.
    pub fn mapped(&self, host: bool) -> Layout {
        let pitch = if host { self.shape.pitch } else { [0, 0] };
        let shape = Shape {
            pitch,
            ..self.shape
        };
        shape.host_layout(self.element)
    }

    /// The host's box for a region of the mapped image, and where in it the region begins.
    pub fn mapped_area(&self, host: bool, area: &([u64; 3], [u64; 3])) -> Result<(Layout, usize)> {
        let (origin, region) = area;
        let all = self.mapped(host);
        let layout = self.area(region, all.row_pitch, 0)?;
        let (y, z) = match self.shape.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY {
            true => (0, origin[1]),
            false => (origin[1], origin[2]),
        };
        let row = y as usize * all.row_pitch + z as usize * all.slice_pitch;
        let layout = Layout {
            slice_pitch: all.slice_pitch,
            ..layout
        };
        Ok((layout, origin[0] as usize * self.element + row))
    }

    /// The answer to a query; `host`: its data is in memory of the program's.
    pub fn info(&self, param: u32, host: bool) -> Result<Vec<u8>> {
        let l = self.shape.host_layout(self.element);
        Ok(match param {
            CL_IMAGE_FORMAT => [self.format.order, self.format.data_type].plain(),
            CL_IMAGE_ELEMENT_SIZE => self.element.plain(),
            CL_IMAGE_ROW_PITCH if host => l.row_pitch.plain(),
            CL_IMAGE_SLICE_PITCH if host && l.slices == 1 && dims(self.shape.kind) < 3 => {
                0usize.plain()
            }
            CL_IMAGE_SLICE_PITCH if host => l.slice_pitch.plain(),
            _ => self.table.get(param).ok_or(CL_INVALID_VALUE)?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RGBA: ImageFormat = ImageFormat {
        order: CL_RGBA,
        data_type: CL_UNORM_INT8,
    };

    fn desc(kind: u32, size: [usize; 4], pitch: [usize; 2]) -> ImageDesc {
        ImageDesc {
            kind,
            width: size[0],
            height: size[1],
            depth: size[2],
            array_size: size[3],
            row_pitch: pitch[0],
            slice_pitch: pitch[1],
            levels: 0,
            samples: 0,
            parent: std::ptr::null_mut(),
        }
    }

    fn image(kind: u32, size: [usize; 4], pitch: [usize; 2]) -> Image {
        Image {
            format: RGBA,
            shape: Shape::of(&desc(kind, size, pitch)),
            element: 4,
            table: Table::default(),
        }
    }

    #[test]
    fn sizes_that_a_kind_does_not_have_are_not_looked_at() {
        let shape = |kind| Shape::of(&desc(kind, [9, 8, 7, 6], [0, 0])).size;
        assert_eq!(shape(CL_MEM_OBJECT_IMAGE1D), [9, 0, 0, 0]);
        assert_eq!(shape(CL_MEM_OBJECT_IMAGE1D_ARRAY), [9, 0, 0, 6]);
        assert_eq!(shape(CL_MEM_OBJECT_IMAGE2D), [9, 8, 0, 0]);
        assert_eq!(shape(CL_MEM_OBJECT_IMAGE2D_ARRAY), [9, 8, 0, 6]);
        assert_eq!(shape(CL_MEM_OBJECT_IMAGE3D), [9, 8, 7, 0]);
    }

    #[test]
    fn a_description_that_contradicts_itself_is_refused() {
        let wanted = |d: &ImageDesc, host| Wanted::check(RGBA, d, host).map(drop);
        let flat = |pitch| desc(CL_MEM_OBJECT_IMAGE2D, [4, 4, 0, 0], pitch);
        assert_eq!(wanted(&flat([0, 0]), false), Ok(()));
        assert_eq!(wanted(&flat([20, 0]), true), Ok(()));
        let short = wanted(&flat([15, 0]), true);
        assert_eq!(short, Err(CL_INVALID_IMAGE_DESCRIPTOR), "less than a row");
        // A pitch of data that there is not says nothing, as drivers have it.
        for pitch in [[20, 0], [15, 7]] {
            let image = Wanted::check(RGBA, &flat(pitch), false).unwrap();
            assert_eq!(image.shape.pitch, [0, 0]);
            assert_eq!(image.layout.row_pitch, 16);
        }
        let wide = desc(CL_MEM_OBJECT_IMAGE2D, [1 << 33, 4, 0, 0], [0, 0]);
        assert_eq!(wanted(&wide, false), Err(CL_INVALID_IMAGE_SIZE));
        let odd = ImageFormat {
            order: 1,
            data_type: CL_FLOAT,
        };
        let e = Wanted::check(odd, &flat([0, 0]), false).err();
        assert_eq!(e, Some(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR));
    }

    #[test]
    fn a_region_lies_in_its_image_and_in_as_many_dimensions() {
        let flat = image(CL_MEM_OBJECT_IMAGE2D, [4, 3, 0, 0], [0, 0]);
        assert_eq!(flat.check_area(&[1, 1, 0], &[3, 2, 1]), Ok(()));
        for (origin, region) in [
            ([2, 1, 0], [3, 2, 1]),
            ([0, 0, 1], [1, 1, 1]),
            ([0, 0, 0], [1, 1, 2]),
            ([0, 0, 0], [0, 1, 1]),
            ([u64::MAX, 0, 0], [2, 1, 1]),
        ] {
            assert_eq!(flat.check_area(&origin, &region), Err(CL_INVALID_VALUE));
        }
        assert!(flat.area(&[4, 3, 1], 0, 48).is_err(), "no slices, no pitch");
        assert!(flat.area(&[4, 3, 1], 15, 0).is_err(), "a row has 16 bytes");
    }

    #[test]
    fn a_mapped_region_begins_where_the_whole_image_has_it() {
        let array = image(CL_MEM_OBJECT_IMAGE1D_ARRAY, [4, 0, 0, 3], [20, 24]);
        let area = ([1, 2, 0], [2, 1, 1]);
        let (l, at) = array.mapped_area(true, &area).unwrap();
        assert_eq!((l.rows, l.slices, l.slice_pitch, at), (1, 1, 24, 4 + 48));
        let (l, at) = array.mapped_area(false, &area).unwrap();
        assert_eq!((l.slice_pitch, at), (16, 4 + 32));
        let block = image(CL_MEM_OBJECT_IMAGE3D, [4, 3, 2, 0], [0, 0]);
        let (l, at) = block.mapped_area(false, &([1, 1, 1], [2, 2, 1])).unwrap();
        assert_eq!((l.row_pitch, l.slice_pitch, at), (16, 48, 4 + 16 + 48));
    }
}
