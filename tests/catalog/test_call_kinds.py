"""Functions of CUDA and HIP are of the kind that an engineer would say, whatever version their names end with."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gpuledger.catalog.calls import CALL_KINDS, CallKind, call_kind

KINDS: dict[CallKind, str] = {
    CallKind.SYNC: """
        cudaDeviceSynchronize cudaStreamSynchronize cudaEventSynchronize cudaThreadSynchronize
        cuCtxSynchronize cuStreamSynchronize cuEventSynchronize
        hipDeviceSynchronize hipStreamSynchronize hipEventSynchronize hipCtxSynchronize
    """,
    CallKind.LAUNCH: """
        cudaLaunch cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel cudaGraphLaunch
        cudaLaunchCooperativeKernelMultiDevice
        cuLaunch cuLaunchGrid cuLaunchGridAsync cuLaunchKernel cuLaunchKernelEx cuLaunchCooperativeKernel cuGraphLaunch
        hipLaunchKernel hipLaunchKernelExC hipLaunchByPtr hipLaunchCooperativeKernel hipExtLaunchKernel
        hipExtLaunchMultiKernelMultiDevice
        hipModuleLaunchKernel hipExtModuleLaunchKernel hipHccModuleLaunchKernel hipModuleLaunchCooperativeKernel
        hipDrvLaunchKernelEx hipGraphLaunch
    """,
    CallKind.ALLOC: """
        cudaMalloc cudaMallocAsync cudaMallocFromPoolAsync cudaMallocManaged cudaMallocHost cudaMallocPitch cudaMalloc3D
        cudaMallocArray cudaHostAlloc cudaHostRegister cudaHostUnregister
        cudaFree cudaFreeAsync cudaFreeHost cudaFreeArray cudaMemPoolCreate cudaMemPoolDestroy cudaMemPoolTrimTo
        cuMemAlloc cuMemAllocAsync cuMemAllocHost cuMemAllocManaged cuMemHostAlloc cuMemFree cuMemFreeAsync
        cuMemFreeHost cuMemHostRegister cuMemHostUnregister cuArrayCreate cuArrayDestroy cuArray3DCreate
        cuMemPoolCreate cuMemCreate cuMemRelease cuMemMap cuMemUnmap cuMemSetAccess cuMemAddressReserve cuMemAddressFree
        hipMalloc hipMallocAsync hipMallocManaged hipMallocPitch hipExtMallocWithFlags hipHostMalloc hipHostAlloc
        hipHostFree hipHostRegister hipHostUnregister hipFree hipFreeAsync hipFreeHost hipFreeArray hipMemPoolCreate
        hipMemPoolTrimTo hipMemAllocHost hipMemCreate hipMemMap hipMemUnmap hipMemSetAccess hipMemAddressReserve
    """,
    CallKind.COPY_CALL: """
        cudaMemcpy cudaMemcpyAsync cudaMemcpy2DAsync cudaMemcpy3D cudaMemcpyPeerAsync cudaMemcpyToSymbolAsync
        cudaMemcpyBatchAsync cudaMemset cudaMemsetAsync cudaMemset2D cudaMemPrefetchAsync
        cuMemcpyHtoD cuMemcpyDtoHAsync cuMemcpyDtoDAsync cuMemcpyPeer cuMemsetD8Async cuMemsetD32 cuMemPrefetchAsync
        hipMemcpy hipMemcpyAsync hipMemcpyWithStream hipMemcpyHtoD hipMemcpyDtoHAsync hipMemcpy2DAsync
        hipDrvMemcpy3DAsync hipMemcpyPeerAsync hipMemset hipMemsetAsync hipMemsetD32Async hipMemPrefetchAsync
    """,
    CallKind.LOAD: """
        cudaFuncSetAttribute cudaFuncGetAttributes cudaFuncSetCacheConfig cudaGetFuncBySymbol cudaGetSymbolAddress
        cudaLibraryLoadData cudaLibraryGetKernel cudaGraphInstantiate cudaGraphInstantiateWithFlags cudaGraphExecUpdate
        cudaGraphUpload
        cuModuleLoad cuModuleLoadData cuModuleLoadDataEx cuModuleLoadFatBinary cuModuleGetFunction cuModuleGetGlobal
        cuModuleUnload cuLibraryLoadData cuLibraryGetKernel cuKernelGetFunction cuKernelSetAttribute cuFuncSetAttribute
        cuFuncLoad cuLinkCreate cuLinkAddData cuLinkComplete cuGraphInstantiateWithParams
        hipModuleLoad hipModuleLoadData hipModuleLoadDataEx hipModuleGetFunction hipModuleGetGlobal hipModuleUnload
        hipFuncSetAttribute hipFuncGetAttributes hipGraphInstantiate hipGraphInstantiateWithFlags hipGraphExecUpdate
        __hipRegisterFatBinary hiprtcCompileProgram
    """,
    CallKind.CONTEXT: """
        cuInit cuCtxCreate cuDevicePrimaryCtxRetain cuDevicePrimaryCtxReset cudaInitDevice cudaDeviceReset
        hipInit hipCtxCreate hipDevicePrimaryCtxRetain hipDeviceReset
    """,
    CallKind.CALL: """
        cudaLaunchHostFunc cuLaunchHostFunc hipLaunchHostFunc cudaStreamWaitEvent cuStreamWaitEvent hipStreamWaitEvent
        cuStreamWaitValue32 hipStreamWaitValue64 cudaEventRecord cudaEventRecordWithFlags hipEventRecord
        cudaEventQuery cudaStreamQuery hipEventQuery cudaStreamIsCapturing cudaStreamBeginCapture cudaStreamEndCapture
        cudaGetDevice cudaSetDevice hipGetDevice hipSetDevice cudaGetLastError hipGetLastError cudaMemGetInfo
        hipMemGetInfo cudaMemAdvise cuMemGetAllocationGranularity cudaPointerGetAttributes hipPointerGetAttribute
        cudaStreamSetAttribute cudaGraphAddKernelNode cudaGraphAddMemcpyNode cudaGraphAddMemAllocNode
        cudaGraphKernelNodeSetAttribute cudaGraphExecMemcpyNodeSetParams hipGraphAddMemsetNode cudaGraphDestroy
        cuKernelGetName cuKernelGetAttribute cuModuleGetLoadingMode cuGetProcAddress
        cudaOccupancyMaxActiveBlocksPerMultiprocessor hipGetDevicePropertiesR0600 cudaHostGetDevicePointer
    """,
}

SUFFIXES = ("", "_v3020", "_v7000", "_v10000", "_v2", "_ptsz", "_ptds", "_v7000_ptsz", "_spt")


def test_functions_are_of_their_kind_in_every_version() -> None:
    wrong = {
        name + suffix: (kind, call_kind(name + suffix))
        for kind, names in KINDS.items()
        for name in names.split()
        for suffix in (SUFFIXES if not name.endswith("Init") else ("",))
        if call_kind(name + suffix) is not kind
    }
    assert wrong == {}


def test_amd_and_nvidia_name_the_same_things_alike() -> None:
    """A function of CUDA's runtime that HIP has too is of the same kind there."""
    runtime = {name for names in KINDS.values() for name in names.split() if name.startswith("cuda")}
    unlike = {name for name in runtime if call_kind(name) is not call_kind(re.sub("^cuda", "hip", name))}
    assert unlike == set()


@given(st.text())
def test_any_text_is_of_some_kind(name: str) -> None:
    assert call_kind(name) in CALL_KINDS
