/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of the library, for external providers: FI_LOG_LEVEL, FI_LOG_PROV, FI_LOG_SUBSYS. */
#ifndef COMPAT_RDMA_PROVIDERS_FI_LOG_H
#define COMPAT_RDMA_PROVIDERS_FI_LOG_H

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fi_log_subsys {
    FI_LOG_CORE,
    FI_LOG_FABRIC,
    FI_LOG_DOMAIN,
    FI_LOG_EP_CTRL,
    FI_LOG_EP_DATA,
    FI_LOG_AV,
    FI_LOG_CQ,
    FI_LOG_EQ,
    FI_LOG_MR,
    FI_LOG_CNTR,
};

enum fi_log_level {
    FI_LOG_WARN,
    FI_LOG_TRACE,
    FI_LOG_INFO,
    FI_LOG_DEBUG,
};

int fi_log_enabled(const struct fi_provider* prov, enum fi_log_level level,
                   enum fi_log_subsys subsys);
int fi_log_ready(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 uint64_t* showtime);
void fi_log(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys,
            const char* func, int line, const char* fmt, ...) FI_FORMAT_PRINTF(6, 7);

/* A line of log when its level is on; errno stays as it was. */
#define FI_LOG_WHEN_(condition, prov, level, subsystem, ...)                 \
    do {                                                                     \
        if (condition) {                                                     \
            int saved_errno = errno;                                         \
            fi_log(prov, level, subsystem, __func__, __LINE__, __VA_ARGS__); \
            errno = saved_errno;                                             \
        }                                                                    \
    } while (0)

#define FI_LOG(prov, level, subsystem, ...) \
    FI_LOG_WHEN_(fi_log_enabled(prov, level, subsystem), prov, level, subsystem, __VA_ARGS__)

/* At most one line per interval from this place. */
#define FI_LOG_SPARSE(prov, level, subsystem, ...)                                            \
    do {                                                                                      \
        static uint64_t showtime;                                                             \
        FI_LOG_WHEN_(fi_log_ready(prov, level, subsystem, &showtime), prov, level, subsystem, \
                     __VA_ARGS__);                                                            \
    } while (0)

#define FI_WARN(prov, subsystem, ...) FI_LOG(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)
#define FI_WARN_SPARSE(prov, subsystem, ...) \
    FI_LOG_SPARSE(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)
#define FI_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#define FI_INFO(prov, subsystem, ...) FI_LOG(prov, FI_LOG_INFO, subsystem, __VA_ARGS__)

#if defined(ENABLE_DEBUG) && ENABLE_DEBUG
#define FI_DBG(prov, subsystem, ...) FI_LOG(prov, FI_LOG_DEBUG, subsystem, __VA_ARGS__)
#define FI_DBG_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#else
#define FI_DBG(prov, subsystem, ...) ((void)0)
#define FI_DBG_TRACE(prov, subsystem, ...) ((void)0)
#endif

#define FI_WARN_ONCE(prov, subsystem, ...)                                                    \
    do {                                                                                      \
        static int warned = 0;                                                                \
        FI_LOG_WHEN_(!warned && fi_log_enabled(prov, FI_LOG_WARN, subsystem) && (warned = 1), \
                     prov, FI_LOG_WARN, subsystem, __VA_ARGS__);                              \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif /* COMPAT_RDMA_PROVIDERS_FI_LOG_H */
