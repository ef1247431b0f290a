// Attention by ordinary arithmetic: for F32, for verification, and for shapes that the tensor-core kernel does not take.
#pragma once
#include "layout.cuh"

#define PLAIN_QUERIES 16
#define PLAIN_KEYS 32
#define PLAIN_MOST_PER_THREAD 32

// A block of 128 threads computes 16 queries of one head: eight threads a query. Rows of q, k, v are [row, head].
extern "C" __global__ void __launch_bounds__(128)
attention_plain(Rows q, Rows k, Rows v, Rows y, unsigned rows, unsigned keys, unsigned heads, unsigned kv_heads,
                float scale, unsigned causal) {
    extern __shared__ float shared[];
    unsigned dim = q.width, head = blockIdx.y, kv_head = head / (heads / kv_heads);
    unsigned pitch = dim + 1;
    float *queries = shared, *some_keys = queries + PLAIN_QUERIES * pitch, *some_values = some_keys + PLAIN_KEYS * pitch;
    float *weights = some_values + PLAIN_KEYS * pitch;
    unsigned first = blockIdx.x * PLAIN_QUERIES, mine = threadIdx.x / 8, lane = threadIdx.x % 8, row = first + mine;

    for (unsigned i = threadIdx.x; i < PLAIN_QUERIES * dim; i += 128) {
        unsigned at = i / dim, channel = i % dim;
        queries[at * pitch + channel] =
            first + at < rows ? load(q, q.offset((first + at) * heads + head) + channel) : 0.0f;
    }
    float sums[PLAIN_MOST_PER_THREAD];
#pragma unroll
    for (int j = 0; j < PLAIN_MOST_PER_THREAD; j++) sums[j] = 0.0f;
    float top = -INFINITY, total = 0.0f;
    unsigned seen = causal ? min(keys, first + PLAIN_QUERIES) : keys;
    for (unsigned start = 0; start < seen; start += PLAIN_KEYS) {
        __syncthreads();
        for (unsigned i = threadIdx.x; i < PLAIN_KEYS * dim; i += 128) {
            unsigned at = i / dim, channel = i % dim;
            bool inside = start + at < keys;
            unsigned source = (start + at) * kv_heads + kv_head;
            some_keys[at * pitch + channel] = inside ? load(k, k.offset(source) + channel) : 0.0f;
            some_values[at * pitch + channel] = inside ? load(v, v.offset(source) + channel) : 0.0f;
        }
        __syncthreads();
        float score[4], best = top;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned at = lane + 8 * j;
            float dot = 0.0f;
            for (unsigned channel = 0; channel < dim; channel++)
                dot = fmaf(queries[mine * pitch + channel], some_keys[at * pitch + channel], dot);
            bool hidden = start + at >= keys || (causal && start + at > row);
            score[j] = hidden ? -INFINITY : dot * scale;
            best = fmaxf(best, score[j]);
        }
        for (int reach = 4; reach; reach >>= 1) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, reach));
        // A first tile of a causal row always shows key 0, so `best` is finite from the first tile on.
        float fade = expf(top - best), part = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float weight = expf(score[j] - best);
            part += weight;
            weights[mine * (PLAIN_KEYS + 1) + lane + 8 * j] = rounded(q.dtype, weight);
        }
        for (int reach = 4; reach; reach >>= 1) part += __shfl_xor_sync(0xffffffffu, part, reach);
        total = total * fade + part;
        top = best;
        __syncwarp();
#pragma unroll
        for (int j = 0; j < PLAIN_MOST_PER_THREAD; j++) {
            unsigned channel = lane + 8 * j;
            if (channel < dim) {
                float sum = sums[j] * fade;
                for (int at = 0; at < PLAIN_KEYS; at++)
                    sum = fmaf(weights[mine * (PLAIN_KEYS + 1) + at], some_values[at * pitch + channel], sum);
                sums[j] = sum;
            }
        }
        __syncwarp();
    }
    if (row >= rows) return;
    long long to = y.offset(row) + (long long)head * dim;
#pragma unroll
    for (int j = 0; j < PLAIN_MOST_PER_THREAD; j++) {
        unsigned channel = lane + 8 * j;
        if (channel < dim) store(y, to + channel, sums[j] / total);
    }
}
