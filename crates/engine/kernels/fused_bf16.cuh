// The fused operations of a transformer block in BF16 where rows are whole groups of eight: 16 bytes at a time. They round
// where the general kernels round, and are chosen by the host where every row of every operand begins at 16 bytes.
#pragma once
#include "layout.cuh"

// Eight elements.
struct Eight {
    float v[8];

    __device__ __forceinline__ static Eight load(const __nv_bfloat16 *from) {
        return of(*reinterpret_cast<const uint4 *>(from));
    }

    __device__ __forceinline__ static Eight of(const uint4 &packed) {
        const __nv_bfloat162 *pairs = reinterpret_cast<const __nv_bfloat162 *>(&packed);
        Eight eight;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 pair = __bfloat1622float2(pairs[i]);
            eight.v[2 * i] = pair.x;
            eight.v[2 * i + 1] = pair.y;
        }
        return eight;
    }

    __device__ __forceinline__ void store(__nv_bfloat16 *to) const {
        uint4 packed;
        __nv_bfloat162 *pairs = reinterpret_cast<__nv_bfloat162 *>(&packed);
#pragma unroll
        for (int i = 0; i < 4; i++) pairs[i] = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
        *reinterpret_cast<uint4 *>(to) = packed;
    }
};

__device__ __forceinline__ float half_rounded(float value) { return __bfloat162float(__float2bfloat16_rn(value)); }

__device__ __forceinline__ const __nv_bfloat16 *row_of(const Rows &rows, unsigned row) {
    return reinterpret_cast<const __nv_bfloat16 *>(rows.base) + rows.offset(row);
}
__device__ __forceinline__ __nv_bfloat16 *row_of_output(const Rows &rows, unsigned row) {
    return reinterpret_cast<__nv_bfloat16 *>(rows.base) + rows.offset(row);
}

// Groups of eight that a thread of a norm keeps: rows of up to 256 threads x 4 groups x 8 elements.
#define KEPT_GROUPS 4

extern "C" __global__ void __launch_bounds__(256)
rms_norm_modulate_bf16(Rows x, Rows weight, float eps, Rows shift, Rows scale, const unsigned *pick, Rows y) {
    __shared__ float scratch[32];
    const __nv_bfloat16 *from = row_of(x, blockIdx.x);
    unsigned groups = x.width / 8, entry = pick[blockIdx.x];
    // As they lie in memory, in half the registers.
    uint4 kept[KEPT_GROUPS];
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < KEPT_GROUPS; j++) {
        unsigned group = threadIdx.x + j * blockDim.x;
        if (group < groups) {
            kept[j] = reinterpret_cast<const uint4 *>(from)[group];
            Eight own = Eight::of(kept[j]);
#pragma unroll
            for (int i = 0; i < 8; i++) sum = fmaf(own.v[i], own.v[i], sum);
        }
    }
    float inverse = 1.0f / sqrtf(block_sum(sum, scratch) / x.width + eps);
    const __nv_bfloat16 *shifts = row_of(shift, entry), *scales = row_of(scale, entry);
    __nv_bfloat16 *to = row_of_output(y, blockIdx.x);
#pragma unroll
    for (int j = 0; j < KEPT_GROUPS; j++) {
        unsigned group = threadIdx.x + j * blockDim.x;
        if (group < groups) {
            Eight own = Eight::of(kept[j]);
            Eight w, s = Eight::load(scales + group * 8), h = Eight::load(shifts + group * 8), out;
            if (weight.dtype == BF16) {
                w = Eight::load(row_of(weight, 0) + group * 8);
            } else {
#pragma unroll
                for (int i = 0; i < 8; i++) w.v[i] = ::load(weight, group * 8 + i);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                float normed = half_rounded(own.v[i] * inverse * w.v[i]);
                out.v[i] = half_rounded(normed * half_rounded(s.v[i] + 1.0f)) + h.v[i];
            }
            out.store(to + group * 8);
        }
    }
}

