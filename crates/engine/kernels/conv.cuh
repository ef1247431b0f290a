// Convolutions: inputs gathered under the taps for a matrix product, and transposed ones directly.
#pragma once
#include "layout.cuh"

// What a causal convolution over frames looks at; mirrors the struct of the same name on the host.
struct Conv3d {
    unsigned kernel_time, kernel_side, stride_time, stride_side, before;
    unsigned frames, height, width;
    unsigned out_frames, out_height, out_width;
};

__device__ __forceinline__ unsigned reflect(unsigned index, unsigned before, unsigned length) {
    unsigned inside = index < before ? before - index : index - before;
    return inside < length ? inside : 2 * (length - 1) - inside;
}

// columns [c_in · kt · kh · kw, count]: the pixels under every tap of outputs [first, first + count). A row of blocks
// gathers for one tap at a time.
extern "C" __global__ void gather_taps_3d(Rows x, Conv3d shape, float *columns, unsigned taps, unsigned first,
                                          unsigned count) {
    unsigned plane = shape.kernel_side * shape.kernel_side;
    for (unsigned tap = blockIdx.y; tap < taps; tap += gridDim.y) {
        unsigned inside = tap % plane, time = tap / plane % shape.kernel_time, channel = tap / plane / shape.kernel_time;
        unsigned kernel_row = inside / shape.kernel_side, kernel_column = inside % shape.kernel_side;
        float *to = columns + (unsigned long long)tap * count;
        for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += gridDim.x * blockDim.x) {
            unsigned output = first + index;
            unsigned out_column = output % shape.out_width, rest = output / shape.out_width;
            unsigned out_row = rest % shape.out_height, out_frame = rest / shape.out_height;
            int frame = (int)(out_frame * shape.stride_time + time) - (int)(shape.kernel_time - 1);
            float value = 0.0f;
            if (frame >= 0) {
                unsigned row = reflect(out_row * shape.stride_side + kernel_row, shape.before, shape.height);
                unsigned column = reflect(out_column * shape.stride_side + kernel_column, shape.before, shape.width);
                value = load(x, x.offset((channel * shape.frames + frame) * shape.height + row) + column);
            }
            to[index] = value;
        }
    }
}

// columns [c_in · taps, count] of rows [first_row, first_row + c_in) of x.
extern "C" __global__ void gather_taps_1d(Rows x, unsigned first_row, float *columns, unsigned all_taps, unsigned taps,
                                          unsigned stride, unsigned dilation, unsigned padding, unsigned first,
                                          unsigned count) {
    for (unsigned tap = blockIdx.y; tap < all_taps; tap += gridDim.y) {
        long long from = x.offset(first_row + tap / taps), shift = (long long)(tap % taps) * dilation - padding;
        float *to = columns + (unsigned long long)tap * count;
        for (unsigned index = blockIdx.x * blockDim.x + threadIdx.x; index < count; index += gridDim.x * blockDim.x) {
            long long source = (long long)(first + index) * stride + shift;
            to[index] = source >= 0 && source < x.width ? load(x, from + source) : 0.0f;
        }
    }
}

// y[b, co, o] = Σ x[b, ci, i] · w[ci, co, t] over o = i · stride + t · dilation − padding.
extern "C" __global__ void conv_transpose_1d(Rows w, Rows x, Rows y, unsigned rows, unsigned c_in, unsigned c_out,
                                             unsigned taps, unsigned stride, unsigned dilation, unsigned padding) {
    EACH_ELEMENT(row, column, rows, y.width) {
        unsigned batch = row / c_out, channel = row % c_out;
        float sum = 0.0f;
        for (unsigned tap = 0; tap < taps; tap++) {
            long long place = (long long)column + padding - (long long)tap * dilation;
            if (place < 0 || place % stride) continue;
            long long source = place / stride;
            if (source >= x.width) continue;
            for (unsigned input = 0; input < c_in; input++)
                sum = fmaf(load(x, x.offset(batch * c_in + input) + source),
                           load(w, w.offset(input * c_out + channel) + tap), sum);
        }
        store(y, y.offset(row) + column, sum);
    }
}
