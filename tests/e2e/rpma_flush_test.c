// SPDX-License-Identifier: BSD-3-Clause
// Flushes: which are refused where, and what a persistent one has done when it completes. Files are
// made in the working directory, which must be on a disk.
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "rpma_rig.h"

enum { SIZE = 1 << 20 };
enum {
    VISIBLE = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
    PERSISTENT = RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
    READ_WRITE = RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC,
};

// --- files

static char file_name[64];

// A file of SIZE zeros, open and, if it is to be, without a name.
static int make_file(bool keep_name) {
    snprintf(file_name, sizeof file_name, "rpma_flush_%d", getpid());
    const int fd = open(file_name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    struct statfs fs;
    CHECK_EQUAL(fstatfs(fd, &fs), 0);
    if (!keep_name || fs.f_type == TMPFS_MAGIC) CHECK_EQUAL(unlink(file_name), 0);
    if (fs.f_type == TMPFS_MAGIC) rig_skip("the working directory is not on a disk");
    // Blocks exist and are written: what is dirty later has been written by the test.
    static char zeros[SIZE];
    CHECK_EQUAL(pwrite(fd, zeros, SIZE, 0), SIZE);
    CHECK_EQUAL(fsync(fd), 0);
    return fd;
}

static unsigned char* map(int fd, int flags) {
    void* at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

// KiB of the mapping at that address that are not on the disk.
// Pages that another process has made dirty count, too, once they are mapped here.
static unsigned long dirty_kib(const void* at) {
    for (size_t i = 0; i < SIZE; i += 4096) (void)((const volatile unsigned char*)at)[i];
    char line[512];
    unsigned long dirty = 0;
    bool inside = false;
    FILE* maps = fopen("/proc/self/smaps", "re");
    CHECK(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL) {
        unsigned long start = 0;
        unsigned long end = 0;
        unsigned long kib = 0;
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start <= (uintptr_t)at && (uintptr_t)at < end;
        else if (inside && (sscanf(line, "Shared_Dirty: %lu", &kib) == 1 ||
                            sscanf(line, "Private_Dirty: %lu", &kib) == 1))
            dirty += kib;
    }
    fclose(maps);
    return dirty;
}

// --- a peer whose platform takes persistent writes

static void declare_direct_write(struct rpma_conn* conn, bool direct_write) {
    struct rpma_peer_cfg* cfg = NULL;
    MUST(rpma_peer_cfg_new(&cfg));
    MUST(rpma_peer_cfg_set_direct_write_to_pmem(cfg, direct_write));
    MUST(rpma_conn_apply_remote_peer_cfg(conn, cfg));
    MUST(rpma_peer_cfg_delete(&cfg));
}

static int flush(struct rpma_conn* conn, struct rpma_mr_remote* remote, size_t offset, size_t size,
                 enum rpma_flush_type type) {
    return rpma_flush(conn, remote, offset, size, type, RPMA_F_COMPLETION_ALWAYS, remote);
}

static void lend(struct rig* rig, unsigned char* at, int usage) {
    struct rpma_mr_local* mr = NULL;
    MUST(rpma_mr_reg(rig->peer, at, SIZE, usage, &mr));
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, mr);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    MUST(rpma_mr_dereg(&mr));
    CHECK_EQUAL(munmap(at, SIZE), 0);
}

static void lend_dram(struct rig* rig) {
    lend(rig, map(-1, MAP_PRIVATE | MAP_ANONYMOUS), READ_WRITE | VISIBLE | PERSISTENT);
}

static void lend_shared_dram(struct rig* rig) {
    lend(rig, map(-1, MAP_SHARED | MAP_ANONYMOUS), READ_WRITE | VISIBLE | PERSISTENT);
}

static void lend_memory_file(struct rig* rig) {
    const int fd = memfd_create("rpma_flush", MFD_CLOEXEC);
    CHECK_EQUAL(ftruncate(fd, SIZE), 0);
    lend(rig, map(fd, MAP_SHARED), READ_WRITE | VISIBLE | PERSISTENT);
    close(fd);
}

static void lend_private_mapping(struct rig* rig) {
    const int fd = make_file(false);
    lend(rig, map(fd, MAP_PRIVATE), READ_WRITE | VISIBLE | PERSISTENT);
    close(fd);
}

static void be_refused(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, 64, RPMA_MR_USAGE_WRITE_SRC);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    declare_direct_write(conn, true);
    MUST(rpma_write(conn, remote, 0, memory.mr, 0, 64, RPMA_F_COMPLETION_ON_ERROR, NULL));
    MUST(flush(conn, remote, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY));
    COMPLETION(rig_cq(conn), remote, IBV_WC_SUCCESS);
    MUST(flush(conn, remote, 0, 64, RPMA_FLUSH_TYPE_PERSISTENT));
    COMPLETION(rig_cq(conn), remote, IBV_WC_REM_ACCESS_ERR);
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_mr_remote_delete(&remote));
    MUST(rpma_conn_disconnect(conn));
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

