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

/// A group as a program asks for it: the device, its sizes (zeros where the device is to choose),
/// and whether some groups have less.
pub type Group = (u32, [u64; 3], bool);

impl Space {
    /// Checks a launch on the device with this id, description and version. A group that the
    /// standard refuses is returned, for the driver to judge, which may take more than it says:
    /// NVIDIA's says 256 of a kernel and takes 1024 (ADR 0013).
    pub fn check(
        &self,
        k: &KernelInfo,
        id: u32,
        device: &Table,
        version: (u32, u32),
    ) -> Result<Option<Group>> {
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
            return Ok(fixed.then_some((id, [0; 3], false)));
        };
        // Drivers divide by them.
        refuse_if(local[..n].contains(&0), CL_INVALID_WORK_GROUP_SIZE)?;
        let other = fixed && (0..3).any(|i| local[i] != required.get(i).copied().unwrap_or(1));
        let most = device.sizes(CL_DEVICE_MAX_WORK_ITEM_SIZES);
        let wide = (0..n).any(|i| local[i] > most.get(i).copied().unwrap_or(u64::MAX));
        let all = local[..n].iter().try_fold(1u64, |a, b| a.checked_mul(*b));
        let limit = k.sizes(id, CL_KERNEL_WORK_GROUP_SIZE);
        let limit = limit.first().copied().unwrap_or(u64::MAX);
        let uneven = (0..n).any(|i| !self.global[i].is_multiple_of(local[i]));
        let even_only = version < (2, 0)
            || version >= (3, 0) && device.number(CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT) == 0;
        let doubt = other || wide || all.is_none_or(|a| a > limit) || uneven && even_only;
        Ok(doubt.then_some((id, local, uneven)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::state::values::Plain;

    fn check(
        local: Option<[u64; 3]>,
        required: [u64; 3],
        version: (u32, u32),
    ) -> Result<Option<Group>> {
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

    /// That the driver is asked.
    fn doubt(local: [u64; 3], uneven: bool) -> Result<Option<Group>> {
        Ok(Some((7, local, uneven)))
    }

    #[test]
    fn of_a_group_that_does_not_fit_the_driver_is_asked() {
        let any = [0; 3];
        assert_eq!(check(None, any, (1, 2)), Ok(None));
        assert_eq!(check(Some([4, 4, 1]), any, (1, 2)), Ok(None));
        let many = [12, 4, 1];
        assert_eq!(check(Some(many), any, (1, 2)), doubt(many, false));
        let wrong = Err(CL_INVALID_WORK_GROUP_SIZE);
        assert_eq!(check(Some([0, 4, 1]), any, (1, 2)), wrong);
        let high = [1, 16, 1];
        assert_eq!(check(Some(high), any, (1, 2)), doubt(high, true));
        // Uneven groups came with 2.0, and are optional since 3.0.
        let odd = [5, 2, 1];
        assert_eq!(check(Some(odd), any, (1, 2)), doubt(odd, true));
        assert_eq!(check(Some(odd), any, (2, 0)), Ok(None));
        assert_eq!(check(Some(odd), any, (3, 0)), doubt(odd, true));
    }

    #[test]
    fn of_a_kernel_that_says_its_group_no_other_goes_unasked() {
        let own = [4, 2, 1];
        assert_eq!(check(Some(own), own, (1, 2)), Ok(None));
        assert_eq!(check(Some([2, 2, 1]), own, (3, 0)), doubt([2, 2, 1], false));
        for version in [(1, 2), (2, 0)] {
            assert_eq!(check(None, own, version), doubt([0; 3], false));
        }
    }
}
