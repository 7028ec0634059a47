//! The functions that are there so that programs find them: counters, metrics, sampling, sessions
//! side by side. What a program is linked with must be found, or it does not start.
//!
//! The names are those of CUDA 12.9 and 13.5 together. Arguments are not looked at, so that none
//! are named.

use busbar_abi::cupti::{CUPTI_ERROR_NOT_SUPPORTED, CUptiResult};
use std::ffi::c_int;

macro_rules! refused {
    ($($name:ident)*) => {$(
        // SAFETY: the name is the API's own.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> CUptiResult {
            CUPTI_ERROR_NOT_SUPPORTED
        }
    )*};
}

refused! {
    cuptiActivityConfigurePCSampling
    cuptiActivityConfigureUnifiedMemoryCounter
    cuptiActivityDisable_v2
    cuptiActivityEnableAndDump_v2
    cuptiActivityEnableBufferSummary
    cuptiActivityEnableCudaEventDeviceTimestamps
    cuptiActivityEnableDeviceGraph
    cuptiActivityEnableDriverApi_v2
    cuptiActivityEnableHWTrace
    cuptiActivityEnableRawTimestamps_v2
    cuptiActivityEnableRuntimeApi_v2
    cuptiActivityEnable_v2
    cuptiActivityGetAttribute_v2
    cuptiActivityGetEnabledKinds
    cuptiActivityGetNextRecord_v2
    cuptiActivityGetNumDroppedRecords_v2
    cuptiActivityGetNvtxExtPayloadAttr
    cuptiActivityGetNvtxExtPayloadEntryTypeInfo
    cuptiActivityGetStructSize
    cuptiActivityPopExternalCorrelationId_v2
    cuptiActivityPushExternalCorrelationId_v2
    cuptiActivityRegisterCallbacks_v2
    cuptiActivitySetAttribute_v2
    cuptiClockControlGetStatus
    cuptiClockControlLock
    cuptiClockControlUnlock
    cuptiDeviceEnumEventDomains
    cuptiDeviceEnumMetrics
    cuptiDeviceGetAttribute
    cuptiDeviceGetChipName
    cuptiDeviceGetEventDomainAttribute
    cuptiDeviceGetNumEventDomains
    cuptiDeviceGetNumMetrics
    cuptiDeviceVirtualizationMode
    cuptiDisableKernelReplayMode
    cuptiDisableLibcuda
    cuptiDisableNonOverlappingMode
    cuptiEnableCigMode
    cuptiEnableKernelReplayMode
    cuptiEnableNonOverlappingMode
    cuptiEnumEventDomains
    cuptiEnumMetrics
    cuptiEventDomainEnumEvents
    cuptiEventDomainGetAttribute
    cuptiEventDomainGetNumEvents
    cuptiEventGetAttribute
    cuptiEventGetIdFromName
    cuptiEventGroupAddEvent
    cuptiEventGroupCreate
    cuptiEventGroupDestroy
    cuptiEventGroupDisable
    cuptiEventGroupEnable
    cuptiEventGroupGetAttribute
    cuptiEventGroupReadAllEvents
    cuptiEventGroupReadEvent
    cuptiEventGroupRemoveAllEvents
    cuptiEventGroupRemoveEvent
    cuptiEventGroupResetAllEvents
    cuptiEventGroupSetAttribute
    cuptiEventGroupSetDisable
    cuptiEventGroupSetEnable
    cuptiEventGroupSetsCreate
    cuptiEventGroupSetsDestroy
    cuptiGetAutoBoostState
    cuptiGetCubinCrc
    cuptiGetCudaEventId
    cuptiGetEnabledCallbacks
    cuptiGetGlobalCallbackState
    cuptiGetNumContexts
    cuptiGetNumEventDomains
    cuptiGetNumMetrics
    cuptiGetRecommendedBufferSize
    cuptiGetSassToSourceCorrelation
    cuptiGetTimestamp_v2
    cuptiIsTracingSessionRunning
    cuptiKernelReplaySubscribeUpdate
    cuptiMetricCreateEventGroupSets
    cuptiMetricEnumEvents
    cuptiMetricEnumProperties
    cuptiMetricGetAttribute
    cuptiMetricGetIdFromName
    cuptiMetricGetNumEvents
    cuptiMetricGetNumProperties
    cuptiMetricGetRequiredEventGroupSets
    cuptiMetricGetValue
    cuptiMetricGetValue2
    cuptiNvtxExtensionInitialize
    cuptiNvtxInitialize
    cuptiNvtxInitialize2
    cuptiOpenACCInitialize
    cuptiPCSamplingDisable
    cuptiPCSamplingEnable
    cuptiPCSamplingGetConfigurationAttribute
    cuptiPCSamplingGetData
    cuptiPCSamplingGetNumStallReasons
    cuptiPCSamplingGetStallReasons
    cuptiPCSamplingSetConfigurationAttribute
    cuptiPCSamplingStart
    cuptiPCSamplingStop
    cuptiPmSamplingCounterDataGetSampleInfo
    cuptiPmSamplingCounterDataImageInitialize
    cuptiPmSamplingDecodeData
    cuptiPmSamplingDisable
    cuptiPmSamplingEnable
    cuptiPmSamplingGetCounterAvailability
    cuptiPmSamplingGetCounterDataInfo
    cuptiPmSamplingGetCounterDataSize
    cuptiPmSamplingSetConfig
    cuptiPmSamplingStart
    cuptiPmSamplingStop
    cuptiProfilerBeginPass
    cuptiProfilerBeginSession
    cuptiProfilerCounterDataImageCalculateScratchBufferSize
    cuptiProfilerCounterDataImageCalculateSize
    cuptiProfilerCounterDataImageInitialize
    cuptiProfilerCounterDataImageInitializeScratchBuffer
    cuptiProfilerDeInitialize
    cuptiProfilerDeviceSupported
    cuptiProfilerDisableProfiling
    cuptiProfilerEnableProfiling
    cuptiProfilerEndPass
    cuptiProfilerEndSession
    cuptiProfilerFlushCounterData
    cuptiProfilerGetCounterAvailability
    cuptiProfilerHostConfigAddMetrics
    cuptiProfilerHostDeinitialize
    cuptiProfilerHostEvaluateToGpuValues
    cuptiProfilerHostGetBaseMetrics
    cuptiProfilerHostGetConfigImage
    cuptiProfilerHostGetConfigImageSize
    cuptiProfilerHostGetMaxNumHardwareMetricsPerPass
    cuptiProfilerHostGetMetricProperties
    cuptiProfilerHostGetMetricsInSinglePassSet
    cuptiProfilerHostGetNumOfPasses
    cuptiProfilerHostGetRangeName
    cuptiProfilerHostGetSinglePassSets
    cuptiProfilerHostGetSubMetrics
    cuptiProfilerHostGetSupportedChips
    cuptiProfilerHostInitialize
    cuptiProfilerHostSetDevicePartitionInfo
    cuptiProfilerInitialize
    cuptiProfilerIsPassCollected
    cuptiProfilerPopRange
    cuptiProfilerPushRange
    cuptiProfilerSetConfig
    cuptiProfilerUnsetConfig
    cuptiRangeProfilerCounterDataGetRangeInfo
    cuptiRangeProfilerCounterDataImageInitialize
    cuptiRangeProfilerDecodeData
    cuptiRangeProfilerDisable
    cuptiRangeProfilerEnable
    cuptiRangeProfilerGetCounterDataInfo
    cuptiRangeProfilerGetCounterDataSize
    cuptiRangeProfilerGetDevicePartitionInfo
    cuptiRangeProfilerPopRange
    cuptiRangeProfilerPushRange
    cuptiRangeProfilerSetConfig
    cuptiRangeProfilerStart
    cuptiRangeProfilerStop
    cuptiRegisterComputeCrcCallback
    cuptiSassMetricsDisable
    cuptiSassMetricsEnable
    cuptiSassMetricsFlushData
    cuptiSassMetricsGetDataProperties
    cuptiSassMetricsGetMetrics
    cuptiSassMetricsGetNumOfMetrics
    cuptiSassMetricsGetProperties
    cuptiSassMetricsSetConfig
    cuptiSassMetricsUnsetConfig
    cuptiSetEventCollectionMode
    cuptiStateQuery
    cuptiSubscribe_v2
}

/// Tools of OpenMP return whether they are to be told of anything: not so here.
macro_rules! no_tool {
    ($($name:ident)*) => {$(
        // SAFETY: the name is the API's own.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            0
        }
    )*};
}

no_tool! {
    cuptiOpenMpInitialize
    cuptiOpenMpInitialize_v2
}
