// SPDX-License-Identifier: BSD-3-Clause
// The passive side of the smallest RDMA write with libfabric: lends a peer a piece of memory and
// looks at it when the peer has gone. The peer is fi_write_client.c.
//
//   fi_write_server ADDRESS PORT      ADDRESS: one of this machine
//
// Exit status: 0 if what the peer wrote is what it was to write, 1 if anything failed.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char expected[] = "hello from another process";

static char memory[4096];  // what the peer writes to

static void must(long result, const char* call) {
    if (result >= 0) return;
    fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-result));
    exit(EXIT_FAILURE);
}

/// Waits for an event of the connection; a failure is told by fi_eq_readerr().
static void wait_for(uint32_t wanted, struct fid_eq* eq, struct fi_eq_cm_entry* entry) {
    uint32_t event = 0;
    const ssize_t got = fi_eq_sread(eq, &event, entry, sizeof *entry, -1, 0);
    if (got == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {0};
        must(fi_eq_readerr(eq, &error, 0), "fi_eq_readerr");
        must(-error.err, "connection");
    }
    must(got, "fi_eq_sread");
    if (event == wanted) return;
    fprintf(stderr, "event %u, not %u\n", event, wanted);
    exit(EXIT_FAILURE);
}

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s ADDRESS PORT\n", argv[0]);
        return EXIT_FAILURE;
    }

    // What we want: connected endpoints, of any provider that can be written to. The mr_mode bits
    // say what we can live with: keys and addresses that the provider chooses.
    struct fi_info* hints = fi_allocinfo();
    if (hints == NULL) return EXIT_FAILURE;
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    struct fi_info* info = NULL;
    must(fi_getinfo(FI_VERSION(1, 17), argv[1], argv[2], FI_SOURCE, hints, &info), "fi_getinfo");

    struct fid_fabric* fabric = NULL;
    struct fid_eq* eq = NULL;
    struct fid_pep* listener = NULL;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_eq_open(fabric, &eq_attr, &eq, NULL), "fi_eq_open");
    must(fi_passive_ep(fabric, info, &listener, NULL), "fi_passive_ep");
    must(fi_pep_bind(listener, &eq->fid, 0), "fi_pep_bind");
    must(fi_listen(listener), "fi_listen");
    printf("listening on %s:%s\n", argv[1], argv[2]);
    fflush(stdout);

    // A request brings the info for its endpoint.
    struct fi_eq_cm_entry request = {0};
    wait_for(FI_CONNREQ, eq, &request);

    struct fid_domain* domain = NULL;
    struct fid_mr* region = NULL;
    struct fid_cq* cq = NULL;
    struct fid_ep* endpoint = NULL;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    must(fi_domain(fabric, request.info, &domain, NULL), "fi_domain");
    // Peers may write to this memory.
    must(fi_mr_reg(domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 1, 0, &region, NULL),
         "fi_mr_reg");
    must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    must(fi_endpoint(domain, request.info, &endpoint, NULL), "fi_endpoint");
    must(fi_ep_bind(endpoint, &eq->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_enable(endpoint), "fi_enable");

    // What a peer needs to reach the memory travels with the acceptance: its key, and where it
    // starts, which is 0 unless the provider wants addresses.
    const int by_address = (request.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    const uint64_t target[2] = {fi_mr_key(region), by_address ? (uintptr_t)memory : 0};
    must(fi_accept(endpoint, target, sizeof target), "fi_accept");
    struct fi_eq_cm_entry entry = {0};
    wait_for(FI_CONNECTED, eq, &entry);

    // Nothing to do here while the peer writes: it needs no help of this program.
    wait_for(FI_SHUTDOWN, eq, &entry);

    fi_close(&endpoint->fid);
    fi_close(&cq->fid);
    fi_close(&region->fid);
    fi_close(&domain->fid);
    fi_close(&listener->fid);
    fi_close(&eq->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(request.info);
    fi_freeinfo(info);
    fi_freeinfo(hints);

    if (memcmp(memory, expected, sizeof expected) != 0) {
        fprintf(stderr, "the memory does not hold what the peer was to write\n");
        return EXIT_FAILURE;
    }
    printf("a peer wrote into this process: %s\n", memory);
    return EXIT_SUCCESS;
}
