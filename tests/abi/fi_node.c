/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of the time when FABRIC_1.<NODE> was the newest node: its structures end where they did
 * then, and behind each of them is a page that nobody may touch.
 *
 *     cc -DNODE=3 -DAPI_MAJOR=1 -DAPI_MINOR=9 fi_node.c -lfabric
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fi_tx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t inject_size, size, iov_limit, rma_iov_limit;
#if NODE >= 3
    uint32_t tclass;
#endif
};

struct fi_rx_attr {
    uint64_t caps, mode, op_flags, msg_order, comp_order;
    size_t total_buffered_recv, size, iov_limit;
};

struct fi_ep_attr {
    int type;
    uint32_t protocol, protocol_version;
    size_t max_msg_size, msg_prefix_size;
    size_t max_order_raw_size, max_order_war_size, max_order_waw_size;
    uint64_t mem_tag_format;
    size_t tx_ctx_cnt, rx_ctx_cnt;
#if NODE >= 1
    size_t auth_key_size;
    uint8_t* auth_key;
#endif
};

struct fi_domain_attr {
    void* domain;
    char* name;
    int threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode;
    size_t mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt;
    size_t max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx;
#if NODE >= 1
    size_t cntr_cnt, mr_iov_limit;
    uint64_t caps, mode;
    uint8_t* auth_key;
    size_t auth_key_size, max_err_data, mr_cnt;
#endif
#if NODE >= 3
    uint32_t tclass;
#endif
#if NODE >= 7
    size_t max_ep_auth_key;
#endif
#if NODE >= 8
    uint32_t max_group_id;
#endif
#if NODE >= 9
    uint64_t max_cntr_value, max_err_cntr_value;
#endif
};

struct fi_fabric_attr {
    void* fabric;
    char* name;
    char* prov_name;
    uint32_t prov_version;
#if NODE >= 1
    uint32_t api_version;
#endif
};

struct fid_ops {
    size_t size;
    int (*close)(void* fid);
};

struct fid {
    size_t fclass;
    void* context;
    struct fid_ops* ops;
};

struct fi_info {
    struct fi_info* next;
    uint64_t caps, mode;
    uint32_t addr_format;
    size_t src_addrlen, dest_addrlen;
    void* src_addr;
    void* dest_addr;
    struct fid* handle;
    struct fi_tx_attr* tx_attr;
    struct fi_rx_attr* rx_attr;
    struct fi_ep_attr* ep_attr;
    struct fi_domain_attr* domain_attr;
    struct fi_fabric_attr* fabric_attr;
#if NODE >= 2
    void* nic;
#endif
};

/* The sizes that the structures had. */
#define SIZE(node0, node1, node2, node3, node7, node8, node9) \
    (NODE >= 9   ? node9                                      \
     : NODE == 8 ? node8                                      \
     : NODE == 7 ? node7                                      \
     : NODE >= 3 ? node3                                      \
     : NODE == 2 ? node2                                      \
     : NODE == 1 ? node1                                      \
                 : node0)
_Static_assert(sizeof(struct fi_info) == SIZE(112, 112, 120, 120, 120, 120, 120), "fi_info");
_Static_assert(sizeof(struct fi_tx_attr) == SIZE(72, 72, 72, 80, 80, 80, 80), "fi_tx_attr");
_Static_assert(sizeof(struct fi_rx_attr) == 64, "fi_rx_attr");
_Static_assert(sizeof(struct fi_ep_attr) == SIZE(80, 96, 96, 96, 96, 96, 96), "fi_ep_attr");
_Static_assert(sizeof(struct fi_domain_attr) == SIZE(120, 184, 184, 192, 200, 208, 224),
               "fi_domain_attr");
_Static_assert(sizeof(struct fi_fabric_attr) == 32, "fi_fabric_attr");

/* Bound to the versions that were the default with that node. */
#define STRING_(text) #text
#define STRING(text) STRING_(text)
#define BIND(function, node) __asm__(".symver " #function "," #function "@FABRIC_1." STRING(node))
#if NODE >= 4 && NODE <= 6
#define INFO_NODE 3 /* the nodes 1.4 to 1.6 brought other functions */
#else
#define INFO_NODE NODE
#endif
#if NODE == 0
#define FABRIC_NODE 0
#else
#define FABRIC_NODE 1
#endif
BIND(fi_getinfo, INFO_NODE);
BIND(fi_dupinfo, INFO_NODE);
BIND(fi_freeinfo, INFO_NODE);
BIND(fi_fabric, FABRIC_NODE);

int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
               const struct fi_info* hints, struct fi_info** info);
struct fi_info* fi_dupinfo(const struct fi_info* info);
void fi_freeinfo(struct fi_info* info);
int fi_fabric(struct fi_fabric_attr* attr, struct fid** fabric, void* context);
uint32_t fi_version(void);
const char* fi_strerror(int number);
#if NODE >= 4
char* fi_tostr_r(char* buffer, size_t length, const void* data, int type);
#endif
#if NODE >= 5
int fi_open(uint32_t version, const char* name, void* attr, size_t attr_len, uint64_t flags,
            struct fid** fid, void* context);