// --- every combination of usage, declaration and type

static const int usages[] = {READ_WRITE, READ_WRITE | VISIBLE, READ_WRITE | PERSISTENT,
                             READ_WRITE | VISIBLE | PERSISTENT};
enum { UNDECLARED, DECLARED_NOT, DECLARED, DECLARATIONS };

static void lend_in_all_ways(struct rig* rig) {
    const int fd = make_file(false);
    unsigned char* at = map(fd, MAP_SHARED);
    struct rpma_ep* ep = rig_listen(rig);
    for (size_t i = 0; i < RIG_LENGTH(usages) * DECLARATIONS; ++i) {
        struct rpma_mr_local* mr = NULL;
        MUST(rpma_mr_reg(rig->peer, at, SIZE, usages[i / DECLARATIONS], &mr));
        struct rpma_conn* conn = rig_accept(rig, ep, NULL);
        rig_lend(rig, mr);
        rig_close(rig, &conn);
        MUST(rpma_mr_dereg(&mr));
    }
    MUST(rpma_ep_shutdown(&ep));
    CHECK_EQUAL(munmap(at, SIZE), 0);
    close(fd);
}

static void flush_in_all_ways(struct rig* rig) {
    rig_find_server(rig);
    for (size_t i = 0; i < RIG_LENGTH(usages) * DECLARATIONS; ++i) {
        const int usage = usages[i / DECLARATIONS];
        const int declaration = (int)(i % DECLARATIONS);
        struct rpma_conn* conn = rig_connect(rig, NULL);
        struct rpma_mr_remote* remote = rig_borrow(rig);
        int types = 0;
        MUST(rpma_mr_remote_get_flush_type(remote, &types));
        CHECK_EQUAL(types, usage & (VISIBLE | PERSISTENT));
        if (declaration != UNDECLARED) declare_direct_write(conn, declaration == DECLARED);

        const bool visible = (usage & VISIBLE) != 0;
        CODE(flush(conn, remote, 0, 64, RPMA_FLUSH_TYPE_VISIBILITY), visible ? 0 : RPMA_E_NOSUPP);
        if (visible) COMPLETION(rig_cq(conn), remote, IBV_WC_SUCCESS);
        const bool persistent = (usage & PERSISTENT) != 0 && declaration == DECLARED;
        CODE(flush(conn, remote, 0, 64, RPMA_FLUSH_TYPE_PERSISTENT),
             persistent ? 0 : RPMA_E_NOSUPP);
        if (persistent) COMPLETION(rig_cq(conn), remote, IBV_WC_SUCCESS);
        NO_COMPLETION_OF(rig_cq(conn));
        MUST(rpma_mr_remote_delete(&remote));
        rig_close(rig, &conn);
    }
}

// --- what a persistent flush has done

