// Multiplies [1 2; 3 4] and [5 6; 7 8] with the client that openapi-generator writes for TypeScript and fetch:
// in JSON, as raw operands, and with a resident tensor. Prints each product and the sentence of a refusal, a
// line each.
import { Configuration, InferenceApi, ProductsApi, ResponseError, TensorsApi, V2Datatype } from "./client";

declare const process: { argv: string[]; exit(status: number): void };

const a = [1, 2, 3, 4];
const b = [5, 6, 7, 8];
const raw = (...operands: number[][]) => new Blob([new Float32Array(operands.flat())]);
const tensor = (name: string, data: number[]) => ({ name, shape: [2, 2], datatype: V2Datatype.Fp32, data });
const show = async (c: Blob) => console.log(...Array.from(new Float32Array(await c.arrayBuffer())));

async function main(): Promise<void> {
    const configuration = new Configuration({ basePath: process.argv[2] });
    const products = new ProductsApi(configuration);

    const v2Request = { inputs: [tensor("A", a), tensor("B", b)] };
    const answer = await new InferenceApi(configuration).v2Infer({ model: "gemm_fp32", v2Request });
    console.log(...(answer.outputs[0].data as number[]));

    await show(await products.gemm({ m: 2, n: 2, k: 2, body: raw(a, b) }));

    await new TensorsApi(configuration).putTensor({ name: "W", shape: "2,2", body: raw(b) });
    await show(await products.gemm({ m: 2, b: "W", body: raw(a) }));

    try {
        await products.gemm({ m: 3, n: 2, k: 2, body: raw(a, b) });
    } catch (error) {
        console.log((await (error as ResponseError).response.json()).detail);
    }
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
