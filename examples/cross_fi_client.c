// SPDX-License-Identifier: BSD-3-Clause
// A program that uses libfabric writes into the memory of one that uses librpma. The peer is
// cross_rpma_server.c; docs/cross-api.md says what they agree on.
//
//   cross_fi_client ADDRESS PORT      where the server listens
//
// Exit status: 0 if the write has completed, 1 if anything failed.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "region_descriptor.h"

static char text[] = "hello from another process";

static void must(long result, const char* call) {
    if (result >= 0) return;
    fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-result));
    exit(EXIT_FAILURE);
}

/// A connection's event with what the peer sent along; a failure is told by fi_eq_readerr().
static void wait_for_connection(struct fid_eq* eq, void* data, size_t length) {
    uint32_t event = 0;
    char buffer[sizeof(struct fi_eq_cm_entry) + 64];
    const ssize_t got = fi_eq_sread(eq, &event, buffer, sizeof buffer, -1, 0);
    if (got == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {0};
        must(fi_eq_readerr(eq, &error, 0), "fi_eq_readerr");
        must(-error.err, "connection");
    }
    must(got, "fi_eq_sread");
    if (event != FI_CONNECTED || (size_t)got < sizeof(struct fi_eq_cm_entry) + length) {
        fprintf(stderr, "event %u with %zd bytes\n", event, got);
        exit(EXIT_FAILURE);
    }
    memcpy(data, ((struct fi_eq_cm_entry*)(void*)buffer)->data, length);
}

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s ADDRESS PORT\n", argv[0]);
        return EXIT_FAILURE;
    }

    // Connected endpoints that can write. The server looks at its memory when the connection has
    // ended, so that a completion that only says that our buffer is free again will do.
    struct fi_info* hints = fi_allocinfo();
    if (hints == NULL) return EXIT_FAILURE;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    struct fi_info* info = NULL;
    must(fi_getinfo(FI_VERSION(1, 17), argv[1], argv[2], 0, hints, &info), "fi_getinfo");

    struct fid_fabric* fabric = NULL;
    struct fid_eq* eq = NULL;
    struct fid_domain* domain = NULL;
    struct fid_cq* cq = NULL;
    struct fid_ep* endpoint = NULL;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_UNSPEC};
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_eq_open(fabric, &eq_attr, &eq, NULL), "fi_eq_open");
    must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    must(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
    must(fi_ep_bind(endpoint, &eq->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(endpoint), "fi_enable");

    // The memory whose bytes go over is registered only where the provider wants that.
    struct fid_mr* source = NULL;
    if ((info->domain_attr->mr_mode & FI_MR_LOCAL) != 0)
        must(fi_mr_reg(domain, text, sizeof text, FI_WRITE, 0, 2, 0, &source, NULL), "fi_mr_reg");

    // With its acceptance the server sends the descriptor of its memory.
    unsigned char descriptor[REGION_DESCRIPTOR_SIZE];
    must(fi_connect(endpoint, info->dest_addr, NULL, 0), "fi_connect");
    wait_for_connection(eq, descriptor, sizeof descriptor);
    const struct region target = region_read(descriptor);
    if ((target.usage & REGION_WRITE_DST) == 0 || target.length < sizeof text) {
        fprintf(stderr, "the server lends no memory for that\n");
        return EXIT_FAILURE;
    }

    must(fi_write(endpoint, text, sizeof text, source != NULL ? fi_mr_desc(source) : NULL, 0,
                  target.address, target.key, text),
         "fi_write");

    // Sleep until there is a completion, and take it. It carries the last argument of its call.
    struct fi_cq_entry completion = {0};
    const ssize_t got = fi_cq_sread(cq, &completion, 1, NULL, -1);
    if (got == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        must(fi_cq_readerr(cq, &error, 0), "fi_cq_readerr");
        must(-error.err, "the write");
    }
    must(got, "fi_cq_sread");
    if (completion.op_context != text) return EXIT_FAILURE;
    printf("wrote %zu bytes into the memory of another process\n", sizeof text);

    must(fi_shutdown(endpoint, 0), "fi_shutdown");
    fi_close(&endpoint->fid);
    if (source != NULL) fi_close(&source->fid);
    fi_close(&cq->fid);
    fi_close(&domain->fid);
    fi_close(&eq->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return EXIT_SUCCESS;
}