static void store_in_file(struct rig* rig) {
    const int fd = make_file(false);
    unsigned char* at = map(fd, MAP_SHARED);
    struct rpma_mr_local* mr = NULL;
    MUST(rpma_mr_reg(rig->peer, at, SIZE, READ_WRITE | VISIBLE | PERSISTENT, &mr));
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, mr);
    rig_meet(rig);
    CHECK(dirty_kib(at) >= SIZE / 1024);  // written and made visible, but not yet durable
    rig_meet(rig);
    rig_meet(rig);
    CHECK(dirty_kib(at) <= SIZE / 1024 / 2);  // file systems may write more than they were asked to
    rig_meet(rig);
    rig_meet(rig);
    CHECK_EQUAL(dirty_kib(at), 0);
    rig_close(rig, &conn);
    MUST(rpma_mr_dereg(&mr));
    CHECK_EQUAL(munmap(at, SIZE), 0);
    close(fd);
}

static void write_and_persist_by_halves(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE, RPMA_MR_USAGE_WRITE_SRC);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    struct rpma_cq* cq = rig_cq(conn);
    declare_direct_write(conn, true);
    rig_fill(memory.at, SIZE, 1);
    MUST(rpma_write(conn, remote, 0, memory.mr, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
    MUST(flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_VISIBILITY));
    COMPLETION(cq, remote, IBV_WC_SUCCESS);
    rig_meet(rig);
    rig_meet(rig);
    MUST(flush(conn, remote, 0, SIZE / 2, RPMA_FLUSH_TYPE_PERSISTENT));
    COMPLETION(cq, remote, IBV_WC_SUCCESS);
    rig_meet(rig);
    rig_meet(rig);
    MUST(flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_PERSISTENT));
    COMPLETION(cq, remote, IBV_WC_SUCCESS);
    rig_meet(rig);
    MUST(rpma_mr_remote_delete(&remote));
    rig_close(rig, &conn);
    rig_forget(&memory);
}

static void store_in_file_and_die(struct rig* rig) {
    const int fd = make_file(true);
    unsigned char* at = map(fd, MAP_SHARED);
    struct rpma_mr_local* mr = NULL;
    MUST(rpma_mr_reg(rig->peer, at, SIZE, READ_WRITE | VISIBLE | PERSISTENT, &mr));
    rig_say(rig, file_name, sizeof file_name);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    rig_lend(rig, mr);
    CHECK(conn != NULL);
    pause();
}

