// Activations of the audio VAE.
#pragma once
#include "layout.cuh"

extern "C" __global__ void snake(Rows alpha, Rows x, Rows y, unsigned rows, unsigned channels) {
    EACH_ELEMENT(row, column, rows, y.width) {
        float frequency = load(alpha, row % channels), magnitude = 1.0f / (frequency + 1e-9f);
        float value = load(x, x.offset(row) + column), sine = sinf(frequency * value);
        store(y, y.offset(row) + column, value + magnitude * (sine * sine));
    }
}

// How many outputs a block of the alias-free activation makes.
#define SNAKE_OUTPUTS 256

// One channel's outputs [blockIdx.x * SNAKE_OUTPUTS, …): doubles the signal in shared memory, bends it, halves it.
extern "C" __global__ void alias_free_snake(Rows upsample, Rows downsample, Rows alpha, Rows beta, Rows x, Rows y,
                                            unsigned rows, unsigned channels) {
    extern __shared__ float doubled[];
    int taps = upsample.width, samples = x.width, reach = taps / 4, ahead = taps / 2 - 1;
    int first = blockIdx.x * SNAKE_OUTPUTS, outputs = min(SNAKE_OUTPUTS, samples - first);
    int needed = 2 * outputs + taps - 2;
    for (unsigned row = blockIdx.y; row < rows; row += gridDim.y) {
        unsigned channel = row % channels;
        float frequency = expf(load(alpha, channel)), magnitude = 1.0f / (expf(load(beta, channel)) + 1e-9f);
        long long from = x.offset(row), to = y.offset(row);
        for (int i = threadIdx.x; i < needed; i += blockDim.x) {
            // Both ends are held: what the filter sees beyond them is the last bent value.
            int at = min(max(2 * first - ahead + i, 0), 2 * samples - 1);
            int odd = at & 1, centre = at >> 1;
            float sum = 0.0f;
            for (int t = 0; t < 2 * reach; t++) {
                // Even samples take the odd taps, in falling order, and begin one sample earlier.
                int tap = (odd ? 0 : 1) + 2 * (2 * reach - 1 - t);
                int source = min(max(centre + odd - reach + t, 0), samples - 1);
                sum += load(upsample, tap) * load(x, from + source);
            }
            float value = 2.0f * sum, sine = sinf(frequency * value);
            doubled[i] = value + magnitude * (sine * sine);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < outputs; i += blockDim.x) {
            float sum = 0.0f;
            for (int t = 0; t < taps; t++) sum += load(downsample, t) * doubled[2 * i + t];
            store(y, to + first + i, sum);
        }
        __syncthreads();
    }
}
