// Multiplies [1 2; 3 4] and [5 6; 7 8] with the client that openapi-generator writes for Go: in JSON, as raw
// operands, and with a resident tensor. Prints each product and the sentence of a refusal, a line each.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	gemmd "example/gemmd/client"
)

var a, b = []float32{1, 2, 3, 4}, []float32{5, 6, 7, 8}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func file(operands ...[]float32) *os.File {
	to, err := os.CreateTemp("", "operands")
	must(err)
	for _, operand := range operands {
		must(binary.Write(to, binary.LittleEndian, operand))
	}
	_, err = to.Seek(0, io.SeekStart)
	must(err)
	return to
}

func show(from *os.File) {
	c := make([]float32, 4)
	must(binary.Read(from, binary.LittleEndian, c))
	fmt.Println(c[0], c[1], c[2], c[3])
}

func tensor(name string, numbers []float32) gemmd.V2Tensor {
	made := gemmd.NewV2Tensor(name, gemmd.V2DATATYPE_FP32, []int32{2, 2})
	for _, number := range numbers {
		made.Data = append(made.Data, number)
	}
	return *made
}

func main() {
	configuration := gemmd.NewConfiguration()
	configuration.Servers[0].URL = os.Args[1]
	client, background := gemmd.NewAPIClient(configuration), context.Background()

	request := gemmd.NewV2Request([]gemmd.V2Tensor{tensor("A", a), tensor("B", b)})
	answer, _, err := client.InferenceAPI.V2Infer(background, "gemm_fp32").V2Request(*request).Execute()
	must(err)
	fmt.Println(answer.Outputs[0].Data...)

	c, _, err := client.ProductsAPI.Gemm(background).M(2).N(2).K(2).Body(file(a, b)).Execute()
	must(err)
	show(c)

	_, _, err = client.TensorsAPI.PutTensor(background, "W").Shape("2,2").Body(file(b)).Execute()
	must(err)
	c, _, err = client.ProductsAPI.Gemm(background).M(2).B("W").Body(file(a)).Execute()
	must(err)
	show(c)

	_, _, err = client.ProductsAPI.Gemm(background).M(3).N(2).K(2).Body(file(a, b)).Execute()
	fmt.Println(err.(*gemmd.GenericOpenAPIError).Model().(gemmd.Problem).Detail)
}
