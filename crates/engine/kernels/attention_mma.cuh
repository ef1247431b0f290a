// Attention on tensor cores for BF16 and F16 by mma.sync (sm_80 and later), within 99 KiB of shared memory.
//
// A block of eight warps computes 128 queries of one head, a warp 16 of them, over tiles of 64 keys. Weights are
// rounded to the operands' type before they meet the values; their sum is not. Rows of shared tiles are padded by 16
// bytes, so that the eight rows of an ldmatrix lie in distinct banks for every multiple of 16 channels.
#pragma once
#include "layout.cuh"

struct AttentionShape {
    unsigned long long q, k, v, y;
    // Elements from row to row and from head to head; y's heads are neighbours.
    long long q_row, q_head, k_row, k_head, v_row, v_head, y_row;
    unsigned rows, keys, heads, kv_heads, head_dim, causal;
    float scale;
};

__device__ __forceinline__ void copy_16(unsigned to, const void *from, bool inside) {
    int bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ __forceinline__ void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

__device__ __forceinline__ void load_matrix(unsigned (&r)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void load_matrix_transposed(unsigned (&r)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

template <typename T> struct Half2;
template <> struct Half2<__nv_bfloat16> {
    static __device__ __forceinline__ unsigned pack(float a, float b) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
        return *reinterpret_cast<unsigned *>(&pair);
    }
    static __device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};
template <> struct Half2<__half> {
    static __device__ __forceinline__ unsigned pack(float a, float b) {
        __half2 pair = __floats2half2_rn(a, b);
        return *reinterpret_cast<unsigned *>(&pair);
    }
    static __device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#define MMA_QUERIES 128
#define MMA_KEYS 64
#define MMA_THREADS 256

// Copies `count` rows of D channels from row `first` on; rows and channels outside are zeros.
template <typename T, int D, int COUNT>
__device__ __forceinline__ void copy_tile(unsigned shared, const T *from, long long row_stride, unsigned first,
                                          unsigned rows, unsigned head_dim) {
    constexpr int PIECES = D / 8, PITCH = (D + 8) * 2;
#pragma unroll
    for (int i = threadIdx.x; i < COUNT * PIECES; i += MMA_THREADS) {
        int row = i / PIECES, piece = i % PIECES;
        bool inside = first + row < rows && piece * 8 < (int)head_dim;
        const T *source = inside ? from + (first + row) * row_stride + piece * 8 : from;
        copy_16(shared + row * PITCH + piece * 16, source, inside);
    }
}

template <typename T, int D> __device__ __forceinline__ void attention_mma(const AttentionShape &shape) {
    extern __shared__ __align__(16) unsigned char tiles[];
    constexpr int PITCH = (D + 8) * 2, TILE = MMA_KEYS * PITCH;
    unsigned shared = (unsigned)__cvta_generic_to_shared(tiles);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 8, inside = lane % 8;
    unsigned head = blockIdx.y, kv_head = head / (shape.heads / shape.kv_heads), first = blockIdx.x * MMA_QUERIES;
    const T *q = reinterpret_cast<const T *>(shape.q) + head * shape.q_head;
    const T *k = reinterpret_cast<const T *>(shape.k) + kv_head * shape.k_head;
    const T *v = reinterpret_cast<const T *>(shape.v) + kv_head * shape.v_head;

    // Queries pass through the room of both key tiles into registers.
    copy_tile<T, D, MMA_QUERIES>(shared, q, shape.q_row, first, shape.rows, shape.head_dim);
    copies_end();
    copies_wait<0>();
    __syncthreads();
    unsigned queries[D / 16][4];
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        load_matrix(queries[c], shared + (warp * 16 + (group & 1) * 8 + inside) * PITCH + c * 32 + (group >> 1) * 16);
    __syncthreads();

    float out[D / 8][4];
#pragma unroll
    for (int i = 0; i < D / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) out[i][j] = 0.0f;
    float top[2] = {-INFINITY, -INFINITY}, total[2] = {0.0f, 0.0f};
    const float factor = shape.scale * 1.44269504088896341f;
    unsigned row[2] = {first + warp * 16 + lane / 4, first + warp * 16 + lane / 4 + 8};

    unsigned seen = shape.causal ? min(shape.keys, first + MMA_QUERIES) : shape.keys;
    unsigned tile_count = (seen + MMA_KEYS - 1) / MMA_KEYS;
    copy_tile<T, D, MMA_KEYS>(shared, k, shape.k_row, 0, shape.keys, shape.head_dim);
    copy_tile<T, D, MMA_KEYS>(shared + 2 * TILE, v, shape.v_row, 0, shape.keys, shape.head_dim);
    copies_end();
    for (unsigned tile = 0; tile < tile_count; tile++) {
        unsigned stage = tile & 1, start = tile * MMA_KEYS;
        if (tile + 1 < tile_count) {
            unsigned next = shared + (stage ^ 1) * TILE;
            copy_tile<T, D, MMA_KEYS>(next, k, shape.k_row, start + MMA_KEYS, shape.keys, shape.head_dim);
            copy_tile<T, D, MMA_KEYS>(next + 2 * TILE, v, shape.v_row, start + MMA_KEYS, shape.keys, shape.head_dim);
            copies_end();
            copies_wait<1>();
        } else {
            copies_wait<0>();
        }
        __syncthreads();
        unsigned keys_at = shared + stage * TILE, values_at = keys_at + 2 * TILE;

        float scores[MMA_KEYS / 8][4];
#pragma unroll
        for (int i = 0; i < MMA_KEYS / 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) scores[i][j] = 0.0f;
#pragma unroll
        for (int c = 0; c < D / 16; c++)
#pragma unroll
            for (int n = 0; n < MMA_KEYS / 16; n++) {
                unsigned b[4];
                load_matrix(b, keys_at + (n * 16 + (group >> 1) * 8 + inside) * PITCH + c * 32 + (group & 1) * 16);
                Half2<T>::multiply(scores[2 * n], queries[c], b[0], b[1]);
                Half2<T>::multiply(scores[2 * n + 1], queries[c], b[2], b[3]);
            }

        bool partial = start + MMA_KEYS > shape.keys || (shape.causal && start + MMA_KEYS > first + warp * 16);
        if (partial) {
#pragma unroll
            for (int i = 0; i < MMA_KEYS / 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    unsigned key = start + i * 8 + (lane % 4) * 2 + (j & 1);
                    if (key >= shape.keys || (shape.causal && key > row[j >> 1])) scores[i][j] = -INFINITY;
                }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float best = top[half];
#pragma unroll
            for (int i = 0; i < MMA_KEYS / 8; i++)
                best = fmaxf(best, fmaxf(scores[i][2 * half], scores[i][2 * half + 1]));
            best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
            best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
            // The first tile shows every row at least one key, so `best` is finite.
            float fade = exp2_fast((top[half] - best) * factor), base = best * factor, part = 0.0f;
            top[half] = best;
#pragma unroll
            for (int i = 0; i < MMA_KEYS / 8; i++)
#pragma unroll
                for (int j = 2 * half; j < 2 * half + 2; j++) {
                    scores[i][j] = exp2_fast(fmaf(scores[i][j], factor, -base));
                    part += scores[i][j];
                }
            total[half] = fmaf(total[half], fade, part);
#pragma unroll
            for (int i = 0; i < D / 8; i++) {
                out[i][2 * half] *= fade;
                out[i][2 * half + 1] *= fade;
            }
        }
#pragma unroll
        for (int n = 0; n < MMA_KEYS / 16; n++) {
            unsigned weights[4] = {Half2<T>::pack(scores[2 * n][0], scores[2 * n][1]),
                                   Half2<T>::pack(scores[2 * n][2], scores[2 * n][3]),
                                   Half2<T>::pack(scores[2 * n + 1][0], scores[2 * n + 1][1]),
                                   Half2<T>::pack(scores[2 * n + 1][2], scores[2 * n + 1][3])};
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                unsigned b[4];
                load_matrix_transposed(
                    b, values_at + (n * 16 + (group & 1) * 8 + inside) * PITCH + c * 32 + (group >> 1) * 16);
                Half2<T>::multiply(out[2 * c], weights, b[0], b[1]);
                Half2<T>::multiply(out[2 * c + 1], weights, b[2], b[3]);
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = total[half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (row[half] >= shape.rows) continue;
        T *y = reinterpret_cast<T *>(shape.y) + row[half] * shape.y_row + head * shape.head_dim;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            unsigned channel = i * 8 + (lane % 4) * 2;
            if (channel < shape.head_dim)
                *reinterpret_cast<unsigned *>(y + channel) =
                    Half2<T>::pack(out[i][2 * half] / sum, out[i][2 * half + 1] / sum);
        }
    }
}

#define ATTENTION_MMA(name, T, D)                                                                                    \
    extern "C" __global__ void __launch_bounds__(MMA_THREADS, 1) name(AttentionShape shape) { attention_mma<T, D>(shape); }

ATTENTION_MMA(attention_bf16_64, __nv_bfloat16, 64)
ATTENTION_MMA(attention_bf16_80, __nv_bfloat16, 80)
ATTENTION_MMA(attention_bf16_128, __nv_bfloat16, 128)
ATTENTION_MMA(attention_f16_64, __half, 64)
ATTENTION_MMA(attention_f16_80, __half, 80)
ATTENTION_MMA(attention_f16_128, __half, 128)
