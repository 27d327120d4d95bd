// NVTX and CUDA corners in one program: domains, registered strings, start/end on one and two threads, marks, same-name nesting,
// a range left open, several threads, two processes on one GPU, graphs, managed memory, memsets, peer-less copies.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <thread>
#include <vector>
#include <cstdio>
#include <unistd.h>
#include <sys/wait.h>
__global__ void scale(float *x, int n, float f) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) for (int k = 0; k < 50; ++k) x[i] = x[i] * f + 0.5f; }
template <int N, typename T> __global__ void fill(T *x, int n) { int i = blockIdx.x * N + threadIdx.x; if (i < n) x[i] = T(N); }
static nvtxEventAttributes_t attr(const char *t) { nvtxEventAttributes_t a = {}; a.version = NVTX_VERSION; a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE; a.messageType = NVTX_MESSAGE_TYPE_ASCII; a.message.ascii = t; return a; }
void work(int who) {
  const int n = 1 << 20; float *d, *m; std::vector<float> h(n); cudaMalloc(&d, n * 4); cudaMallocManaged(&m, n * 4);
  cudaStream_t s, s2; cudaStreamCreate(&s); cudaStreamCreate(&s2);
  nvtxDomainHandle_t dom = nvtxDomainCreateA(who ? "other" : "mine");
  nvtxStringHandle_t reg = nvtxDomainRegisterStringA(dom, "registered");
  nvtxEventAttributes_t ra = {}; ra.version = NVTX_VERSION; ra.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE; ra.messageType = NVTX_MESSAGE_TYPE_REGISTERED; ra.message.registered = reg;
  nvtxRangePushA("work, all of it");
  for (int i = 0; i < 5; ++i) {
    nvtxRangePushA("iter"); nvtxMarkA("mark here");
    nvtxRangePushA("iter"); nvtxDomainRangePushEx(dom, &ra);
    cudaMemcpyAsync(d, h.data(), n * 4, cudaMemcpyHostToDevice, s);
    fill<256, float><<<n / 256, 256, 0, s>>>(d, n); scale<<<n / 256, 256, 0, s>>>(d, n, 1.01f);
    cudaMemsetAsync(m, 0, 4096 * (i + 1), s2); scale<<<64, 128, 0, s2>>>(m, 64 * 128, 0.9f);
    nvtxDomainRangePop(dom); nvtxRangePop();
    nvtxEventAttributes_t a = attr("start-end"); nvtxRangeId_t id = nvtxDomainRangeStartEx(dom, &a);
    cudaMemcpyAsync(h.data(), d, n * 4, cudaMemcpyDeviceToHost, s); cudaStreamSynchronize(s); cudaDeviceSynchronize();
    m[0] = 1; nvtxRangeId_t id2 = nvtxRangeStartA("cross thread"); 
    std::thread([=] { scale<<<8, 64>>>(m, 512, 1.f); nvtxRangeEnd(id2); }).join();
    nvtxDomainRangeEnd(dom, id); nvtxRangePop();
  }
  cudaGraph_t g; cudaGraphExec_t e; cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
  for (int i = 0; i < 3; ++i) scale<<<16, 64, 0, s>>>(d, 1024, 1.f); cudaMemsetAsync(d, 0, 4096, s);
  cudaStreamEndCapture(s, &g); cudaGraphInstantiate(&e, g, 0);
  nvtxRangePushA("graph"); for (int i = 0; i < 4; ++i) cudaGraphLaunch(e, s); nvtxRangePop();
  cudaStreamSynchronize(s); nvtxRangePop();
  nvtxRangePushA("left open"); nvtxRangeStartA("never ended"); scale<<<8, 64, 0, s>>>(d, 512, 1.f); cudaDeviceSynchronize();
}
int main() { pid_t c = fork(); work(c == 0); std::thread t(work, 2); t.join(); if (c) waitpid(c, 0, 0); return 0; }
