// SPDX-License-Identifier: BSD-3-Clause
// fi_rma(3): the nine calls with every flag and size, and what each leaves at either end.
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fi_rig.h"

enum { KEY = 0x51, REGION = 4 << 20, SEGMENTS = 3 };

enum call { WRITE, WRITEV, WRITEMSG, INJECT, WRITEDATA, INJECTDATA, READ, READV, READMSG, CALLS };

static const bool kReads[CALLS] = {[READ] = true, [READV] = true, [READMSG] = true};
static const bool kInjects[CALLS] = {[INJECT] = true, [INJECTDATA] = true};
static const bool kData[CALLS] = {[WRITEDATA] = true, [INJECTDATA] = true};

// What an initiator wants the target to do before the next operation, and to check after it.
struct step {
    uint64_t size;  // of the transfer; all ones: the end
    uint32_t seed;  // of what the target holds (reads) or must find (writes)
    uint32_t reads;
    uint32_t gap;       // bytes between the two halves of what is transferred
    uint32_t has_data;  // an entry with this data is expected
    uint64_t data;
};

// The target's side of a transfer: two halves with a gap between them.
static void place(unsigned char* memory, const struct step* step, const unsigned char* bytes) {
    const size_t half = step->size / 2;
    memcpy(memory, bytes, half);
    memcpy(memory + half + step->gap, bytes + half, step->size - half);
}

