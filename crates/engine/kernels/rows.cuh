// Rows that move: gathered, scattered, mixed, transposed.
#pragma once
#include "layout.cuh"

extern "C" __global__ void gather_rows(Rows table, const unsigned *pick, Rows y, unsigned rows) {
    EACH_ELEMENT(row, column, rows, y.width)
        store(y, y.offset(row) + column, load(table, table.offset(pick[row]) + column));
}

extern "C" __global__ void scatter_rows(Rows x, const unsigned *place, Rows y, unsigned rows) {
    EACH_ELEMENT(row, column, rows, y.width)
        store(y, y.offset(place[row]) + column, load(x, x.offset(row) + column));
}

extern "C" __global__ void mix_rows(Rows table, const unsigned *pick, Rows weights, Rows y, unsigned rows) {
    unsigned taps = weights.width;
    EACH_ELEMENT(row, column, rows, y.width) {
        float sum = 0.0f;
        for (unsigned tap = 0; tap < taps; tap++) {
            float value = load(table, table.offset(pick[row * taps + tap]) + column);
            sum += value * load(weights, weights.offset(row) + tap);
        }
        store(y, y.offset(row) + column, sum);
    }
}

// y[j, i] = x[i, j] by tiles of 32 x 32; blocks of 32 x 8.
extern "C" __global__ void transpose(Rows x, Rows y, unsigned rows) {
    __shared__ float tile[32][33];
    unsigned columns = x.width;
    unsigned first_column = blockIdx.x * 32;
    for (unsigned first_row = blockIdx.y * 32; first_row < rows; first_row += gridDim.y * 32) {
        for (unsigned i = threadIdx.y; i < 32; i += 8) {
            unsigned row = first_row + i, column = first_column + threadIdx.x;
            if (row < rows && column < columns) tile[i][threadIdx.x] = load(x, x.offset(row) + column);
        }
        __syncthreads();
        for (unsigned i = threadIdx.y; i < 32; i += 8) {
            unsigned row = first_row + threadIdx.x, column = first_column + i;
            if (row < rows && column < columns) store(y, y.offset(column) + row, tile[threadIdx.x][i]);
        }
        __syncthreads();
    }
}
