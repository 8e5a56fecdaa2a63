// SPDX-License-Identifier: BSD-3-Clause
// What a librpma does where there is no RDMA device: texts, configurations, descriptors, refusals.
// Compiled against two headers and run on two libraries; the lines must agree.
#include <librpma.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void say(const char* what, const char* format, ...) __attribute__((format(printf, 2, 3)));

static void say(const char* what, const char* format, ...) {
    va_list arguments;
    printf("%s: ", what);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static void say_code(const char* what, int code) {
    say(what, "%d", code);
}

static void try_texts(void) {
    static const int codes[] = {0,
                                RPMA_E_UNKNOWN,
                                RPMA_E_NOSUPP,
                                RPMA_E_PROVIDER,
                                RPMA_E_NOMEM,
                                RPMA_E_INVAL,
                                RPMA_E_NO_COMPLETION,
                                RPMA_E_NO_EVENT,
                                RPMA_E_AGAIN,
                                RPMA_E_SHARED_CHANNEL,
                                RPMA_E_NOT_SHARED_CHNL,
                                -1,
                                1,
                                -99999};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; ++i)
        say("text", "%d %s", codes[i], rpma_err_2str(codes[i]));
    for (int event = -2; event < 10; ++event)
        say("event", "%d %s", event, rpma_utils_conn_event_2str((enum rpma_conn_event)event));
}

static unsigned logged;
static void count_log(enum rpma_log_level level, const char* file, int line, const char* function,
                      const char* format, ...) {
    (void)level, (void)file, (void)line, (void)function, (void)format;
    ++logged;
}

static void try_logging(void) {
    enum rpma_log_level level = RPMA_LOG_LEVEL_DEBUG;
    const int thresholds[] = {RPMA_LOG_THRESHOLD, RPMA_LOG_THRESHOLD_AUX, 7, -1};
    for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; ++i) {
        const enum rpma_log_threshold threshold = (enum rpma_log_threshold)thresholds[i];
        say("threshold", "%d", rpma_log_get_threshold(threshold, &level));
        for (int to = RPMA_LOG_DISABLED - 1; to <= RPMA_LOG_LEVEL_DEBUG + 1; ++to) {
            say("set threshold", "%d %d", to,
                rpma_log_set_threshold(threshold, (enum rpma_log_level)to));
            level = RPMA_LOG_LEVEL_DEBUG;
            const int rc = rpma_log_get_threshold(threshold, &level);
            say("threshold", "%d %d", rc, (int)level);
        }
    }
    say_code("threshold to nowhere", rpma_log_get_threshold(RPMA_LOG_THRESHOLD, NULL));
    say_code("log function", rpma_log_set_function(count_log));
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG);
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED);
    struct rpma_conn_cfg* cfg = NULL;
    say_code("what is logged", rpma_conn_cfg_new(NULL));
    say("what is logged", "%s", logged > 0 ? "was logged" : "was not");
    say_code("log threshold", rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED));
    logged = 0;
    say_code("what is not logged", rpma_conn_cfg_delete(NULL));
    say("what is not logged", "%s", logged > 0 ? "was logged" : "was not");
    (void)cfg;
    say_code("default log function", rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
}

static void say_conn_cfg(const char* what, const struct rpma_conn_cfg* cfg) {
    int timeout = -1;
    uint32_t cq = 0;
    uint32_t rcq = 0;
    uint32_t sq = 0;
    uint32_t rq = 0;
    bool shared = true;
    struct rpma_srq* srq = NULL;
    say(what, "%d %d %d %d %d %d %d", rpma_conn_cfg_get_timeout(cfg, &timeout),
        rpma_conn_cfg_get_cq_size(cfg, &cq), rpma_conn_cfg_get_rcq_size(cfg, &rcq),
        rpma_conn_cfg_get_sq_size(cfg, &sq), rpma_conn_cfg_get_rq_size(cfg, &rq),
        rpma_conn_cfg_get_compl_channel(cfg, &shared), rpma_conn_cfg_get_srq(cfg, &srq));
    say(what, "timeout %d, cq %u, rcq %u, sq %u, rq %u, shared %d, srq %s", timeout, cq, rcq, sq,
        rq, shared, srq != NULL ? "set" : "none");
}

