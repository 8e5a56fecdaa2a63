// SPDX-License-Identifier: BSD-3-Clause
// What goes wrong: refused arguments, rights, ranges, keys, a target that dies.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fi_rig.h"

enum { KEY = 0x51, REGION = 1 << 16, BIG = 1 << 20 };

static void wait_for_shutdown(struct rig* rig) {
    CHECK(rig_event(rig, FI_SHUTDOWN)->fid == &rig->ep->fid);
}

// --- arguments

static void serve_memory(struct rig* rig) {
    unsigned char* memory = rig_memory(REGION);
    struct fid_mr* mr = rig_region(rig, memory, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, REGION);
    rig_say(rig, &described, sizeof described);
    rig_meet(rig);
    MUST(fi_close(&mr->fid));
}

static void use_bad_arguments(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    unsigned char* memory = rig_memory(REGION);
    struct fid_ep* ep = rig->ep;
    void* desc = rig_desc(rig, memory, REGION);
    const size_t inject = rig->info->tx_attr->inject_size;
    const size_t iovs = rig->info->tx_attr->iov_limit;
    const size_t remotes = rig->info->tx_attr->rma_iov_limit;
    const uint64_t at = target.address;
    const uint64_t key = target.key;
    struct iovec iov[40];
    void* descs[40];
    struct fi_rma_iov remote[40];
    CHECK(iovs < 40 && remotes < 40);
    for (size_t i = 0; i < 40; ++i) {
        descs[i] = desc;
        iov[i] = (struct iovec){memory + i, 1};
        remote[i] = (struct fi_rma_iov){at + i, 1, key};
    }
    struct fi_msg_rma message = {.msg_iov = iov,
                                 .desc = descs,
                                 .iov_count = 2,
                                 .rma_iov = remote,
                                 .rma_iov_count = 2,
                                 .context = &message};

    CODE(fi_inject_write(ep, memory, inject + 1, 0, at, key), -FI_EMSGSIZE);
    if (rig_data_mask(rig) != 0)
        CODE(fi_inject_writedata(ep, memory, inject + 1, 1, 0, at, key), -FI_EMSGSIZE);
    CODE(fi_inject(ep, memory, inject + 1, 0), -FI_EMSGSIZE);
    CODE(fi_writev(ep, iov, NULL, iovs + 1, 0, at, key, NULL), -FI_EINVAL);
    CODE(fi_readv(ep, iov, NULL, iovs + 1, 0, at, key, NULL), -FI_EINVAL);
    CODE(fi_sendv(ep, iov, NULL, iovs + 1, 0, NULL), -FI_EINVAL);
    CODE(fi_recvv(ep, iov, NULL, rig->info->rx_attr->iov_limit + 1, 0, NULL), -FI_EINVAL);
    message.rma_iov_count = remotes + 1;
    CODE(fi_writemsg(ep, &message, 0), -FI_EINVAL);
    message.rma_iov_count = 3;
    CODE(fi_writemsg(ep, &message, 0), -FI_EINVAL);
    CODE(fi_readmsg(ep, &message, 0), -FI_EINVAL);
    message.rma_iov_count = 2;
    message.iov_count = iovs + 1;
    CODE(fi_writemsg(ep, &message, 0), -FI_EINVAL);
    message.iov_count = 2;
    CODE(fi_writemsg(ep, &message, FI_TRIGGER), -FI_EBADFLAGS);
    CODE(fi_writemsg(ep, &message, FI_PEEK), -FI_EBADFLAGS);
    CODE(fi_readmsg(ep, &message, FI_INJECT), -FI_EBADFLAGS);
    CODE(fi_readmsg(ep, &message, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
    iov[0].iov_len = inject + 1;
    iov[1].iov_len = 1;
    remote[0].len = inject + 2;
    message.rma_iov_count = 1;
    CODE(fi_writemsg(ep, &message, FI_INJECT), -FI_EMSGSIZE);
    const size_t too_long = rig->info->ep_attr->max_msg_size + 1;
    CODE(fi_write(ep, memory, too_long, desc, 0, at, key, NULL), -FI_EMSGSIZE);
    CODE(fi_read(ep, memory, too_long, desc, 0, at, key, NULL), -FI_EMSGSIZE);
    CODE(fi_send(ep, memory, too_long, desc, 0, NULL), -FI_EMSGSIZE);
    CODE(fi_atomic(ep, memory, 1, NULL, 0, at, key, FI_UINT64, FI_SUM, NULL), -FI_ENOSYS);
    CODE(fi_tsend(ep, memory, 1, NULL, 0, 7, NULL), -FI_ENOSYS);
    CODE(fi_enable(ep), -FI_EOPBADSTATE);
    CODE(fi_ep_bind(ep, &rig->tx->fid, FI_TRANSMIT), -FI_EOPBADSTATE);

    // Nothing of that was queued; nothing is where no byte goes.
    rig_expect_nothing(rig->tx);
    MUST(fi_write(ep, NULL, 0, NULL, 0, at, key, &iov));
    CHECK(rig_next(rig, rig->tx).op_context == &iov);
    MUST(fi_inject_write(ep, NULL, 0, 0, at, key));
    MUST(fi_read(ep, NULL, 0, NULL, 0, at, key, &iov));
    CHECK(rig_next(rig, rig->tx).op_context == &iov);
    MUST(fi_writev(ep, NULL, NULL, 0, 0, at, key, &iov));
    CHECK(rig_next(rig, rig->tx).op_context == &iov);
    message = (struct fi_msg_rma){.context = &iov};
    MUST(fi_writemsg(ep, &message, FI_COMPLETION));
    CHECK(rig_next(rig, rig->tx).op_context == &iov);
    rig_meet(rig);
}

static void idle(struct rig* rig) {
    rig_meet(rig);
}

static void use_states(struct rig* rig) {
    struct fid_ep* ep = NULL;
    unsigned char memory[8] = {0};
    void* desc = rig_desc(rig, memory, sizeof memory);
    MUST(fi_endpoint(rig->domain, rig->info, &ep, NULL));
    CODE(fi_write(ep, memory, 8, desc, 0, 0, 1, NULL), -FI_EOPBADSTATE);
    CODE(fi_send(ep, memory, 8, desc, 0, NULL), -FI_EOPBADSTATE);
    CODE(fi_recv(ep, memory, 8, desc, 0, NULL), -FI_EOPBADSTATE);
    CODE(fi_enable(ep), -FI_ENOEQ);
    MUST(fi_ep_bind(ep, &rig->eq->fid, 0));
    CODE(fi_ep_bind(ep, &rig->eq->fid, 0), -FI_EINVAL);
    CODE(fi_enable(ep), -FI_ENOCQ);
    CODE(fi_ep_bind(ep, &rig->tx->fid, FI_TRANSMIT | FI_READ), -FI_EBADFLAGS);
    CODE(fi_ep_bind(ep, &rig->tx->fid, 0), -FI_EBADFLAGS);
    MUST(fi_ep_bind(ep, &rig->tx->fid, FI_TRANSMIT));
    CODE(fi_ep_bind(ep, &rig->rx->fid, FI_TRANSMIT), -FI_EINVAL);
    CODE(fi_enable(ep), -FI_ENOCQ);
    MUST(fi_ep_bind(ep, &rig->rx->fid, FI_RECV));
    MUST(fi_enable(ep));
    CODE(fi_enable(ep), -FI_EOPBADSTATE);
    CODE(fi_write(ep, memory, 8, desc, 0, 0, 1, NULL), -FI_ENOTCONN);
    CODE(fi_send(ep, memory, 8, desc, 0, NULL), -FI_ENOTCONN);
    CODE(fi_inject_write(ep, memory, 8, 0, 0, 1), -FI_ENOTCONN);
    CODE(fi_shutdown(ep, 0), -FI_ENOTCONN);
    size_t length = 0;
    CODE(fi_getpeer(ep, memory, &length), -FI_ENOTCONN);
    MUST(fi_recv(ep, memory, 8, rig_desc(rig, memory, 8), 0, NULL));
    CODE(fi_close(&rig->tx->fid), -FI_EBUSY);
    CODE(fi_close(&rig->domain->fid), -FI_EBUSY);
    CODE(fi_close(&rig->fabric->fid), -FI_EBUSY);
    CODE(fi_close(&rig->eq->fid), -FI_EBUSY);
    MUST(fi_close(&ep->fid));
    rig_expect_nothing(rig->tx);
    rig_meet(rig);
}

// --- rights and ranges

struct wrong {
    uint64_t access;
    bool reads;
    uint64_t offset;
    uint64_t length;
    bool unknown_key;
    int error;  // 0: it works
};

static const struct wrong kWrongs[] = {
    {FI_REMOTE_READ | FI_REMOTE_WRITE, false, 0, 64, false, 0},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, true, REGION - 64, 64, false, 0},
    {FI_REMOTE_READ, false, 0, 8, false, FI_EACCES},
    {FI_REMOTE_WRITE, true, 0, 8, false, FI_EACCES},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, false, REGION - 7, 8, false, FI_EACCES},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, true, REGION - 7, 8, false, FI_EACCES},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, false, REGION, 1, false, FI_EACCES},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, false, UINT64_MAX - 3, 8, false, FI_EACCES},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, false, 0, REGION + 1, false, FI_EACCES},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, false, 0, 8, true, FI_ENOKEY},
    {FI_REMOTE_READ | FI_REMOTE_WRITE, true, 0, 8, true, FI_ENOKEY},
};

