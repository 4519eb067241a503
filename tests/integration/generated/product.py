"""Multiplies [1 2; 3 4] and [5 6; 7 8] with the client that openapi-generator writes for Python: in JSON, as
raw operands, and with a resident tensor. Prints each product and the sentence of a refusal, a line each."""

import json
import struct
import sys

import gemmd_generated as gemmd

A, B = (1, 2, 3, 4), (5, 6, 7, 8)


def raw(*operands):
    return b"".join(struct.pack("<4f", *operand) for operand in operands)


def show(c):
    print(*(format(number, "g") for number in struct.unpack("<4f", c)))


def tensor(name, data):
    return gemmd.V2Tensor(name=name, shape=[2, 2], datatype=gemmd.V2Datatype.FP32, data=list(data))


with gemmd.ApiClient(gemmd.Configuration(host=sys.argv[1])) as client:
    products = gemmd.ProductsApi(client)

    request = gemmd.V2Request(inputs=[tensor("A", A), tensor("B", B)])
    print(*gemmd.InferenceApi(client).v2_infer("gemm_fp32", request).outputs[0].data)

    show(products.gemm(raw(A, B), m=2, n=2, k=2))

    gemmd.TensorsApi(client).put_tensor("W", raw(B), shape="2,2")
    show(products.gemm(raw(A), m=2, b="W"))

    try:
        products.gemm(raw(A, B), m=3, n=2, k=2)
    except gemmd.ApiException as refusal:
        print(json.loads(refusal.body)["detail"])
