//! Interleaved multimodal rotary tables of the language model.

/// Positions of each token on the time, height and width axis. Text advances all three together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RotaryPositions {
    axes: [Vec<u32>; 3],
}

impl RotaryPositions {
    /// Returns how many tokens there are.
    pub fn len(&self) -> usize {
        self.axes[0].len()
    }

    /// Returns whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.axes[0].is_empty()
    }

    /// Returns the positions on the time, height and width axis.
    pub fn axes(&self) -> [&[u32]; 3] {
        self.axes.each_ref().map(Vec::as_slice)
    }

    /// Appends one token at `[time, height, width]`.
    pub fn push(&mut self, position: [u32; 3]) {
        for (axis, position) in self.axes.iter_mut().zip(position) {
            axis.push(position);
        }
    }
}

/// Cosines and sines, row-major `[tokens, head_dim]`, both halves of a row equal.
#[derive(Debug, Clone, PartialEq)]
pub struct RotaryTables {
    /// Cosines of the angles.
    pub cos: Vec<f32>,
    /// Sines of the angles.
    pub sin: Vec<f32>,
}

/// Which axis frequency `index` turns with: height takes every third frequency from 1 on and width from 2 on, as many
/// as their section has; time takes the rest.
fn axis_of(index: usize, section: [usize; 3]) -> usize {
    let [_, height, width] = section;
    match index % 3 {
        1 if index < 3 * height => 1,
        2 if index < 3 * width => 2,
        _ => 0,
    }
}

/// Computes the rotary tables of `positions`: F32 throughout, as transformers 5.24 `Qwen3VLTextRotaryEmbedding`.
///
/// `section` counts the frequencies of the time, height and width axis; together they are half of the head's channels.
pub fn rotary_tables(positions: &RotaryPositions, section: [usize; 3], theta: f64) -> RotaryTables {
    let frequencies = section.iter().sum::<usize>();
    let head_dim = 2 * frequencies;
    // (axis, inverse frequency)
    let turns: Vec<(usize, f32)> = (0..frequencies)
        .map(|index| {
            let exponent = (2 * index) as f32 / head_dim as f32;
            (axis_of(index, section), 1.0 / (theta as f32).powf(exponent))
        })
        .collect();
    let [time, height, width] = positions.axes();
    let mut tables = RotaryTables {
        cos: Vec::with_capacity(positions.len() * head_dim),
        sin: Vec::with_capacity(positions.len() * head_dim),
    };
    for ((&time, &height), &width) in time.iter().zip(height).zip(width) {
        let position = [time, height, width];
        let angles = turns.iter().map(|&(axis, inverse)| position[axis] as f32 * inverse);
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles.map(|angle| (angle.cos(), angle.sin())).unzip();
        for _ in 0..2 {
            tables.cos.extend_from_slice(&cos);
            tables.sin.extend_from_slice(&sin);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn positions(of: &[[u32; 3]]) -> RotaryPositions {
        let mut positions = RotaryPositions::default();
        of.iter().for_each(|&position| positions.push(position));
        positions
    }

    #[test]
    fn the_released_section_gives_height_and_width_twenty_frequencies_below_sixty() {
        let axes: Vec<usize> = (0..64).map(|index| axis_of(index, [24, 20, 20])).collect();
        assert_eq!(axes[..6], [0, 1, 2, 0, 1, 2]);
        assert_eq!(axes[57..], [0, 1, 2, 0, 0, 0, 0]);
        let count = |axis| axes.iter().filter(|&&a| a == axis).count();
        assert_eq!([count(0), count(1), count(2)], [24, 20, 20]);
    }

    #[test]
    fn each_axis_moves_only_its_own_frequencies() {
        let section = [4, 2, 2];
        let still = rotary_tables(&positions(&[[0, 0, 0]]), section, 5e6);
        assert!(still.cos.iter().all(|&cos| cos == 1.0) && still.sin.iter().all(|&sin| sin == 0.0));
        for axis in 0..3 {
            let mut position = [0; 3];
            position[axis] = 3;
            let moved = rotary_tables(&positions(&[position]), section, 5e6);
            for (channel, sin) in moved.sin.iter().enumerate() {
                assert_eq!(*sin != 0.0, axis_of(channel % 8, section) == axis, "channel {channel}, axis {axis}");
            }
        }
    }

    #[test]
    fn the_first_frequency_turns_one_radian_a_position() {
        let tables = rotary_tables(&positions(&[[0; 3], [1; 3]]), [4, 2, 2], 5e6);
        assert_eq!(tables.cos.len(), 2 * 16);
        assert_eq!((tables.cos[16], tables.sin[16]), (1.0f32.cos(), 1.0f32.sin()));
    }

    proptest! {
        #[test]
        fn halves_repeat_and_cos_and_sin_stay_on_the_circle(points in prop::collection::vec(prop::array::uniform3(0u32..262_144), 1..5)) {
            let tables = rotary_tables(&positions(&points), [4, 2, 2], 5e6);
            for (cos, sin) in tables.cos.chunks_exact(16).zip(tables.sin.chunks_exact(16)) {
                prop_assert_eq!(&cos[..8], &cos[8..]);
                prop_assert_eq!(&sin[..8], &sin[8..]);
                for (cos, sin) in cos.iter().zip(sin) {
                    prop_assert!((cos * cos + sin * sin - 1.0).abs() < 1e-6);
                }
            }
        }

        #[test]
        fn equal_axes_give_the_plain_rotary_embedding(place in 0u32..10_000) {
            let tables = rotary_tables(&positions(&[[place; 3]]), [4, 2, 2], 5e6);
            for (index, cos) in tables.cos[..8].iter().enumerate() {
                let angle = place as f32 * (1.0 / 5e6f32.powf(2.0 * index as f32 / 16.0));
                prop_assert_eq!(*cos, angle.cos());
            }
        }
    }
}
