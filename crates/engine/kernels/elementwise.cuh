// Operations that look at one element of each operand.
#pragma once
#include "layout.cuh"

extern "C" __global__ void cast_rows(Rows x, Rows y, unsigned rows) {
    EACH_ELEMENT(row, column, rows, y.width) store(y, y.offset(row) + column, load(x, x.offset(row) + column));
}

extern "C" __global__ void activate(Rows x, Rows y, unsigned rows, unsigned kind) {
    EACH_ELEMENT(row, column, rows, y.width)
        store(y, y.offset(row) + column, activated(kind, load(x, x.offset(row) + column)));
}

extern "C" __global__ void add(Rows x, Rows y, unsigned rows) {
    EACH_ELEMENT(row, column, rows, y.width) {
        long long at = y.offset(row) + column;
        store(y, at, load(y, at) + load(x, x.offset(row) + column));
    }
}

extern "C" __global__ void multiply(Rows x, Rows y, unsigned rows) {
    EACH_ELEMENT(row, column, rows, y.width) {
        long long at = y.offset(row) + column;
        store(y, at, load(y, at) * load(x, x.offset(row) + column));
    }
}

extern "C" __global__ void scale(Rows y, unsigned rows, float factor) {
    EACH_ELEMENT(row, column, rows, y.width) {
        long long at = y.offset(row) + column;
        store(y, at, load(y, at) * factor);
    }
}

// y += gate[pick[row]] * x; without picks every row takes gate row 0.
extern "C" __global__ void gated_add(Rows x, Rows gate, const unsigned *pick, Rows y, unsigned rows, unsigned product) {
    EACH_ELEMENT(row, column, rows, y.width) {
        long long at = y.offset(row) + column;
        float g = load(gate, gate.offset(pick ? pick[row] : 0) + column);
        store(y, at, load(y, at) + rounded(product, g * load(x, x.offset(row) + column)));
    }
}

extern "C" __global__ void swiglu(Rows x, Rows y, unsigned rows, unsigned gate_at, unsigned up_at) {
    EACH_ELEMENT(row, column, rows, y.width) {
        long long from = x.offset(row) + column;
        float gate = rounded(x.dtype, silu(load(x, from + gate_at)));
        store(y, y.offset(row) + column, gate * load(x, from + up_at));
    }
}

extern "C" __global__ void euler_step(Rows v, Rows x, unsigned rows, float timestep, float ratio) {
    EACH_ELEMENT(row, column, rows, x.width) {
        long long at = x.offset(row) + column;
        float value = load(x, at);
        float clean = value + (1.0f - timestep) * load(v, v.offset(row) + column);
        store(x, at, ratio * value + (1.0f - ratio) * clean);
    }
}

// Fades from x to y along an axis: its position is the column, or (row / stride) % length.
extern "C" __global__ void cross_fade(Rows x, Rows y, unsigned rows, unsigned innermost, unsigned stride,
                                      unsigned length, float extent) {
    EACH_ELEMENT(row, column, rows, y.width) {
        unsigned position = innermost ? column : row / stride % length;
        float fresh = rounded(y.dtype, position / extent);
        float old = rounded(y.dtype, 1.0f - fresh);
        long long at = y.offset(row) + column;
        float kept = rounded(y.dtype, load(x, x.offset(row) + column) * old);
        store(y, at, kept + rounded(y.dtype, load(y, at) * fresh));
    }
}

// y = round(x + bias): the end of a product whose sums are F32. Without a bias it only rounds.
extern "C" __global__ void add_bias(Rows x, Rows bias, unsigned has_bias, unsigned rounding, Rows y, unsigned rows) {
    EACH_ELEMENT(row, column, rows, y.width) {
        float value = load(x, x.offset(row) + column);
        if (has_bias) value += rounded(rounding, load(bias, column));
        store(y, y.offset(row) + column, value);
    }
}

// y[row] += bias[(row / rows_per_channel) % channels].
extern "C" __global__ void add_channel_bias(Rows bias, Rows y, unsigned rows, unsigned rows_per_channel,
                                            unsigned channels) {
    EACH_ELEMENT(row, column, rows, y.width) {
        long long at = y.offset(row) + column;
        store(y, at, load(y, at) + load(bias, row / rows_per_channel % channels));
    }
}

// A product without any library: y = x · wᵀ + bias, sums in F32. For shapes that the library has no algorithm for.
extern "C" __global__ void linear_plain(Rows w, Rows bias, unsigned has_bias, Rows x, Rows y, unsigned rows) {
    EACH_ELEMENT(row, column, rows, y.width) {
        long long from = x.offset(row), weights = w.offset(column);
        float sum = 0.0f;
        for (unsigned k = 0; k < x.width; k++)
            sum = fmaf(load(x, from + k), rounded(x.dtype, load(w, weights + k)), sum);
        if (has_bias) sum += rounded(x.dtype, load(bias, column));
        store(y, y.offset(row) + column, sum);
    }
}
