//! What has happened in a run, or in all of them.

macro_rules! sums {
    ($($field:ident)*) => {
        /// How often each thing has happened.
        #[derive(Debug, Default)]
        pub struct Sums {
            $(pub $field: u64,)*
        }

        impl Sums {
            pub fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// Everything that can happen has happened.
            pub fn check(&self) {
                $(assert!(self.$field > 0, "there were no {}", stringify!($field));)*
            }
        }
    };
}

sums! {
    frames resumed resent repeated stale_frames stale_hellos torn split in_many silent pings
    full_windows full_queues
}