static void try_conn_cfg(void) {
    struct rpma_conn_cfg* cfg = NULL;
    say_code("conn_cfg", rpma_conn_cfg_new(&cfg));
    say_conn_cfg("default", cfg);
    static const uint32_t sizes[] = {0, 1, 2, 10, 4095, UINT32_MAX};
    static const int timeouts[] = {-1, 0, 1, 500, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        say("set", "%d %d %d %d %d", rpma_conn_cfg_set_timeout(cfg, timeouts[i]),
            rpma_conn_cfg_set_cq_size(cfg, sizes[i]), rpma_conn_cfg_set_rcq_size(cfg, sizes[i]),
            rpma_conn_cfg_set_sq_size(cfg, sizes[i]), rpma_conn_cfg_set_rq_size(cfg, sizes[i]));
        say_code("set", rpma_conn_cfg_set_compl_channel(cfg, i % 2 == 0));
        say_conn_cfg("set", cfg);
    }
    say("refused", "%d %d %d %d", rpma_conn_cfg_set_timeout(NULL, 1),
        rpma_conn_cfg_get_timeout(cfg, NULL), rpma_conn_cfg_set_cq_size(NULL, 1),
        rpma_conn_cfg_get_cq_size(cfg, NULL));
    say("refused", "%d %d %d %d", rpma_conn_cfg_set_compl_channel(NULL, true),
        rpma_conn_cfg_get_compl_channel(cfg, NULL), rpma_conn_cfg_set_srq(NULL, NULL),
        rpma_conn_cfg_get_srq(cfg, NULL));
    say_code("no srq", rpma_conn_cfg_set_srq(cfg, NULL));
    say_code("delete", rpma_conn_cfg_delete(&cfg));
    say("delete", "%s", cfg == NULL ? "cleared" : "left");
    say_code("delete again", rpma_conn_cfg_delete(&cfg));
}

static void try_srq_cfg(void) {
    struct rpma_srq_cfg* cfg = NULL;
    say_code("srq_cfg", rpma_srq_cfg_new(&cfg));
    uint32_t rq = 0;
    uint32_t rcq = 0;
    for (uint32_t size = 0; size < 3; ++size) {
        say("srq_cfg", "%d %d", rpma_srq_cfg_get_rq_size(cfg, &rq),
            rpma_srq_cfg_get_rcq_size(cfg, &rcq));
        say("srq_cfg", "rq %u, rcq %u", rq, rcq);
        say("srq_cfg set", "%d %d", rpma_srq_cfg_set_rq_size(cfg, size),
            rpma_srq_cfg_set_rcq_size(cfg, size));
    }
    say("srq_cfg refused", "%d %d %d %d", rpma_srq_cfg_new(NULL), rpma_srq_cfg_delete(NULL),
        rpma_srq_cfg_get_rq_size(NULL, &rq), rpma_srq_cfg_set_rcq_size(NULL, 1));
    say_code("srq_cfg delete", rpma_srq_cfg_delete(&cfg));
}

static void try_peer_cfg(void) {
    struct rpma_peer_cfg* cfg = NULL;
    unsigned char descriptor[8] = {0};
    size_t length = 0;
    bool direct = true;
    say_code("peer_cfg", rpma_peer_cfg_new(&cfg));
    say_code("peer_cfg", rpma_peer_cfg_get_direct_write_to_pmem(cfg, &direct));
    say("peer_cfg", "%d", direct);
    say_code("peer_cfg length", rpma_peer_cfg_get_descriptor_size(cfg, &length));
    say("peer_cfg length", "%zu", length);
    for (int on = 1; on >= 0; --on) {
        say_code("peer_cfg set", rpma_peer_cfg_set_direct_write_to_pmem(cfg, on == 1));
        say_code("peer_cfg descriptor", rpma_peer_cfg_get_descriptor(cfg, descriptor));
        say("peer_cfg descriptor", "%02x %02x", descriptor[0], descriptor[1]);
    }
    say_code("peer_cfg delete", rpma_peer_cfg_delete(&cfg));
    say_code("peer_cfg from nothing", rpma_peer_cfg_from_descriptor(descriptor, 0, &cfg));
    say_code("peer_cfg from NULL", rpma_peer_cfg_from_descriptor(NULL, 1, &cfg));
    descriptor[0] = 1;
    say_code("peer_cfg from one", rpma_peer_cfg_from_descriptor(descriptor, 1, &cfg));
    say_code("peer_cfg", rpma_peer_cfg_get_direct_write_to_pmem(cfg, &direct));
    say("peer_cfg", "%d", direct);
    say("peer_cfg refused", "%d %d %d", rpma_peer_cfg_new(NULL),
        rpma_peer_cfg_get_descriptor(cfg, NULL), rpma_peer_cfg_get_descriptor_size(NULL, &length));
    say_code("peer_cfg delete", rpma_peer_cfg_delete(&cfg));
}