static void persist_then_kill(struct rig* rig) {
    rig_hear(rig, file_name, sizeof file_name);
    struct rig_memory memory = rig_memory(rig, SIZE, RPMA_MR_USAGE_WRITE_SRC);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    declare_direct_write(conn, true);
    rig_fill(memory.at, SIZE, 2);
    MUST(rpma_write(conn, remote, 0, memory.mr, 0, SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
    MUST(rpma_atomic_write(conn, remote, 0, "pointer", RPMA_F_COMPLETION_ON_ERROR, NULL));
    MUST(flush(conn, remote, 0, SIZE, RPMA_FLUSH_TYPE_PERSISTENT));
    COMPLETION(rig_cq(conn), remote, IBV_WC_SUCCESS);
    CHECK_EQUAL(kill(rig->other_pid, SIGKILL), 0);
    const enum rpma_conn_event event = rig_next_event(conn);
    CHECK(event == RPMA_CONN_CLOSED || event == RPMA_CONN_LOST);
    MUST(rpma_mr_remote_delete(&remote));
    MUST(rpma_conn_delete(&conn));

    const int fd = open(file_name, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQUAL(unlink(file_name), 0);
    CHECK_EQUAL(read(fd, memory.at, SIZE), SIZE);
    close(fd);
    CHECK(memcmp(memory.at, "pointer", 8) == 0);
    static unsigned char wanted[SIZE];
    rig_fill(wanted, SIZE, 2);
    CHECK(memcmp(memory.at + 8, wanted + 8, SIZE - 8) == 0);
    rig_forget(&memory);
}

// The operator, or a test, vouches for cache line granularity.
static void force_granularity(void) {
    CHECK_EQUAL(setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1), 0);
}

static void store_and_die_with_granularity(struct rig* rig) {
    force_granularity();
    store_in_file_and_die(rig);
}

static void lend_memory_file_as_pmem(struct rig* rig) {
    force_granularity();
    lend_memory_file(rig);
}

static void flush_any_range(struct rig* rig) {
    struct rig_memory memory = rig_memory(rig, SIZE, RPMA_MR_USAGE_WRITE_SRC);
    struct rpma_conn* conn = rig_connection(rig, NULL);
    struct rpma_mr_remote* remote = rig_borrow(rig);
    declare_direct_write(conn, true);
    static const size_t ranges[][2] = {
        {0, 0}, {0, 1}, {1, 1}, {63, 2}, {4095, 2}, {SIZE - 1, 1}, {SIZE / 2 + 7, 99}, {0, SIZE}};
    for (size_t i = 0; i < RIG_LENGTH(ranges); ++i) {
        MUST(rpma_write(conn, remote, ranges[i][0], memory.mr, 0, ranges[i][1],
                        RPMA_F_COMPLETION_ON_ERROR, NULL));
        MUST(flush(conn, remote, ranges[i][0], ranges[i][1], RPMA_FLUSH_TYPE_PERSISTENT));
        COMPLETION(rig_cq(conn), remote, IBV_WC_SUCCESS);
    }
    // A length beyond the end stands for all, as long as the 8 bytes fit that librpma would read.
    MUST(flush(conn, remote, SIZE - 8, 9, RPMA_FLUSH_TYPE_PERSISTENT));
    COMPLETION(rig_cq(conn), remote, IBV_WC_SUCCESS);
    MUST(flush(conn, remote, SIZE - 7, 8, RPMA_FLUSH_TYPE_PERSISTENT));
    COMPLETION(rig_cq(conn), remote, IBV_WC_REM_ACCESS_ERR);
    MUST(rpma_mr_remote_delete(&remote));
    EVENT(conn, RPMA_CONN_CLOSED);
    MUST(rpma_conn_delete(&conn));
    rig_forget(&memory);
}

static void lend_file(struct rig* rig) {
    const int fd = make_file(false);
    lend(rig, map(fd, MAP_SHARED), READ_WRITE | VISIBLE | PERSISTENT);
    close(fd);
}

static void lend_file_with_granularity(struct rig* rig) {
    force_granularity();
    lend_file(rig);
}

static const struct rig_test tests[] = {
    {"usage, declaration and type decide which flush is taken", lend_in_all_ways, flush_in_all_ways,
     NULL, 0, 0},
    {"private memory cannot be flushed to persistence", lend_dram, be_refused, NULL, 0, 0},
    {"shared memory cannot be flushed to persistence", lend_shared_dram, be_refused, NULL, 0, 0},
    {"a file in memory cannot be flushed to persistence", lend_memory_file, be_refused, NULL, 0, 0},
    {"a private mapping of a file cannot be flushed to persistence", lend_private_mapping,
     be_refused, NULL, 0, 0},
    {"memory that the operator vouches for can be flushed to persistence", lend_memory_file_as_pmem,
     flush_any_range, NULL, 0, 0},
    {"any range of a file can be flushed to persistence, and no more", lend_file, flush_any_range,
     NULL, 0, 0},
    {"any range of persistent memory can be flushed, and no more", lend_file_with_granularity,
     flush_any_range, NULL, 0, 0},
    {"a persistent flush writes its range to the disk, one for visibility nothing", store_in_file,
     write_and_persist_by_halves, NULL, 0, 0},
    {"persisted bytes are in the file after the server was killed", store_in_file_and_die,
     persist_then_kill, NULL, SIGKILL, 0},
    {"persisted bytes are in persistent memory after the server was killed",
     store_and_die_with_granularity, persist_then_kill, NULL, SIGKILL, 0},
};

RIG_MAIN(tests)
