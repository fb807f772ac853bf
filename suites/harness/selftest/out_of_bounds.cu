/* Writes one element past an array on the device: what `make check-sanitizer` must see before it believes in a clean
 * run. */
#include <cstdio>
#include <cuda_runtime.h>

__global__ void write_past_the_end_kernel(float *x, int n) {
    x[n] = 1;
}

int main() {
    enum { N = 64 };
    float *x = nullptr;
    cudaError_t code = cudaMalloc(&x, N * sizeof *x);
    if (code == cudaSuccess) {
        write_past_the_end_kernel<<<1, 1>>>(x, N);
        code = cudaDeviceSynchronize();
    }
    printf("%s\n", cudaGetErrorString(code));
    (void)cudaFree(x);
    return 0;
}