#endif
#if NODE >= 6
int fi_log_ready(const void* provider, int level, int subsystem, uint64_t* showtime);
#endif
#if NODE >= 8
int fi_fabric2(struct fi_info* info, struct fid** fabric, uint64_t flags, void* context);
#endif

enum { FI_EP_MSG = 1, FI_MR_SCALABLE = 2, FI_TYPE_CAPS = 2 };
static const uint64_t FI_MSG = 1 << 1, FI_RMA = 1 << 2;
static const uint32_t API = (API_MAJOR << 16) | API_MINOR;

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "node 1.%d, line %d: %s\n", NODE, __LINE__, #condition); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)

/* Zeroed memory that ends where the next page, which faults, begins. */
static void* before_guard(size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char* pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    CHECK(mprotect(pages + page, page, PROT_NONE) == 0);
    return pages + page - size;
}

static struct fi_info* make_hints(void) {
    struct fi_info* hints = before_guard(sizeof *hints);
    hints->tx_attr = before_guard(sizeof *hints->tx_attr);
    hints->rx_attr = before_guard(sizeof *hints->rx_attr);
    hints->ep_attr = before_guard(sizeof *hints->ep_attr);
    hints->domain_attr = before_guard(sizeof *hints->domain_attr);
    hints->fabric_attr = before_guard(sizeof *hints->fabric_attr);
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_SCALABLE;
#if NODE >= 1
    hints->domain_attr->cntr_cnt = 1;
    hints->fabric_attr->api_version = API;
#else
    memset((char*)hints->fabric_attr + 28, 0xff, 4); /* padding may hold anything */
#endif
    return hints;
}

static int count_of(const struct fi_info* info) {
    int count = 0;
    for (; info != NULL; info = info->next) ++count;
    return count;
}

static void check_info(const struct fi_info* info) {
    CHECK((info->caps & (FI_MSG | FI_RMA)) == (FI_MSG | FI_RMA));
    CHECK(info->ep_attr->type == FI_EP_MSG);
    CHECK(info->domain_attr->mr_mode == FI_MR_SCALABLE);
    CHECK(strcmp(info->fabric_attr->prov_name, "compat") == 0);
    CHECK(info->src_addrlen > 0 && info->src_addr != NULL);
#if NODE >= 1
    CHECK(info->fabric_attr->api_version == API);
    CHECK(info->domain_attr->cntr_cnt >= 1);
#endif
#if NODE >= 9
    CHECK(info->domain_attr->max_cntr_value == UINT64_MAX);
#endif
}

static void check_discovery(const struct fi_info* hints, struct fi_info** info) {
    CHECK(fi_version() >= API);
    CHECK(fi_getinfo(API, NULL, NULL, 0, hints, info) == 0);
    CHECK(count_of(*info) >= 1);
    check_info(*info);
    struct fi_info* copy = fi_dupinfo(hints); /* a copy of what is short */
    CHECK(copy != NULL && copy->caps == hints->caps);
    CHECK(copy->domain_attr->mr_mode == FI_MR_SCALABLE);
    fi_freeinfo(copy);
    copy = fi_dupinfo(*info);
    check_info(copy);
    CHECK(copy->next == NULL);
    fi_freeinfo(copy);
    copy = fi_dupinfo(NULL);
    CHECK(copy != NULL && copy->caps == 0 && copy->fabric_attr != NULL);
    fi_freeinfo(copy);
}

static void check_fabric(const struct fi_info* info) {
    struct fi_fabric_attr* attr = before_guard(sizeof *attr);
    memcpy(attr, info->fabric_attr, sizeof *attr);
    struct fid* fabric = NULL;
    CHECK(fi_fabric(attr, &fabric, &fabric) == 0);
    CHECK(fabric->fclass == 1 && fabric->context == &fabric);
    const uint32_t api = *(const uint32_t*)((const char*)fabric + 32); /* fid_fabric.api_version */
    CHECK(api == (NODE == 0 ? 1U << 16 : API));
    CHECK(fabric->ops->close(fabric) == 0);
}

static void check_later_functions(struct fi_info* info) {
    CHECK(strlen(fi_strerror(-11)) > 0);
#if NODE >= 4
    char text[128];
    CHECK(strstr(fi_tostr_r(text, sizeof text, &info->caps, FI_TYPE_CAPS), "FI_RMA") != NULL);
#endif
#if NODE >= 5
    struct fid* log = NULL;
    CHECK(fi_open(API, "logging", NULL, 0, 0, &log, NULL) == 0);
    CHECK(log->ops->close(log) == 0);
#endif
#if NODE >= 6
    uint64_t showtime = 0;
    CHECK(fi_log_ready(NULL, 0, 0, &showtime) == 0);
#endif
#if NODE >= 8
    struct fid* fabric = NULL;
    CHECK(fi_fabric2(info, &fabric, 0, NULL) == 0);
    CHECK(fabric->ops->close(fabric) == 0);
#endif
    (void)info;
}

int main(void) {
    struct fi_info* info = NULL;
    check_discovery(make_hints(), &info);
    check_fabric(info);
    check_later_functions(info);
    fi_freeinfo(info);
    return 0;
}
