// From decoder tokens to RGB bytes.
#pragma once
#include "layout.cuh"

// Rows of y are picture rows, [channels, frames, height]; x holds a patch a token.
extern "C" __global__ void unpatchify(Rows x, Rows y, unsigned rows, unsigned frames, unsigned height,
                                      unsigned first_frame, unsigned patch_frames, unsigned patch_height,
                                      unsigned patch_width, unsigned grid_height, unsigned grid_width) {
    EACH_ELEMENT(row, column, rows, y.width) {
        unsigned line = row % height, frame = row / height % frames + first_frame, channel = row / height / frames;
        unsigned token = (frame / patch_frames * grid_height + line / patch_height) * grid_width + column / patch_width;
        unsigned inside = ((channel * patch_frames + frame % patch_frames) * patch_height + line % patch_height)
                          * patch_width + column % patch_width;
        store(y, y.offset(row) + column, load(x, x.offset(token) + inside));
    }
}

// x [3, frames, height] rows of width; y bytes [frames, height, width, 3]. Raises `bad` at a value that is not finite.
extern "C" __global__ void pixels_to_rgb8(Rows x, unsigned char *y, unsigned lines, float mean0, float mean1,
                                          float mean2, float std0, float std1, float std2, unsigned *bad) {
    EACH_ELEMENT(line, column, lines, x.width) {
        for (unsigned channel = 0; channel < 3; channel++) {
            float mean = channel == 0 ? mean0 : channel == 1 ? mean1 : mean2;
            float std = channel == 0 ? std0 : channel == 1 ? std1 : std2;
            float value = load(x, x.offset(channel * lines + line) + column);
            if (!isfinite(value)) *bad = 1;
            float level = fminf(fmaxf(value * std + mean, 0.0f), 1.0f) * 255.0f;
            y[(line * (unsigned long long)x.width + column) * 3 + channel] = (unsigned char)rintf(level);
        }
    }
}