// A connection for each: the first error ends one.
static void serve_wrongs(struct rig* rig) {
    if (rig_is_iwarp(rig)) rig_skip("an iWARP NIC does not say which request was wrong");
    unsigned char* memory = rig_memory(REGION + 4096);
    for (size_t i = 0; i < RIG_LENGTH(kWrongs); ++i) {
        rig_connect(rig);
        memset(memory, 0x11, REGION + 4096);
        struct fid_mr* mr = rig_region(rig, memory, REGION, kWrongs[i].access, KEY, 0);
        const struct rig_target described = rig_describe(rig, mr, memory, REGION);
        rig_say(rig, &described, sizeof described);
        rig_meet(rig);
        // Of a write that leaves the region at its end the bytes before it may have arrived.
        const size_t from = kWrongs[i].length > REGION ? REGION : 0;
        if (kWrongs[i].error != 0)
            for (size_t at = from; at < REGION + 4096; ++at) EQUAL(memory[at], 0x11);
        rig_meet(rig);
        MUST(fi_close(&mr->fid));
        MUST(fi_close(&rig->ep->fid));
        MUST(fi_close(&rig->pep->fid));
        rig->ep = NULL;
        rig->pep = NULL;
    }
}

static void use_wrongs(struct rig* rig) {
    if (rig_is_iwarp(rig)) rig_skip("an iWARP NIC does not say which request was wrong");
    unsigned char* memory = rig_memory(REGION + 4096);
    for (size_t i = 0; i < RIG_LENGTH(kWrongs); ++i) {
        const struct wrong* wrong = &kWrongs[i];
        rig_connect(rig);
        struct rig_target target;
        rig_hear(rig, &target, sizeof target);
        const bool exact = rig_chooses_keys(rig);
        const int wanted = exact || wrong->error == 0 ? wrong->error : FI_EACCES;
        const uint64_t at = target.address + wrong->offset;
        const uint64_t key = wrong->unknown_key ? target.key + 1 : target.key;
        uint64_t before = 0;
        MUST(fi_write(rig->ep, NULL, 0, NULL, 0, target.address, target.key, &before));
        if (wrong->reads)
            MUST(fi_read(rig->ep, memory, wrong->length, rig_desc(rig, memory, wrong->length), 0,
                         at, key, &target));
        else
            MUST(fi_write(rig->ep, memory, wrong->length, rig_desc(rig, memory, wrong->length), 0,
                          at, key, &target));
        CHECK(rig_next(rig, rig->tx).op_context == &before);
        if (wrong->error == 0) {
            CHECK(rig_next(rig, rig->tx).op_context == &target);
        } else {
            const struct fi_cq_err_entry error = rig_next_error(rig, rig->tx);
            CHECK(error.op_context == &target);
            EQUAL(error.err, wanted);
            EQUAL(error.flags, FI_RMA | (wrong->reads ? FI_READ : FI_WRITE));
            EQUAL(error.prov_errno, 10);
            char text[64] = "";
            const char* said = fi_cq_strerror(rig->tx, error.prov_errno, NULL, text, sizeof text);
            CHECK(strlen(said) > 5);
            CHECK(strcmp(said, text) == 0);
            // What follows is cancelled, quiet or not, and the event queue says why.
            uint64_t after = 0;
            MUST(fi_inject_write(rig->ep, &after, sizeof after, 0, target.address, target.key));
            MUST(fi_write(rig->ep, memory, 8, rig_desc(rig, memory, 8), 0, target.address,
                          target.key, &after));
            EQUAL(rig_next_error(rig, rig->tx).err, FI_ECANCELED);
            const struct fi_cq_err_entry last = rig_next_error(rig, rig->tx);
            EQUAL(last.err, FI_ECANCELED);
            CHECK(last.op_context == &after);
            wait_for_shutdown(rig);
        }
        rig_expect_nothing(rig->tx);
        rig_meet(rig);
        rig_meet(rig);
        rig_close_endpoint(rig);
    }
}

