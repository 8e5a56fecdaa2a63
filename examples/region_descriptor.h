// SPDX-License-Identifier: BSD-3-Clause
// librpma's description of a memory region, for programs that use libfabric: what
// rpma_mr_get_descriptor() writes and rpma_mr_remote_from_descriptor() reads. docs/cross-api.md
// says how it gets from one program to the other.
#ifndef REGION_DESCRIPTOR_H
#define REGION_DESCRIPTOR_H

#include <stddef.h>
#include <stdint.h>

// What the region's owner lets peers do. Where flushing is allowed, librpma may read the region.
enum { REGION_READ_SRC = 1, REGION_WRITE_DST = 8, REGION_FLUSH_VISIBILITY = 16 };

enum { REGION_DESCRIPTOR_SIZE = 21 };

struct region {
    uint64_t address;  // what a peer adds its offsets to
    uint64_t length;
    uint32_t key;
    uint8_t usage;
};

static inline void region_put(unsigned char* to, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) to[i] = (unsigned char)(value >> (8 * i));
}

static inline uint64_t region_get(const unsigned char* from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

static inline void region_write(const struct region* region, unsigned char* descriptor) {
    region_put(descriptor, region->address, 8);
    region_put(descriptor + 8, region->length, 8);
    region_put(descriptor + 16, region->key, 4);
    descriptor[20] = region->usage;
}

static inline struct region region_read(const unsigned char* descriptor) {
    return (struct region){.address = region_get(descriptor, 8),
                           .length = region_get(descriptor + 8, 8),
                           .key = (uint32_t)region_get(descriptor + 16, 4),
                           .usage = descriptor[20]};
}

#endif
