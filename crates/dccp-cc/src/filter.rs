/// Windowed maximum over an increasing position (round count or time), Kathleen Nichols' three-sample filter.
#[derive(Clone, Debug)]
pub struct WindowedMax<T> {
    samples: [(u64, T); 3],
}

impl<T: Copy + PartialOrd + Default> WindowedMax<T> {
    /// Empty.
    pub fn new() -> Self {
        WindowedMax { samples: [(0, T::default()); 3] }
    }

    /// The maximum.
    pub fn get(&self) -> T {
        self.samples[0].1
    }
}

impl<T: Copy + PartialOrd + Default> Default for WindowedMax<T> {
    fn default() -> Self {
        Self::new()
    }
}
