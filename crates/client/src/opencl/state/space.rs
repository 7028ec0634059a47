//! The index space of a launch.
#![forbid(unsafe_code)]

use super::kernel::KernelInfo;
use super::prelude::*;
use super::values::Table;

/// Index space of a launch.
pub struct Space {
    /// How many of the sizes count.
    pub dims: u32,
    /// Where indices begin.
    pub offset: [u64; 3],
    /// Work items.
    pub global: [u64; 3],
    /// Work items of a group; the device chooses where there are none.
    pub local: Option<[u64; 3]>,
}

impl Space {
    /// Whether the kernel can be launched so on the device with this id, description and version.
    pub fn check(
        &self,
        k: &KernelInfo,
        id: u32,
        device: &Table,
        version: (u32, u32),
    ) -> Result<()> {
        refuse_if(!k.is_for(id), CL_INVALID_PROGRAM_EXECUTABLE)?;
        let n = self.dims as usize;
        let bits = device.number(CL_DEVICE_ADDRESS_BITS);
        let top = if bits < 64 { 1u64 << bits } else { u64::MAX };
        let beyond = |i: usize| match self.offset[i].checked_add(self.global[i]) {
            Some(end) => end > top,
            None => true,
        };
        refuse_if((0..n).any(beyond), CL_INVALID_GLOBAL_OFFSET)?;
        let required = k.sizes(id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE);
        let fixed = required.iter().any(|r| *r != 0);
        let Some(local) = self.local else {
            return match fixed {
                // Without a local size the kernel's own one would have to fit, which the device
                // checks.
                true if version < (2, 0) => Err(CL_INVALID_WORK_GROUP_SIZE),
                _ => Ok(()),
            };
        };
        if fixed && (0..3).any(|i| local[i] != required.get(i).copied().unwrap_or(1))
            || local[..n].contains(&0)
        {
            return Err(CL_INVALID_WORK_GROUP_SIZE);
        }
        let most = device.sizes(CL_DEVICE_MAX_WORK_ITEM_SIZES);
        if (0..n).any(|i| local[i] > most.get(i).copied().unwrap_or(u64::MAX)) {
            return Err(CL_INVALID_WORK_ITEM_SIZE);
        }
        let all = local[..n].iter().try_fold(1u64, |a, b| a.checked_mul(*b));
        let limit = k.sizes(id, CL_KERNEL_WORK_GROUP_SIZE);
        let limit = limit.first().copied().unwrap_or(u64::MAX);
        let uneven = (0..n).any(|i| !self.global[i].is_multiple_of(local[i]));
        let even_only = version < (2, 0)
            || version >= (3, 0) && device.number(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT) == 0;
        match all.is_none_or(|a| a > limit) || uneven && even_only {
            true => Err(CL_INVALID_WORK_GROUP_SIZE),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::state::values::Plain;

    fn check(local: Option<[u64; 3]>, required: [u64; 3], version: (u32, u32)) -> Result<()> {
        let (mut k, mut d) = (Table::default(), Table::default());
        k.set(CL_KERNEL_COMPILE_WORK_GROUP_SIZE, required.plain());
        k.set(CL_KERNEL_WORK_GROUP_SIZE, 16u64.plain());
        d.set(CL_DEVICE_ADDRESS_BITS, 32u32.plain());
        d.set(CL_DEVICE_MAX_WORK_ITEM_SIZES, [32u64, 8, 8].plain());
        let space = Space {
            dims: 2,
            offset: [0; 3],
            global: [12, 4, 1],
            local,
        };
        space.check(&KernelInfo::on_device(7, k), 7, &d, version)
    }

    #[test]
    fn a_group_fits_the_device_the_kernel_and_the_space() {
        let any = [0; 3];
        let wrong = Err(CL_INVALID_WORK_GROUP_SIZE);
        assert_eq!(check(None, any, (1, 2)), Ok(()));
        assert_eq!(check(Some([4, 4, 1]), any, (1, 2)), Ok(()));
        assert_eq!(check(Some([12, 4, 1]), any, (1, 2)), wrong, "48 items");
        assert_eq!(check(Some([0, 4, 1]), any, (1, 2)), wrong);
        let high = check(Some([1, 16, 1]), any, (1, 2));
        assert_eq!(high, Err(CL_INVALID_WORK_ITEM_SIZE));
        // Uneven groups came with 2.0, and are optional since 3.0.
        assert_eq!(check(Some([5, 2, 1]), any, (1, 2)), wrong);
        assert_eq!(check(Some([5, 2, 1]), any, (2, 0)), Ok(()));
        assert_eq!(check(Some([5, 2, 1]), any, (3, 0)), wrong);
    }

    #[test]
    fn a_kernel_that_says_its_group_has_no_other() {
        let own = [4, 2, 1];
        let wrong = Err(CL_INVALID_WORK_GROUP_SIZE);
        assert_eq!(check(Some([4, 2, 1]), own, (1, 2)), Ok(()));
        assert_eq!(check(Some([2, 2, 1]), own, (3, 0)), wrong);
        assert_eq!(check(None, own, (1, 2)), wrong);
        assert_eq!(check(None, own, (2, 0)), Ok(()));
    }
}
