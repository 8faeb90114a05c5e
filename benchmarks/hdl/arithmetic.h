// The float32 multiply-add of a PE in the host's arithmetic: product and sum rounded by themselves
// (compile with -ffp-contract=off), 0 in an empty slot.
#pragma once
#include <cstdint>
#include <cstring>

static inline uint32_t mac_float32(uint32_t above, uint32_t moving, uint32_t weight, bool valid) {
    float a, m, w;
    std::memcpy(&a, &above, 4);
    std::memcpy(&m, &moving, 4);
    std::memcpy(&w, &weight, 4);
    const float sum = a + m * w;
    uint32_t bits;
    std::memcpy(&bits, &sum, 4);
    return valid ? bits : 0;
}