static void try_regions(void) {
    unsigned char descriptor[32] = {0x00, 0x10, 0x20, 0x30, 0, 0, 0, 0, 0x00, 0x20, 0,
                                    0,    0,    0,    0,    0, 7, 0, 0, 0,    0x3f};
    struct rpma_mr_remote* region = NULL;
    size_t size = 0;
    int flush = -1;
    for (size_t length = 0; length <= 22; ++length) {
        region = NULL;
        say("region", "%zu %d", length,
            rpma_mr_remote_from_descriptor(descriptor, length, &region));
        if (region == NULL) continue;
        say("region", "%d %d", rpma_mr_remote_get_size(region, &size),
            rpma_mr_remote_get_flush_type(region, &flush));
        say("region", "size %zu, flush %x", size, (unsigned)flush);
        say_code("region delete", rpma_mr_remote_delete(&region));
    }
    descriptor[20] = 0;
    say_code("region without usage", rpma_mr_remote_from_descriptor(descriptor, 21, &region));
    say("region refused", "%d %d %d %d", rpma_mr_remote_from_descriptor(NULL, 21, &region),
        rpma_mr_remote_from_descriptor(descriptor, 21, NULL), rpma_mr_remote_get_size(NULL, &size),
        rpma_mr_remote_delete(NULL));
}

/// Arguments that are refused before a device is asked for.
static void try_refusals(void) {
    struct rpma_peer* peer = NULL;
    struct rpma_conn_req* request = NULL;
    struct rpma_conn* connection = NULL;
    struct rpma_ep* endpoint = NULL;
    struct rpma_mr_local* region = NULL;
    struct rpma_cq* cq = NULL;
    struct ibv_context* context = NULL;
    char memory[8];
    say("context refused", "%d %d %d",
        rpma_utils_get_ibv_context(NULL, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
        rpma_utils_get_ibv_context("127.0.0.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, NULL),
        rpma_utils_get_ibv_context("127.0.0.1", (enum rpma_util_ibv_context_type)9, &context));
    say("on demand paging refused", "%d", rpma_utils_ibv_context_is_odp_capable(NULL, NULL));
    say("peer refused", "%d %d %d", rpma_peer_new(NULL, &peer), rpma_peer_delete(NULL),
        rpma_peer_delete(&peer));
    say("request refused", "%d %d %d", rpma_conn_req_new(NULL, "127.0.0.1", "1", NULL, &request),
        rpma_conn_req_connect(NULL, NULL, &connection), rpma_conn_req_delete(NULL));
    say("request refused", "%d %d", rpma_conn_req_delete(&request),
        rpma_conn_req_recv(NULL, NULL, 0, 0, NULL));
    say("endpoint refused", "%d %d %d", rpma_ep_listen(NULL, "127.0.0.1", "1", &endpoint),
        rpma_ep_shutdown(NULL), rpma_ep_shutdown(&endpoint));
    say("region refused", "%d %d %d", rpma_mr_reg(NULL, memory, 8, RPMA_MR_USAGE_RECV, &region),
        rpma_mr_dereg(NULL), rpma_mr_dereg(&region));
    say("connection refused", "%d %d %d %d", rpma_conn_disconnect(NULL), rpma_conn_delete(NULL),
        rpma_conn_delete(&connection), rpma_conn_next_event(NULL, NULL));
    say("queue refused", "%d %d %d %d", rpma_conn_get_cq(NULL, &cq), rpma_cq_wait(NULL),
        rpma_cq_get_wc(NULL, 1, NULL, NULL), rpma_cq_get_fd(NULL, NULL));
    say("operations refused", "%d %d %d %d",
        rpma_read(NULL, NULL, 0, NULL, 0, 8, RPMA_F_COMPLETION_ALWAYS, NULL),
        rpma_write(NULL, NULL, 0, NULL, 0, 8, RPMA_F_COMPLETION_ALWAYS, NULL),
        rpma_send(NULL, NULL, 0, 8, RPMA_F_COMPLETION_ALWAYS, NULL),
        rpma_recv(NULL, NULL, 0, 8, NULL));
    say("operations refused", "%d %d",
        rpma_flush(NULL, NULL, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL),
        rpma_atomic_write(NULL, NULL, 0, memory, RPMA_F_COMPLETION_ALWAYS, NULL));
}

int main(void) {
    rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED);
    try_texts();
    try_conn_cfg();
    try_srq_cfg();
    try_peer_cfg();
    try_regions();
    try_refusals();
    try_logging();
    say("end", "reached");
    return 0;
}
