/*
 * call_host_bytes.h - the bytes of a call's operands and results that lie on the host, which are
 * copied to and from the device that computes. Operands in the body and in shared memory count the
 * same. Resident operands, stored results and memory of a GPU that the client shares do not count.
 */
#ifndef SERVER_API_COMPUTE_CALL_HOST_BYTES_H
#define SERVER_API_COMPUTE_CALL_HOST_BYTES_H

struct compute_call;

struct call_host_bytes {
    /* Of operands that every part of a divided call needs whole (call_split.h), such as the B of a
     * single product. */
    double whole;
    double divided; /* of operands and results that are divided over the parts */
};

/* The bytes of a call whose shapes are known and whose kernel is chosen. */
struct call_host_bytes call_host_bytes(const struct compute_call *call);

#endif
