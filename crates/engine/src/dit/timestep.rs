//! The sinusoid that a timestep becomes before its MLP.

/// `[timesteps, width]`: cosines, then sines, of `t · 10000^(−i / (width/2))` for unscaled `t` in `[0, 1]`.
///
/// F32 throughout, as diffusers' `Timesteps(flip_sin_to_cos=True, downscale_freq_shift=0)`.
pub(super) fn sinusoid(timesteps: &[f32], width: usize) -> Vec<f32> {
    let half = width / 2;
    let frequencies: Vec<f32> = (0..half).map(|i| (-(10_000f32.ln()) * i as f32 / half as f32).exp()).collect();
    timesteps
        .iter()
        .flat_map(|t| {
            let angles: Vec<f32> = frequencies.iter().map(|frequency| t * frequency).collect();
            let cosines: Vec<f32> = angles.iter().map(|angle| angle.cos()).collect();
            cosines.into_iter().chain(angles.into_iter().map(f32::sin))
        })
        .collect()
}