// --- local rights

static void use_local_rights(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    unsigned char* memory = rig_memory(REGION);
    struct fid_mr* source = rig_region(rig, memory, 4096, FI_WRITE | FI_SEND, KEY, 0);
    EQUAL(fi_mr_key(source), FI_KEY_NOTAVAIL);
    CHECK(fi_mr_desc(source) != NULL);
    MUST(fi_write(rig->ep, memory, 4096, fi_mr_desc(source), 0, target.address, target.key, NULL));
    rig_next(rig, rig->tx);
    // A region to write from is none to read into, where descriptors are asked for at all.
    MUST(fi_read(rig->ep, memory, 8, fi_mr_desc(source), 0, target.address, target.key, memory));
    if ((rig->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
        const struct fi_cq_err_entry error = rig_next_error(rig, rig->tx);
        EQUAL(error.err, FI_EACCES);
        EQUAL(error.prov_errno, 4);
        CHECK(error.op_context == memory);
        CODE(fi_write(rig->ep, memory, 8, NULL, 0, target.address, target.key, NULL), -FI_EINVAL);
    } else {
        CHECK(rig_next(rig, rig->tx).op_context == memory);
        MUST(fi_write(rig->ep, memory, 8, rig_desc(rig, memory, 8), 0, target.address, target.key,
                      memory));
        CHECK(rig_next(rig, rig->tx).op_context == memory);
    }
    MUST(fi_close(&source->fid));
    rig_meet(rig);
}

// --- keys

// A NIC draws the keys itself, and names of the program's choice are no concern of it.
static void be_given_keys(struct rig* rig, struct fid_mr* first, unsigned char* memory) {
    struct fid_mr* second = rig_region(rig, memory, REGION, FI_REMOTE_READ, 7, 0);
    CHECK(fi_mr_key(first) != fi_mr_key(second));
    struct fid_mr* mr = NULL;
    MUST(fi_mr_reg(rig->domain, memory, 8, FI_REMOTE_READ, 0, UINT64_MAX, 0, &mr, NULL));
    CHECK(fi_mr_key(mr) <= UINT32_MAX);
    uint8_t raw[16];
    size_t size = sizeof raw;
    uint64_t base = 0;
    MUST(fi_mr_raw_attr(mr, &base, raw, &size, 0));
    EQUAL(base, (uintptr_t)memory);
    MUST(fi_close(&mr->fid));
    MUST(fi_close(&second->fid));
    MUST(fi_close(&first->fid));
    rig_meet(rig);
}

static void use_keys(struct rig* rig) {
    unsigned char* memory = rig_memory(REGION);
    struct fid_mr* first = rig_region(rig, memory, REGION, FI_REMOTE_READ, 7, 0);
    struct fid_mr* mr = NULL;
    if (!rig_chooses_keys(rig)) {
        be_given_keys(rig, first, memory);
        return;
    }
    EQUAL(fi_mr_key(first), 7);
    CODE(fi_mr_reg(rig->domain, memory, 8, FI_REMOTE_READ, 0, 7, 0, &mr, NULL), -FI_ENOKEY);
    CODE(fi_mr_reg(rig->domain, memory, 8, FI_REMOTE_READ, 0, UINT64_C(1) << 32, 0, &mr, NULL),
         -FI_EKEYREJECTED);
    CODE(fi_mr_reg(rig->domain, memory, 8, FI_REMOTE_READ, 1, 8, 0, &mr, NULL), -FI_EINVAL);
    CODE(fi_mr_reg(rig->domain, memory, 8, FI_REMOTE_READ, 0, 8, FI_MULTI_RECV, &mr, NULL),
         -FI_EBADFLAGS);
    CODE(fi_mr_reg(rig->domain, memory, 8, FI_TAGGED, 0, 8, 0, &mr, NULL), -FI_EINVAL);
    // Without remote access no key is taken.
    struct fid_mr* local = rig_region(rig, memory, REGION, FI_READ | FI_WRITE, 7, 0);
    EQUAL(fi_mr_key(local), FI_KEY_NOTAVAIL);
    MUST(fi_close(&local->fid));
    MUST(fi_close(&first->fid));
    first = rig_region(rig, memory, REGION, FI_REMOTE_WRITE, 7, 0);
    struct fid_mr* nothing = rig_region(rig, memory, 0, FI_REMOTE_WRITE, 8, 0);
    uint8_t raw[16];
    size_t size = 4;
    uint64_t base = 1;
    CODE(fi_mr_raw_attr(first, &base, raw, &size, 0), -FI_ETOOSMALL);
    EQUAL(size, 8);
    size = sizeof raw;
    MUST(fi_mr_raw_attr(first, &base, raw, &size, 0));
    EQUAL(base, 0);
    uint64_t key = 0;
    MUST(fi_mr_map_raw(rig->domain, base, raw, size, &key, 0));
    EQUAL(key, 7);
    MUST(fi_mr_unmap_key(rig->domain, key));
    struct iovec iov[2] = {{memory, 100}, {memory + 100, 100}};
    MUST(fi_mr_regv(rig->domain, iov, 2, FI_REMOTE_WRITE, 0, 9, 0, &mr, NULL));
    MUST(fi_mr_enable(mr));
    MUST(fi_close(&mr->fid));
    iov[1].iov_base = memory + 300;
    MUST(fi_mr_regv(rig->domain, iov, 2, FI_WRITE, 0, 9, 0, &mr, NULL));
    MUST(fi_close(&mr->fid));
    CODE(fi_close(&rig->domain->fid), -FI_EBUSY);
    MUST(fi_close(&nothing->fid));
    MUST(fi_close(&first->fid));
    rig_meet(rig);
}

// --- a target that dies

static void serve_and_die(struct rig* rig) {
    unsigned char* memory = rig_memory(64 * BIG);
    struct fid_mr* mr = rig_region(rig, memory, 64 * BIG, FI_REMOTE_READ, KEY, 0);
    const struct rig_target described = rig_describe(rig, mr, memory, 64 * BIG);
    rig_say(rig, &described, sizeof described);
    rig_meet(rig);
    for (;;) pause();
}

static void use_and_kill(struct rig* rig) {
    struct rig_target target;
    rig_hear(rig, &target, sizeof target);
    unsigned char* memory = rig_memory(64 * BIG);
    rig_meet(rig);
    const pid_t pid = rig->other_pid;
    kill(pid, SIGSTOP);
    size_t posted = 0;
    for (; posted < 64; ++posted) {
        const ssize_t result =
            fi_read(rig->ep, memory + posted * BIG, BIG, rig_desc(rig, memory + posted * BIG, BIG),
                    0, target.address + posted * BIG, target.key, rig_context(posted));
        if (result == -FI_EAGAIN) break;
        MUST(result);
    }
    EQUAL(posted, 64);
    kill(pid, SIGKILL);
    size_t done = 0;
    size_t errors = 0;
    while (done + errors < posted) {
        struct fi_cq_data_entry entry;
        const ssize_t got = fi_cq_read(rig->tx, &entry, 1);
        if (got == -FI_EAGAIN) continue;
        if (got == 1) {
            EQUAL(errors, 0);
            CHECK(entry.op_context == rig_context(done));
            ++done;
            continue;
        }
        const struct fi_cq_err_entry error = rig_next_error(rig, rig->tx);
        CHECK(error.op_context == rig_context(done + errors));
        EQUAL(error.flags, FI_RMA | FI_READ);
        // Of a dead process's objects the kernel may take the region from a NIC first, or the
        // connection, whose end cancels everything.
        const bool of_nic = errors == 0 && !rig_chooses_keys(rig) &&
                            (error.err == FI_EACCES || error.err == FI_ECANCELED);
        if (!of_nic) EQUAL(error.err, errors == 0 ? FI_ECONNRESET : FI_ECANCELED);
        ++errors;
    }
    // Reads that need no help of the target were done while it was stopped: the next one fails.
    while (errors == 0) {
        const ssize_t result = fi_read(rig->ep, memory, BIG, rig_desc(rig, memory, BIG), 0,
                                       target.address, target.key, rig_context(posted));
        if (result == -FI_EAGAIN) continue;
        MUST(result);
        struct fi_cq_data_entry entry;
        ssize_t got = 0;
        while ((got = fi_cq_read(rig->tx, &entry, 1)) == -FI_EAGAIN) {
        }
        if (got == 1) {
            CHECK(entry.op_context == rig_context(posted));
            continue;
        }
        const struct fi_cq_err_entry error = rig_next_error(rig, rig->tx);
        CHECK(error.op_context == rig_context(posted));
        CHECK(error.err == FI_ECONNRESET || error.err == FI_ECANCELED);
        ++errors;
    }
    rig_expect_nothing(rig->tx);
    wait_for_shutdown(rig);
}

// --- a region closed under the writes of a peer

static unsigned vanishing_rounds(void) {
    const char* asked = getenv("FI_RIG_CYCLES");
    return asked != NULL ? (unsigned)atoi(asked) : 300;
}

static void serve_vanishing(struct rig* rig) {
    const size_t size = 1 << 16;
    for (unsigned round = 0; round < vanishing_rounds(); ++round) {
        rig_connect(rig);
        unsigned char* memory = rig_memory(size);
        struct fid_mr* mr = rig_region(rig, memory, size, FI_REMOTE_WRITE, KEY, 0);
        const struct rig_target described = rig_describe(rig, mr, memory, size);
        rig_say(rig, &described, sizeof described);
        rig_meet(rig);
        usleep(round % 5 * 100);
        MUST(fi_close(&mr->fid));
        // The memory is ours again: what is written into it now stays.
        memset(memory, 0x77, size);
        for (int look = 0; look < 20; ++look)
            for (size_t at = 0; at < size; at += 61) EQUAL(memory[at], 0x77);
        rig_meet(rig);
        for (size_t at = 0; at < size; ++at) EQUAL(memory[at], 0x77);
        rig_free(rig, memory, size);
        MUST(fi_close(&rig->ep->fid));
        MUST(fi_close(&rig->pep->fid));
        rig->ep = NULL;
        rig->pep = NULL;
    }
}

static void use_vanishing(struct rig* rig) {
    const size_t size = 1 << 16;
    unsigned char* memory = rig_memory(size);
    memset(memory, 0x33, size);
    for (unsigned round = 0; round < vanishing_rounds(); ++round) {
        rig_connect(rig);
        struct rig_target target;
        rig_hear(rig, &target, sizeof target);
        rig_meet(rig);
        int err = 0;
        while (err == 0) {
            const ssize_t result = fi_write(rig->ep, memory, size, rig_desc(rig, memory, size), 0,
                                            target.address, target.key, memory);
            CHECK(result == 0 || result == -FI_EAGAIN);
            struct fi_cq_data_entry entries[8];
            const ssize_t got = fi_cq_read(rig->tx, entries, 8);
            if (got == -FI_EAVAIL) err = rig_next_error(rig, rig->tx).err;
        }
        if (rig_is_iwarp(rig))
            EQUAL(err, FI_ECANCELED);  // the connection has ended, more is not known
        else
            EQUAL(err, rig_chooses_keys(rig) ? FI_ENOKEY : FI_EACCES);
        struct fi_cq_err_entry error;
        struct fi_cq_data_entry entry;
        ssize_t got;
        while ((got = fi_cq_read(rig->tx, &entry, 1)) != -FI_EAGAIN)
            if (got == -FI_EAVAIL) EQUAL(fi_cq_readerr(rig->tx, &error, 0), 1);
        rig_meet(rig);
        wait_for_shutdown(rig);
        rig_close_endpoint(rig);
        while ((got = fi_cq_read(rig->tx, &entry, 1)) != -FI_EAGAIN)
            if (got == -FI_EAVAIL) EQUAL(fi_cq_readerr(rig->tx, &error, 0), 1);
    }
}

static const struct rig_test kTests[] = {
    {"arguments outside the limits are refused at once",
     serve_memory,
     use_bad_arguments,
     {0},
     false,
     0},
    {"calls before their time are refused", idle, use_states, {0}, true, 0},
    {"rights, ranges and keys are checked at the target", serve_wrongs, use_wrongs, {0}, true, 0},
    {"rights are checked at the source", serve_memory, use_local_rights, {0}, false, 0},
    {"keys are the program's, each once", idle, use_keys, {0}, true, 0},
    {"a target that dies fails every read and ends the connection",
     serve_and_die,
     use_and_kill,
     {0},
     false,
     SIGKILL},
    {"a closed region is not written to any more", serve_vanishing, use_vanishing, {0}, true, 0},
};

RIG_MAIN(kTests)