static void serve(struct rig* rig) {
    unsigned char* memory = rig_memory(REGION);
    unsigned char* bytes = rig_memory(REGION);
    unsigned char* wanted = rig_memory(REGION);
    struct fid_mr* mr = rig_region(rig, memory, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, REGION);
    rig_say(rig, &described, sizeof described);
    for (;;) {
        struct step step;
        rig_hear(rig, &step, sizeof step);
        if (step.size == UINT64_MAX) break;
        const size_t extent = step.size + step.gap + 64;
        memset(memory, 0, extent);
        memset(wanted, 0, extent);
        rig_fill(bytes, step.size, step.seed);
        place(step.reads ? memory : wanted, &step, bytes);
        if (step.has_data) rig_await_data(rig);
        rig_meet(rig);
        rig_meet(rig);  // the operation is over
        if (!step.reads) EQUAL(memcmp(memory, wanted, extent), 0);
        if (step.has_data) {
            const struct fi_cq_data_entry entry = rig_next(rig, rig->rx);
            EQUAL(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
            CHECK(entry.data == (step.data & rig_data_mask(rig)));
            EQUAL(entry.len, step.size);
        }
        rig_expect_nothing(rig->rx);
        rig_meet(rig);
    }
    MUST(fi_close(&mr->fid));
    rig_free(rig, memory, REGION);
    rig_free(rig, bytes, REGION);
    rig_free(rig, wanted, REGION);
}

struct user {
    struct rig* rig;
    struct rig_target target;
    unsigned char* memory;
    unsigned char* probe;
    struct fid_mr* mr;  // null: memory that has not been registered for this
    uintptr_t next_context;
};

// One operation. Gives the context it was posted with.
static void* transfer(struct user* user, enum call call, size_t size, uint64_t flags,
                      const struct step* step) {
    const uint64_t data = step->data;
    struct rig* rig = user->rig;
    void* const context = rig_context(user->next_context++);
    void* const desc =
        user->mr != NULL ? fi_mr_desc(user->mr) : rig_desc(rig, user->memory, REGION);
    struct iovec iov[SEGMENTS] = {{user->memory, size / 3},
                                  {user->memory + size / 3, size / 3},
                                  {user->memory + 2 * (size / 3), size - 2 * (size / 3)}};
    void* descs[SEGMENTS] = {desc, desc, desc};
    const struct fi_rma_iov remote[2] = {
        {user->target.address, size / 2, user->target.key},
        {user->target.address + size / 2 + step->gap, size - size / 2, user->target.key}};
    const struct fi_msg_rma message = {.msg_iov = iov,
                                       .desc = descs,
                                       .iov_count = SEGMENTS,
                                       .rma_iov = remote,
                                       .rma_iov_count = 2,
                                       .context = context,
                                       .data = data};
    const uint64_t at = user->target.address;
    const uint64_t key = user->target.key;
    struct fid_ep* ep = rig->ep;
    switch (call) {
        case WRITE: POST(rig, fi_write(ep, user->memory, size, desc, 0, at, key, context)); break;
        case WRITEV: POST(rig, fi_writev(ep, iov, descs, SEGMENTS, 0, at, key, context)); break;
        case WRITEMSG: POST(rig, fi_writemsg(ep, &message, flags)); break;
        case INJECT: POST(rig, fi_inject_write(ep, user->memory, size, 0, at, key)); break;
        case WRITEDATA:
            POST(rig, fi_writedata(ep, user->memory, size, desc, data, 0, at, key, context));
            break;
        case INJECTDATA:
            POST(rig, fi_inject_writedata(ep, user->memory, size, data, 0, at, key));
            break;
        case READ: POST(rig, fi_read(ep, user->memory, size, desc, 0, at, key, context)); break;
        case READV: POST(rig, fi_readv(ep, iov, descs, SEGMENTS, 0, at, key, context)); break;
        case READMSG: POST(rig, fi_readmsg(ep, &message, flags)); break;
        case CALLS: break;
    }
    return context;
}

static bool is_message(enum call call) {
    return call == WRITEMSG || call == READMSG;
}

// A device that has no data with its writes says so at once.
static void refuse_data(const struct user* user, enum call call, uint64_t flags) {
    struct fid_ep* ep = user->rig->ep;
    const struct rig_target* target = &user->target;
    const struct fi_msg_rma message = {.data = 1};
    const uint64_t at = target->address;
    const uint64_t key = target->key;
    if (call == WRITEDATA)
        CODE(fi_writedata(ep, NULL, 0, NULL, 1, 0, at, key, NULL), -FI_EOPNOTSUPP);
    else if (call == INJECTDATA)
        CODE(fi_inject_writedata(ep, NULL, 0, 1, 0, at, key), -FI_EOPNOTSUPP);
    else
        CODE(fi_writemsg(ep, &message, flags), -FI_EBADFLAGS);
}

static bool completes(const struct rig* rig, enum call call, uint64_t flags) {
    if (kInjects[call]) return false;
    if (rig->options->bind == 0) return true;
    return ((is_message(call) ? flags : rig->options->op_flags) & FI_COMPLETION) != 0;
}

static void try_one(struct user* user, enum call call, size_t size, uint64_t flags) {
    struct rig* rig = user->rig;
    const bool injects = kInjects[call] || (flags & FI_INJECT) != 0;
    if (injects && size > rig->info->tx_attr->inject_size) return;
    const bool has_data = kData[call] || (flags & FI_REMOTE_CQ_DATA) != 0;
    if (has_data && rig_data_mask(rig) == 0) {
        refuse_data(user, call, flags);
        return;
    }
    const uint32_t seed = (uint32_t)user->next_context + 17;
    const struct step step = {.size = size,
                              .seed = seed,
                              .reads = kReads[call],
                              .gap = is_message(call) && !has_data ? 40 : 0,
                              .has_data = has_data,
                              .data = UINT64_C(0xA1B2C3D4E5F60708) + seed};
    rig_say(rig, &step, sizeof step);
    rig_meet(rig);
    if (!kReads[call])
        rig_fill(user->memory, size, seed);
    else
        memset(user->memory, 0, size + 64);
    void* const context = transfer(user, call, size, flags, &step);
    if (injects) memset(user->memory, 0xEE, size);  // it is ours again
    if (completes(rig, call, flags)) {
        const struct fi_cq_data_entry entry = rig_next(rig, rig->tx);
        CHECK(entry.op_context == context);
        EQUAL(entry.flags, FI_RMA | (kReads[call] ? FI_READ : FI_WRITE));
    }
    // Something with a completion behind it shows that the quiet one is over as well.
    unsigned char* byte = user->probe;
    POST(rig, fi_readmsg(rig->ep,
                         &(struct fi_msg_rma){.msg_iov = &(struct iovec){byte, 1},
                                              .desc = (void*[]){rig_desc(rig, byte, 1)},
                                              .iov_count = 1,
                                              .rma_iov = &(struct fi_rma_iov){user->target.address,
                                                                              1, user->target.key},
                                              .rma_iov_count = 1,
                                              .context = byte},
                         FI_COMPLETION));
    CHECK(rig_next(rig, rig->tx).op_context == byte);
    rig_expect_nothing(rig->tx);
    if (kReads[call]) {
        EQUAL(rig_first_difference(user->memory, size, seed), size);
        for (size_t i = 0; i < 64; ++i) EQUAL(user->memory[size + i], 0);
    }
    rig_meet(rig);
    rig_meet(rig);
}

static void use(struct rig* rig) {
    const size_t inject = rig->info->tx_attr->inject_size;
    const size_t sizes[] = {0, 1, 8, inject - 1, inject, inject + 1, 4096, 1 << 20};
    const uint64_t flags[] = {0,
                              FI_COMPLETION,
                              FI_INJECT,
                              FI_COMPLETION | FI_INJECT,
                              FI_REMOTE_CQ_DATA,
                              FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_INJECT,
                              FI_COMPLETION | FI_MORE,
                              FI_FENCE,
                              FI_COMPLETION | FI_FENCE | FI_INJECT,
                              FI_COMPLETION | FI_INJECT_COMPLETE,
                              FI_COMPLETION | FI_TRANSMIT_COMPLETE,
                              FI_COMPLETION | FI_DELIVERY_COMPLETE,
                              FI_DELIVERY_COMPLETE | FI_FENCE | FI_MORE};
    struct user user = {.rig = rig, .memory = rig_memory(REGION), .probe = rig_memory(1)};
    rig_hear(rig, &user.target, sizeof user.target);
    for (int registered = 0; registered < 2; ++registered) {
        if (registered)
            user.mr = rig_region(rig, user.memory, REGION, FI_READ | FI_WRITE, KEY + 1, 0);
        for (size_t s = 0; s < RIG_LENGTH(sizes); ++s) {
            for (enum call call = 0; call < CALLS; ++call) {
                if (!is_message(call)) {
                    try_one(&user, call, sizes[s], 0);
                    continue;
                }
                for (size_t f = 0; f < RIG_LENGTH(flags); ++f) {
                    const uint64_t only_of_writes = FI_INJECT | FI_REMOTE_CQ_DATA;
                    if (call == READMSG && (flags[f] & only_of_writes) != 0) continue;
                    if ((flags[f] & FI_DELIVERY_COMPLETE) != 0 && !rig_delivers(rig)) continue;
                    try_one(&user, call, sizes[s], flags[f]);
                }
            }
        }
    }
    rig_say(rig, &(struct step){.size = UINT64_MAX}, sizeof(struct step));
    MUST(fi_close(&user.mr->fid));
    rig_free(rig, user.memory, REGION);
}

// --- more than two gigabytes in one operation

static const size_t kHuge = ((size_t)2 << 30) + 5;

// NICs pin what is registered.
static void skip_without_memory(const struct rig* rig) {
    const size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (!rig_chooses_keys(rig) && memory < 3 * kHuge) rig_skip("it takes 6 GiB of memory");
}

// Where a fault takes long, a million of them take a minute.
static unsigned char* huge_memory(void) {
    unsigned char* memory = rig_memory(kHuge);
    (void)madvise(memory, kHuge & ~(size_t)4095, MADV_HUGEPAGE);  // a kernel may have none
    return memory;
}

static void serve_huge(struct rig* rig) {
    skip_without_memory(rig);
    unsigned char* memory = huge_memory();
    struct fid_mr* mr = rig_region(rig, memory, kHuge, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, kHuge);
    rig_say(rig, &described, sizeof described);
    rig_meet(rig);
    for (size_t at = 0; at < kHuge; at += 4096) EQUAL(memory[at], (unsigned char)(at >> 12));
    EQUAL(memory[kHuge - 1], 0x5A);
    rig_meet(rig);
    rig_meet(rig);
    MUST(fi_close(&mr->fid));
    rig_free(rig, memory, kHuge);
}

static void use_huge(struct rig* rig) {
    skip_without_memory(rig);
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    unsigned char* memory = huge_memory();
    for (size_t at = 0; at < kHuge; at += 4096) memory[at] = (unsigned char)(at >> 12);
    memory[kHuge - 1] = 0x5A;
    POST(rig, fi_write(rig->ep, memory, kHuge, rig_desc(rig, memory, kHuge), 0, target.address,
                       target.key, memory));
    CHECK(rig_next(rig, rig->tx).op_context == memory);
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
    rig_meet(rig);
    MUST(madvise(memory, kHuge & ~(size_t)4095, MADV_DONTNEED));
    POST(rig, fi_read(rig->ep, memory, kHuge, rig_desc(rig, memory, kHuge), 0, target.address,
                      target.key, memory));
    CHECK(rig_next(rig, rig->tx).op_context == memory);
    for (size_t at = 0; at < kHuge; at += 4096) EQUAL(memory[at], (unsigned char)(at >> 12));
    EQUAL(memory[kHuge - 1], 0x5A);
    rig_meet(rig);
    rig_free(rig, memory, kHuge);
}

// --- a target that makes no call

static void serve_asleep(struct rig* rig) {
    unsigned char* memory = rig_memory(REGION);
    struct fid_mr* mr = rig_region(rig, memory, REGION, FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, REGION);
    rig_say(rig, &described, sizeof described);
    for (unsigned round = 1; round <= 200; ++round) {
        rig_meet(rig);  // asleep in recv() until the initiator has its completion
        EQUAL(rig_first_difference(memory, 64 << (round % 10), round), 64 << (round % 10));
        rig_meet(rig);
    }
    MUST(fi_close(&mr->fid));
}

static void use_asleep(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    unsigned char* memory = rig_memory(REGION);
    for (unsigned round = 1; round <= 200; ++round) {
        const size_t size = 64 << (round % 10);
        rig_fill(memory, size, round);
        struct fi_msg_rma message = {
            .msg_iov = &(struct iovec){memory, size},
            .iov_count = 1,
            .rma_iov = &(struct fi_rma_iov){target.address, size, target.key},
            .desc = (void*[]){rig_desc(rig, memory, REGION)},
            .rma_iov_count = 1,
            .context = memory};
        POST(rig, fi_writemsg(rig->ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
        CHECK(rig_next(rig, rig->tx).op_context == memory);
        rig_meet(rig);
        rig_meet(rig);
    }
}

// --- an initiator that makes no call

enum { FENCED = 4 };

// Each write has to wait for the one before it, and nobody here reads a queue meanwhile.
static void serve_fenced(struct rig* rig) {
    volatile unsigned char* memory = rig_memory(FENCED);
    struct fid_mr* mr = rig_region(rig, (void*)memory, FENCED, FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, (void*)memory, FENCED);
    rig_say(rig, &described, sizeof described);
    rig_meet(rig);
    const double end = rig_seconds() + RIG_TIMEOUT_MS / 1000.0;
    while (memory[FENCED - 1] == 0 && rig_seconds() < end) sched_yield();
    for (unsigned at = 0; at < FENCED; ++at) EQUAL(memory[at], at + 1);
    rig_meet(rig);
    MUST(fi_close(&mr->fid));
}

static void use_fenced(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    unsigned char* memory = rig_memory(FENCED);
    for (unsigned at = 0; at < FENCED; ++at) {
        memory[at] = (unsigned char)(at + 1);
        struct fi_msg_rma message = {
            .msg_iov = &(struct iovec){memory + at, 1},
            .iov_count = 1,
            .rma_iov = &(struct fi_rma_iov){target.address + at, 1, target.key},
            .desc = (void*[]){rig_desc(rig, memory, FENCED)},
            .rma_iov_count = 1,
            .context = memory + at};
        POST(rig, fi_writemsg(rig->ep, &message, FI_COMPLETION | FI_FENCE));
    }
    rig_meet(rig);
    rig_meet(rig);  // asleep in recv() until all has arrived
    for (unsigned at = 0; at < FENCED; ++at)
        CHECK(rig_next(rig, rig->tx).op_context == memory + at);
}

// --- durable writes

enum { PAGES = 1 << 16 };

static void serve_durable(struct rig* rig) {
    char name[] = "/tmp/fi_rma_XXXXXX";
    const int fd = mkstemp(name);
    CHECK(fd >= 0);
    unlink(name);
    MUST(ftruncate(fd, PAGES));
    unsigned char* durable = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(durable != MAP_FAILED);
    unsigned char* fleeting = rig_memory(PAGES);
    struct fid_mr* mrs[2] = {
        rig_region(rig, durable, PAGES, FI_REMOTE_WRITE, KEY, FI_RMA_PMEM),
        rig_region(rig, fleeting, PAGES, FI_REMOTE_WRITE, KEY + 1, 0),
    };
    rig_meet(rig);
    rig_meet(rig);
    unsigned char* found = rig_memory(4096);
    for (unsigned round = 0; round < 8; ++round) {
        EQUAL(pread(fd, found, 4096, 4096 * round), 4096);
        EQUAL(rig_first_difference(found, 4096, round), 4096);
    }
    rig_meet(rig);
    rig_meet(rig);
    for (int i = 0; i < 2; ++i) MUST(fi_close(&mrs[i]->fid));
    close(fd);
}

static void use_durable(struct rig* rig) {
    unsigned char* memory = rig_memory(4096);
    struct iovec iov = {memory, 4096};
    struct fi_rma_iov remote[2] = {{0, 1000, KEY}, {1000, 3096, KEY}};
    struct fi_msg_rma message = {
        .msg_iov = &iov, .iov_count = 1, .rma_iov = remote, .rma_iov_count = 2, .context = memory};
    CHECK((rig->info->tx_attr->op_flags & FI_COMMIT_COMPLETE) == 0);
    rig_meet(rig);
    for (unsigned round = 0; round < 8; ++round) {
        rig_fill(memory, 4096, round);
        remote[0].addr = 4096 * round;
        remote[1].addr = 4096 * round + 1000;
        POST(rig, fi_writemsg(rig->ep, &message, FI_COMPLETION | FI_COMMIT_COMPLETE));
        CHECK(rig_next(rig, rig->tx).op_context == memory);
        rig_expect_nothing(rig->tx);
    }
    rig_meet(rig);
    rig_meet(rig);
    // Memory that is not durable cannot be committed to, and that is told.
    remote[0].key = KEY + 1;
    remote[1].key = KEY + 1;
    POST(rig, fi_writemsg(rig->ep, &message, FI_COMPLETION | FI_COMMIT_COMPLETE));
    const struct fi_cq_err_entry error = rig_next_error(rig, rig->tx);
    CHECK(error.op_context == memory);
    EQUAL(error.flags, FI_RMA | FI_WRITE);
    EQUAL(error.err, FI_EACCES);
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
}

// --- floods

static void serve_flood(struct rig* rig) {
    unsigned char* memory = rig_memory(REGION);
    struct fid_mr* mr = rig_region(rig, memory, REGION, FI_REMOTE_WRITE | FI_REMOTE_READ, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, REGION);
    rig_say(rig, &described, sizeof described);
    rig_meet(rig);
    uint64_t last;
    rig_hear(rig, &last, sizeof last);
    uint64_t found;
    memcpy(&found, memory, sizeof found);
    CHECK(found == last);
    MUST(fi_close(&mr->fid));
}

// Writes nobody asks about, twenty times what the queue holds, and one at the end.
static void use_flood(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    const uint64_t count = 20 * rig->info->tx_attr->size;
    uint64_t value = 0;
    struct iovec iov = {&value, sizeof value};
    struct fi_rma_iov remote = {target.address, sizeof value, target.key};
    struct fi_msg_rma message = {
        .msg_iov = &iov, .iov_count = 1, .rma_iov = &remote, .rma_iov_count = 1, .context = &value};
    const double end = rig_seconds() + RIG_TIMEOUT_MS / 1e3;
    for (uint64_t i = 1; i <= count; ++i) {
        value = i;
        const uint64_t flags =
            FI_INJECT | (i == count ? FI_COMPLETION : 0) | (i % 7 == 3 ? FI_MORE : 0);
        // Reading no entry at all must be enough to get on.
        while (fi_writemsg(rig->ep, &message, flags) != 0) {
            fi_cq_read(rig->tx, NULL, 0);
            CHECK(rig_seconds() < end);
        }
    }
    CHECK(rig_next(rig, rig->tx).op_context == &value);
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
    rig_say(rig, &count, sizeof count);
}

// A completion queue of four entries under many more operations.
static void use_small_queue(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    uint64_t posted = 0;
    uint64_t completed = 0;
    uint64_t refused = 0;
    const uint64_t count = 5000;
    uint64_t values[64];
    while (completed < count) {
        while (posted < count) {
            uint64_t* value = &values[posted % 64];
            *value = posted + 1;
            const ssize_t result =
                fi_write(rig->ep, value, sizeof *value, rig_desc(rig, value, sizeof *value), 0,
                         target.address, target.key, rig_context(posted));
            if (result == -FI_EAGAIN) {
                ++refused;
                break;
            }
            MUST(result);
            ++posted;
            CHECK(posted - completed <= 4);
        }
        struct fi_cq_data_entry entries[3];
        const ssize_t got = fi_cq_read(rig->tx, entries, 3);
        if (got == -FI_EAGAIN) continue;
        CHECK(got > 0);
        for (ssize_t i = 0; i < got; ++i)
            CHECK(entries[i].op_context == rig_context(completed + (uint64_t)i));
        completed += (uint64_t)got;
    }
    CHECK(refused > 0);
    rig_meet(rig);
    rig_say(rig, &count, sizeof count);
}

// FI_MORE and then nothing but looking for the completion.
static void use_more_alone(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    uint64_t value = 0;
    struct iovec iov = {&value, sizeof value};
    void* desc = rig_desc(rig, &value, sizeof value);
    struct fi_rma_iov remote = {target.address, sizeof value, target.key};
    struct fi_msg_rma message = {.msg_iov = &iov,
                                 .desc = &desc,
                                 .iov_count = 1,
                                 .rma_iov = &remote,
                                 .rma_iov_count = 1,
                                 .context = &value};
    const uint64_t rounds = 300;
    for (value = 1; value <= rounds; ++value) {
        const uint64_t batch = 1 + value % 40;
        for (uint64_t i = 0; i < batch; ++i)
            POST(rig, fi_writemsg(rig->ep, &message, FI_COMPLETION | FI_MORE));
        if (value % 3 == 0)  // a post that is refused pushes them out as well
            CODE(fi_inject_write(rig->ep, &value, 1 << 20, 0, target.address, target.key),
                 -FI_EMSGSIZE);
        for (uint64_t i = 0; i < batch; ++i) CHECK(rig_next(rig, rig->tx).op_context == &value);
    }
    rig_meet(rig);
    rig_say(rig, &rounds, sizeof rounds);
}

static const struct rig_test kTests[] = {
    {"every call, flag and size with a plain binding", serve, use, {0}, false, 0},
    {"every call, flag and size with a selective binding",
     serve,
     use,
     {.bind = FI_SELECTIVE_COMPLETION},
     false,
     0},
    {"every call, flag and size with a selective binding and completions by default",
     serve,
     use,
     {.bind = FI_SELECTIVE_COMPLETION, .op_flags = FI_COMPLETION},
     false,
     0},
    {"every call, flag and size with virtual addresses and the provider's keys",
     serve,
     use,
     {.mode = FI_LOCAL_MR, .mr_mode = FI_MR_BASIC},
     false,
     0},
    {"more than two gigabytes go in one operation",
     serve_huge,
     use_huge,
     {.caps = FI_RMA},
     false,
     0},
    {"delivery complete needs no call of the target", serve_asleep, use_asleep, {0}, false, 0},
    {"what waits behind a fence leaves although nobody reads",
     serve_fenced,
     use_fenced,
     {.caps = FI_MSG | FI_RMA | FI_FENCE},
     false,
     0},
    {"a committed write is durable or an error",
     serve_durable,
     use_durable,
     {.caps = FI_MSG | FI_RMA | FI_RMA_PMEM},
     false,
     0},
    {"a flood of writes that nobody asks about gets through",
     serve_flood,
     use_flood,
     {.bind = FI_SELECTIVE_COMPLETION, .tx_size = 64},
     false,
     0},
    {"a completion queue of four entries loses nothing",
     serve_flood,
     use_small_queue,
     {.cq_size = 4},
     false,
     0},
    {"more with nothing after it does not hang", serve_flood, use_more_alone, {0}, false, 0},
};

RIG_MAIN(kTests)
