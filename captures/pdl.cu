// Chains of two kernels on one stream, with and without programmatic dependent launch: `pdl 1` or `pdl 0`.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

__device__ void spin(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
__global__ void producer(float* values) {
    spin(20000);
    cudaTriggerProgrammaticLaunchCompletion();
    values[blockIdx.x * blockDim.x + threadIdx.x] += 1;
    spin(20000);
}
__global__ void consumer(float* values) {
    spin(10000);  // what needs nothing of the producer
    cudaGridDependencySynchronize();
    values[blockIdx.x * blockDim.x + threadIdx.x] *= 2;
    spin(20000);
}
int main(int count, char** given) {
    bool dependent = count > 1 && atoi(given[1]);
    float* values;
    cudaMalloc(&values, 64 * 128 * sizeof(float));
    cudaMemset(values, 0, 64 * 128 * sizeof(float));
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 64; config.blockDim = 128; config.stream = stream;
    for (int step = 0; step < 12; ++step) {
        for (int layer = 0; layer < 4; ++layer) {
            config.numAttrs = 0;
            cudaLaunchKernelEx(&config, producer, values);
            config.attrs = &early; config.numAttrs = dependent ? 1 : 0;
            cudaLaunchKernelEx(&config, consumer, values);
        }
        cudaStreamSynchronize(stream);
    }
    printf("%s\n", cudaGetErrorString(cudaGetLastError()));
}
