#include "kernels/cuda_error.h"

#include <cuda_runtime_api.h>

enum gemmd_error cuda_error_code(int cuda_error)
{
    switch (cuda_error) {
    case cudaSuccess:
        return GEMMD_OK;
    case cudaErrorMemoryAllocation:
        return GEMMD_ERR_OUT_OF_MEMORY;
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorExternalDevice:
    case cudaErrorMpsClientTerminated:
    case cudaErrorMpsServerNotReady:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorContextIsDestroyed:
    case cudaErrorCudartUnloading:
    case cudaErrorSystemNotReady:
    case cudaErrorNoDevice:
    case cudaErrorUnknown:
        return GEMMD_ERR_DEVICE_LOST;
    default:
        return GEMMD_ERR_INTERNAL;
    }
}
