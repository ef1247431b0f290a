// Every kernel of the CUDA backend, one translation unit for one fatbin. Built by scripts/build-kernels.
//
// Multiplications and additions are not contracted by the compiler (-fmad=false): element-wise kernels then round where
// their CPU twins do, and sums of products say fmaf themselves.
#include "attention_mma.cuh"
#include "attention_plain.cuh"
#include "audio.cuh"
#include "conv.cuh"
#include "elementwise.cuh"
#include "fused_bf16.cuh"
#include "norm.cuh"
#include "pixels.cuh"
#include "rows.cuh"
