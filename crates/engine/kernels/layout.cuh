// Where operands lie, and how their elements are read and rounded.
//
// Every operand is a list of rows whose elements are neighbours; `Rows` mirrors the struct of the same name on the host.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum : unsigned { F32 = 0, BF16 = 1, F16 = 2, U8 = 3 };

struct Rows {
    unsigned long long base;
    long long stride0, stride1, stride2;
    unsigned size1, size2;
    unsigned dtype;
    unsigned width;

    // Elements from the base to the start of row `row`.
    __device__ __forceinline__ long long offset(unsigned row) const {
        if (size1 == 1 && size2 == 1) return row * stride0;
        unsigned inner = row % size2, rest = row / size2;
        return inner * stride2 + (rest % size1) * stride1 + (rest / size1) * stride0;
    }
};

__device__ __forceinline__ float load(unsigned dtype, unsigned long long base, long long at) {
    switch (dtype) {
        case F32: return reinterpret_cast<const float *>(base)[at];
        case BF16: return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(base)[at]);
        case F16: return __half2float(reinterpret_cast<const __half *>(base)[at]);
        default: return reinterpret_cast<const unsigned char *>(base)[at];
    }
}

__device__ __forceinline__ float load(const Rows &rows, long long at) { return load(rows.dtype, rows.base, at); }

__device__ __forceinline__ void store(const Rows &rows, long long at, float value) {
    switch (rows.dtype) {
        case F32: reinterpret_cast<float *>(rows.base)[at] = value; break;
        case BF16: reinterpret_cast<__nv_bfloat16 *>(rows.base)[at] = __float2bfloat16_rn(value); break;
        default: reinterpret_cast<__half *>(rows.base)[at] = __float2half_rn(value); break;
    }
}

// What `dtype` can hold of a value.
__device__ __forceinline__ float rounded(unsigned dtype, float value) {
    switch (dtype) {
        case BF16: return __bfloat162float(__float2bfloat16_rn(value));
        case F16: return __half2float(__float2half_rn(value));
        default: return value;
    }
}

// Visits every element of `rows` rows of `width`, as (row, column).
#define EACH_ELEMENT(row, column, rows, width)                                                                       \
    for (unsigned long long element_ = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x,                    \
                            total_ = (rows) * (unsigned long long)(width);                                          \
         element_ < total_; element_ += gridDim.x * (unsigned long long)blockDim.x)                                  \
        if (unsigned row = element_ < 0xffffffffull ? (unsigned)element_ / (unsigned)(width)                         \
                                                    : (unsigned)(element_ / (width)),                               \
            column = (unsigned)(element_ - row * (unsigned long long)(width));                                      \
            true)

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

enum : unsigned { SILU = 0, GELU = 1, GELU_TANH = 2, IDENTITY = 3 };

__device__ __forceinline__ float activated(unsigned kind, float x) {
    switch (kind) {
        case SILU: return silu(x);
        case GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
        case GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        default: return x;
    }
}

// Sums over a block; every thread gets the sum. `scratch` holds 32 values.
template <typename T> __device__ __forceinline__ T block_sum(T value, T *scratch) {
    for (int reach = 16; reach; reach >>= 1) value += __shfl_xor_sync(0xffffffffu, value, reach);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = value;
    __syncthreads();
    T sum = 0;
    for (unsigned warp = 0; warp < (blockDim.x >> 5); warp++) sum += scratch[warp];
    return sum;
}