// One block a row.
extern "C" __global__ void __launch_bounds__(256)
gated_add_bf16(Rows x, Rows gate, const unsigned *pick, Rows y) {
    const __nv_bfloat16 *from = row_of(x, blockIdx.x), *gates = row_of(gate, pick ? pick[blockIdx.x] : 0);
    __nv_bfloat16 *to = row_of_output(y, blockIdx.x);
    for (unsigned group = threadIdx.x; group < x.width / 8; group += blockDim.x) {
        Eight a = Eight::load(from + group * 8), g = Eight::load(gates + group * 8), out = Eight::load(to + group * 8);
#pragma unroll
        for (int i = 0; i < 8; i++) out.v[i] += half_rounded(g.v[i] * a.v[i]);
        out.store(to + group * 8);
    }
}

extern "C" __global__ void __launch_bounds__(256) swiglu_bf16(Rows x, Rows y, unsigned gate_at, unsigned up_at) {
    const __nv_bfloat16 *from = row_of(x, blockIdx.x);
    __nv_bfloat16 *to = row_of_output(y, blockIdx.x);
    for (unsigned group = threadIdx.x; group < y.width / 8; group += blockDim.x) {
        Eight gate = Eight::load(from + gate_at + group * 8), up = Eight::load(from + up_at + group * 8), out;
#pragma unroll
        for (int i = 0; i < 8; i++) out.v[i] = half_rounded(silu(gate.v[i])) * up.v[i];
        out.store(to + group * 8);
    }
}

// Norm and rotation of heads of 128 channels whose first `cosines.width`, a multiple of 8, turn. A head is 32 threads'
// work, four channels each; the partner of a channel comes from the thread that holds it.
extern "C" __global__ void __launch_bounds__(256)
norm_rotate_heads_bf16(Rows weight, unsigned has_weight, float eps, unsigned before_weight, Rows cosines, Rows sines,
                       Rows x, unsigned rows, unsigned heads) {
    unsigned lane = threadIdx.x, width = cosines.width, half = width / 2;
    float w[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    if (has_weight)
        for (int i = 0; i < 4; i++) w[i] = load(weight, lane * 4 + i);
    for (unsigned row = blockIdx.x; row < rows; row += gridDim.x) {
        // Tables are rounded before use, and are the same for every head of a row.
        float c[4], s[4];
        long long cosine_at = cosines.offset(row), sine_at = sines.offset(row);
        bool turns = lane * 4 < width;
        for (int i = 0; i < 4; i++) {
            c[i] = turns ? half_rounded(load(cosines, cosine_at + lane * 4 + i)) : 0.0f;
            s[i] = turns ? half_rounded(load(sines, sine_at + lane * 4 + i)) : 0.0f;
        }
        for (unsigned head = threadIdx.y; head < heads; head += blockDim.y) {
            __nv_bfloat16 *at = row_of_output(x, row * heads + head) + lane * 4;
            uint2 packed = *reinterpret_cast<uint2 *>(at);
            __nv_bfloat162 *pairs = reinterpret_cast<__nv_bfloat162 *>(&packed);
            float2 low = __bfloat1622float2(pairs[0]), high = __bfloat1622float2(pairs[1]);
            float v[4] = {low.x, low.y, high.x, high.y}, sum = 0.0f;
#pragma unroll
            for (int i = 0; i < 4; i++) sum = fmaf(v[i], v[i], sum);
            for (int reach = 16; reach; reach >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, reach);
            float scale = 1.0f / sqrtf(sum / 128.0f + eps);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float value = v[i] * scale;
                if (before_weight) value = half_rounded(value);
                v[i] = half_rounded(value * w[i]);
            }
            unsigned away = half / 4;
            bool first = lane * 4 < half;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float above = __shfl_sync(0xffffffffu, v[i], (lane + away) & 31);
                float below = __shfl_sync(0xffffffffu, v[i], (lane - away) & 31);
                if (turns) v[i] = half_rounded(v[i] * c[i]) + half_rounded((first ? -above : below) * s[i]);
            }
            pairs[0] = __floats2bfloat162_rn(v[0], v[1]);
            pairs[1] = __floats2bfloat162_rn(v[2], v[3]);
            *reinterpret_cast<uint2 *>(at) = packed;
        }
    }
}
