// Norms, modulation and per-head rotation.
#pragma once
#include "layout.cuh"

// 1 / sqrt(mean x² + eps) of one row, by all threads of a block.
__device__ __forceinline__ float inverse_rms(const Rows &x, long long from, float eps, float *scratch) {
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < x.width; i += blockDim.x) {
        float value = load(x, from + i);
        sum = fmaf(value, value, sum);
    }
    return 1.0f / sqrtf(block_sum(sum, scratch) / x.width + eps);
}

// One block a row.
extern "C" __global__ void rms_norm(Rows x, Rows weight, float eps, unsigned before_weight, Rows y) {
    __shared__ float scratch[32];
    long long from = x.offset(blockIdx.x), to = y.offset(blockIdx.x);
    float scale = inverse_rms(x, from, eps, scratch);
    for (unsigned i = threadIdx.x; i < x.width; i += blockDim.x) {
        float value = load(x, from + i) * scale;
        if (before_weight) value = rounded(y.dtype, value);
        store(y, to + i, value * load(weight, i));
    }
}

extern "C" __global__ void layer_norm(Rows x, Rows weight, Rows bias, float eps, Rows y) {
    __shared__ float scratch[32];
    long long from = x.offset(blockIdx.x), to = y.offset(blockIdx.x);
    float sum = 0.0f;
    for (unsigned i = threadIdx.x; i < x.width; i += blockDim.x) sum += load(x, from + i);
    float mean = block_sum(sum, scratch) / x.width;
    sum = 0.0f;
    for (unsigned i = threadIdx.x; i < x.width; i += blockDim.x) {
        float away = load(x, from + i) - mean;
        sum = fmaf(away, away, sum);
    }
    float scale = 1.0f / sqrtf(block_sum(sum, scratch) / x.width + eps);
    for (unsigned i = threadIdx.x; i < x.width; i += blockDim.x)
        store(y, to + i, (load(x, from + i) - mean) * scale * load(weight, i) + load(bias, i));
}

extern "C" __global__ void rms_norm_modulate(Rows x, Rows weight, float eps, Rows shift, Rows scale,
                                             const unsigned *pick, Rows y) {
    __shared__ float scratch[32];
    long long from = x.offset(blockIdx.x), to = y.offset(blockIdx.x);
    long long shift_at = shift.offset(pick[blockIdx.x]), scale_at = scale.offset(pick[blockIdx.x]);
    float inverse = inverse_rms(x, from, eps, scratch);
    for (unsigned i = threadIdx.x; i < x.width; i += blockDim.x) {
        float normed = rounded(y.dtype, load(x, from + i) * inverse * load(weight, i));
        float factor = rounded(y.dtype, load(scale, scale_at + i) + 1.0f);
        store(y, to + i, rounded(y.dtype, normed * factor) + load(shift, shift_at + i));
    }
}

// Turns channel pairs of one head that lies in `head`; a warp's work. Every product and their sum is rounded to
// `rounding`, F32 meaning not at all.
__device__ __forceinline__ float turned(const float *head, unsigned channel, unsigned half, float cosine, float sine,
                                        unsigned rounding) {
    float partner = channel < half ? -head[channel + half] : head[channel - half];
    return rounded(rounding, head[channel] * cosine) + rounded(rounding, partner * sine);
}

// One warp a head, the head in shared memory; blocks of `blockDim.y` warps. `steps` bit 0: norm, bit 1: rotate.
extern "C" __global__ void norm_rotate_heads(Rows weight, unsigned has_weight, float eps, unsigned before_weight,
                                             Rows cosines, Rows sines, unsigned rotates, unsigned norms, Rows x,
                                             unsigned rows, unsigned heads) {
    extern __shared__ float shared[];
    unsigned head_dim = x.width, dtype = x.dtype;
    float *head = shared + threadIdx.y * head_dim;
    // Without a norm, cosines and sines are used as they are and only the result is rounded.
    unsigned rounding = norms ? dtype : (unsigned)F32;
    for (unsigned index = blockIdx.x * blockDim.y + threadIdx.y; index < rows * heads;
         index += gridDim.x * blockDim.y) {
        long long at = x.offset(index);
        float sum = 0.0f;
        for (unsigned i = threadIdx.x; i < head_dim; i += 32) {
            float value = load(x, at + i);
            head[i] = value;
            sum = fmaf(value, value, sum);
        }
        if (norms) {
            for (int reach = 16; reach; reach >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, reach);
            float scale = 1.0f / sqrtf(sum / head_dim + eps);
            for (unsigned i = threadIdx.x; i < head_dim; i += 32) {
                float value = head[i] * scale;
                if (before_weight) value = rounded(dtype, value);
                head[i] = rounded(dtype, has_weight ? value * load(weight, i) : value);
            }
        }
        __syncwarp();
        unsigned width = rotates ? cosines.width : 0, half = width / 2, row = index / heads;
        long long cosine_at = rotates ? cosines.offset(row) : 0, sine_at = rotates ? sines.offset(row) : 0;
        for (unsigned i = threadIdx.x; i < head_dim; i += 32) {
            float value = head[i];
            if (i < width) {
                float cosine = rounded(rounding, load(cosines, cosine_at + i));
                float sine = rounded(rounding, load(sines, sine_at + i));
                value = turned(head, i, half, cosine, sine, rounding);
            }
            store(x, at + i, value);
        }
        __syncwarp();
    }
}

// Group norm: a block normalises one group of one frame. Sums in F64, since a group may have half a million values.
extern "C" __global__ void group_norm(Rows x, Rows weight, Rows bias, Rows y, unsigned frames,
                                      unsigned channels_per_group, float eps, unsigned activation) {
    __shared__ double scratch[32];
    unsigned frame = blockIdx.x, first = blockIdx.y * channels_per_group, pixels = x.width;
    double sum = 0.0;
    for (unsigned channel = first; channel < first + channels_per_group; channel++) {
        long long from = x.offset(channel * frames + frame);
        for (unsigned i = threadIdx.x; i < pixels; i += blockDim.x) sum += load(x, from + i);
    }
    double count = (double)channels_per_group * pixels;
    double exact_mean = block_sum(sum, scratch) / count;
    sum = 0.0;
    for (unsigned channel = first; channel < first + channels_per_group; channel++) {
        long long from = x.offset(channel * frames + frame);
        for (unsigned i = threadIdx.x; i < pixels; i += blockDim.x) {
            double away = load(x, from + i) - exact_mean;
            sum += away * away;
        }
    }
    float inverse = (float)(1.0 / sqrt(block_sum(sum, scratch) / count + eps));
    float mean = (float)exact_mean;
    for (unsigned channel = first; channel < first + channels_per_group; channel++) {
        long long from = x.offset(channel * frames + frame), to = y.offset(channel * frames + frame);
        float factor = inverse * load(weight, channel), shift = load(bias, channel);
        for (unsigned i = threadIdx.x; i < pixels; i += blockDim.x)
            store(y, to + i, activated(activation, (load(x, from + i) - mean) * factor + shift));
    }
}
