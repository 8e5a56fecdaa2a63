// SPDX-License-Identifier: BSD-3-Clause
// Statistics are exactly what a program posted and was told of, connected or not: each process
// keeps its own account, and compares it with what COMPAT_INFO --pid says.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fi_rig.h"

enum { KEY = 77, MEMORY = 1 << 18, LONG = 100000, SHORT = 64, ROUNDS = 40 };

static struct {
    unsigned long long sends, send_bytes, writes, write_bytes, reads, read_bytes;
    unsigned long long receives, receive_bytes, completions, errors, flushed, refused;
} g_own;

// Posts, whatever it takes, and writes it down.
#define COUNTED(rig, kind, size, call)    \
    do {                                  \
        ssize_t posted_;                  \
        while ((posted_ = (call)) != 0) { \
            CODE(posted_, -FI_EAGAIN);    \
            ++g_own.refused;              \
            rig_progress(rig);            \
        }                                 \
        ++g_own.kind##s;                  \
        g_own.kind##_bytes += (size);     \
    } while (0)

static void read_entries(struct rig* rig, struct fid_cq* cq, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        if (rig->options->rdm)
            rig_next_tagged(rig, cq);
        else
            rig_next(rig, cq);
        ++g_own.completions;
    }
}

static unsigned long long number(const char* text, const char* name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char* at = strstr(text, key);
    CHECK(at != NULL);
    return strtoull(at + strlen(key), NULL, 10);
}

static void compare(void) {
    const char* const info = getenv("COMPAT_INFO");
    CHECK(info != NULL);
    char text[4096];
    snprintf(text, sizeof text, "LD_PRELOAD= %s --pid %d --json", info, getpid());
    FILE* const told = popen(text, "r");
    CHECK(told != NULL);
    text[fread(text, 1, sizeof text - 1, told)] = '\0';
    EQUAL(pclose(told), 0);
#define SAME(name) EQUAL(number(text, #name), g_own.name)
    SAME(sends);
    SAME(send_bytes);
    SAME(writes);
    SAME(write_bytes);
    SAME(reads);
    SAME(read_bytes);
    SAME(receives);
    SAME(receive_bytes);
    SAME(completions);
    SAME(errors);
    SAME(flushed);
    EQUAL(number(text, "queue_full") + number(text, "not_connected") + number(text, "peer_busy"),
          g_own.refused);
    EQUAL(number(text, "atomics") + number(text, "flushes"), 0);
}

// --- messages: short and long, with entries and without, before their receives and after

static void receive_messages(struct rig* rig) {
    unsigned char* memory = rig_memory(MEMORY);
    for (unsigned i = 0; i < ROUNDS; ++i)
        COUNTED(rig, receive, SHORT, fi_recv(rig->ep, memory, SHORT, NULL, rig->peer, NULL));
    rig_meet(rig);
    read_entries(rig, rig->rx, ROUNDS);
    if (rig->options->rdm) {
        COUNTED(rig, receive, LONG, fi_recv(rig->ep, memory, LONG, NULL, rig->peer, NULL));
        rig_meet(rig);
        read_entries(rig, rig->rx, 1);
        COUNTED(rig, receive, SHORT,
                fi_trecv(rig->ep, memory, SHORT, NULL, rig->peer, 5, 0, rig_context(5)));
        MUST(fi_cancel(&rig->ep->fid, rig_context(5)));
        EQUAL(rig_next_error(rig, rig->rx).err, FI_ECANCELED);
        ++g_own.flushed;
    }
    rig_meet(rig);
    compare();
    rig_meet(rig);
}

static void send_messages(struct rig* rig) {
    unsigned char* memory = rig_memory(MEMORY);
    // Connectionless ones are sent before the peer has posted a receive, and before it is reached.
    if (!rig->options->rdm) rig_meet(rig);
    for (unsigned i = 0; i < ROUNDS / 2; ++i) {
        COUNTED(rig, send, SHORT, fi_send(rig->ep, memory, SHORT, NULL, rig->peer, NULL));
        COUNTED(rig, send, SHORT, fi_inject(rig->ep, memory, SHORT, rig->peer));
    }
    if (rig->options->rdm) rig_meet(rig);
    read_entries(rig, rig->tx, ROUNDS / 2);
    if (rig->options->rdm) {
        COUNTED(rig, send, LONG, fi_send(rig->ep, memory, LONG, NULL, rig->peer, NULL));
        rig_meet(rig);
        read_entries(rig, rig->tx, 1);
    }
    rig_meet(rig);
    compare();
    rig_meet(rig);
}

// --- RMA

static void be_written(struct rig* rig) {
    unsigned char* memory = rig_memory(MEMORY);
    struct fid_mr* mr = rig_region(rig, memory, MEMORY, FI_REMOTE_WRITE | FI_REMOTE_READ, KEY, 0);
    rig_meet(rig);
    while (fi_cq_read(rig->rx, NULL, 0) != -FI_EAGAIN) {
    }
    rig_meet(rig);
    compare();
    MUST(fi_close(&mr->fid));
}

static void quiet_write(struct rig* rig, unsigned char* memory, uint64_t flags) {
    struct iovec local[2] = {{memory, 100}, {memory + 200, 28}};
    struct fi_rma_iov remote = {0, 128, KEY};
    struct fi_msg_rma message = {.msg_iov = local,
                                 .iov_count = 2,
                                 .addr = rig->peer,
                                 .rma_iov = &remote,
                                 .rma_iov_count = 1};
    COUNTED(rig, write, 128, fi_writemsg(rig->ep, &message, flags));
}

static void write_and_read(struct rig* rig) {
    unsigned char* memory = rig_memory(MEMORY);
    struct fid_ep* const ep = rig->ep;
    rig_meet(rig);
    for (unsigned i = 0; i < ROUNDS; ++i) {
        COUNTED(rig, write, SHORT,
                fi_write(ep, memory, SHORT, NULL, rig->peer, 0, KEY, rig_context(i)));
        COUNTED(rig, write, 8, fi_inject_write(ep, memory, 8, rig->peer, 0, KEY));
        quiet_write(rig, memory, 0);
    }
    quiet_write(rig, memory, FI_FENCE | FI_COMPLETION);
    read_entries(rig, rig->tx, ROUNDS + 1);
    COUNTED(rig, read, LONG, fi_read(ep, memory, LONG, NULL, rig->peer, 0, KEY, NULL));
    read_entries(rig, rig->tx, 1);
    // Beyond the region: an error, though it asked for no entry.
    COUNTED(rig, write, 8, fi_inject_write(ep, memory, 8, rig->peer, MEMORY, KEY));
    CHECK(rig_next_error(rig, rig->tx).err != 0);
    ++g_own.errors;
    compare();
    rig_meet(rig);
}

// --- operations that only counters see

static void write_counted(struct rig* rig) {
    unsigned char* memory = rig_memory(MEMORY);
    rig_meet(rig);
    for (unsigned i = 0; i < ROUNDS; ++i)
        COUNTED(rig, write, SHORT, fi_write(rig->ep, memory, SHORT, NULL, rig->peer, 0, KEY, NULL));
    MUST(fi_cntr_wait(rig->counters[0], ROUNDS, RIG_TIMEOUT_MS));
    g_own.completions += ROUNDS;
    compare();
    rig_meet(rig);
}

#define SELECTIVE .bind = FI_SELECTIVE_COMPLETION, .op_flags = FI_COMPLETION
static const struct rig_test kTests[] = {
    {.name = "messages of connections are counted",
     .target = receive_messages,
     .initiator = send_messages,
     .options = {SELECTIVE}},
    {.name = "messages without connections are counted",
     .target = receive_messages,
     .initiator = send_messages,
     .options = {.rdm = true, .caps = FI_MSG | FI_TAGGED | FI_RMA, SELECTIVE}},
    {.name = "one-sided operations of connections are counted",
     .target = be_written,
     .initiator = write_and_read,
     .options = {SELECTIVE}},
    {.name = "one-sided operations without connections are counted",
     .target = be_written,
     .initiator = write_and_read,
     .options = {.rdm = true, .caps = FI_MSG | FI_TAGGED | FI_RMA, SELECTIVE}},
    {.name = "what only counters see is counted",
     .target = be_written,
     .initiator = write_counted,
     .options = {.counters = true}},
    {.name = "what only counters see is counted without connections",
     .target = be_written,
     .initiator = write_counted,
     .options = {.rdm = true, .caps = FI_MSG | FI_TAGGED | FI_RMA, .counters = true}},
};
RIG_MAIN(kTests)
