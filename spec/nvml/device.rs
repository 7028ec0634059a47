//! One device.

#[asked]
fn nvmlDeviceGetAPIRestriction(
    #[handle] device: nvmlDevice_t,
    apiType: nvmlRestrictedAPI_t,
    #[out] isRestricted: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetAddressingMode(
    #[handle] device: nvmlDevice_t,
    #[versioned] mode: *mut nvmlDeviceAddressingMode_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetArchitecture(
    #[handle] device: nvmlDevice_t,
    #[out] arch: *mut nvmlDeviceArchitecture_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetBAR1MemoryInfo(
    #[handle] device: nvmlDevice_t,
    #[out] bar1Memory: *mut nvmlBAR1Memory_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetBBXTimeData_v1(
    device: nvmlDevice_t,
    timeData: *mut nvmlBBXTimeData_v1_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Board))]
fn nvmlDeviceGetBoardId(#[handle] device: nvmlDevice_t, #[out] boardId: *mut u32) -> nvmlReturn_t;

#[cx] #[is(text(device.facts.texts.get("part"), partNumber, length))]
fn nvmlDeviceGetBoardPartNumber(
    #[handle] device: nvmlDevice_t,
    partNumber: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Brand))]
fn nvmlDeviceGetBrand(
    #[handle] device: nvmlDevice_t,
    #[out] r#type: *mut nvmlBrandType_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetBridgeChipInfo(
    #[handle] device: nvmlDevice_t,
    #[out] bridgeHierarchy: *mut nvmlBridgeChipHierarchy_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::BusType))]
fn nvmlDeviceGetBusType(
    #[handle] device: nvmlDevice_t,
    #[out] r#type: *mut nvmlBusType_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetCapabilities(
    #[handle] device: nvmlDevice_t,
    #[versioned] caps: *mut nvmlDeviceCapabilities_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetComputeMode(
    #[handle] device: nvmlDevice_t,
    #[out] mode: *mut nvmlComputeMode_t,
) -> nvmlReturn_t;

#[cx] #[is(affinity(device, "cpu", (cpuSet, cpuSetSize), 0))]
#[family(affinity)]
fn nvmlDeviceGetCpuAffinity(
    #[handle] device: nvmlDevice_t,
    cpuSetSize: u32,
    cpuSet: *mut u64,
) -> nvmlReturn_t;

#[cx] #[is(affinity(device, "cpu", (cpuSet, cpuSetSize), scope))]
#[family(affinity)]
fn nvmlDeviceGetCpuAffinityWithinScope(
    #[handle] device: nvmlDevice_t,
    cpuSetSize: u32,
    cpuSet: *mut u64,
    scope: nvmlAffinityScope_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetCudaComputeCapability(
    #[handle] device: nvmlDevice_t,
    #[out] major: *mut i32,
    #[out] minor: *mut i32,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::PcieGeneration))]
fn nvmlDeviceGetCurrPcieLinkGeneration(
    #[handle] device: nvmlDevice_t,
    #[out] currLinkGen: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::PcieWidth))]
fn nvmlDeviceGetCurrPcieLinkWidth(
    #[handle] device: nvmlDevice_t,
    #[out] currLinkWidth: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(live_two(device, [Number::DecoderBusy, Number::DecoderPeriod]))]
fn nvmlDeviceGetDecoderUtilization(
    #[handle] device: nvmlDevice_t,
    #[out] utilization: *mut u32,
    #[out] samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::DisplayActive))]
fn nvmlDeviceGetDisplayActive(
    #[handle] device: nvmlDevice_t,
    #[out] isActive: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Display))]
fn nvmlDeviceGetDisplayMode(
    #[handle] device: nvmlDevice_t,
    #[out] display: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetDriverModel(
    #[handle] device: nvmlDevice_t,
    #[out] current: *mut nvmlDriverModel_t,
    #[out] pending: *mut nvmlDriverModel_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetDriverModel_v2(
    #[handle] device: nvmlDevice_t,
    #[out] current: *mut nvmlDriverModel_t,
    #[out] pending: *mut nvmlDriverModel_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetEncoderCapacity(
    #[handle] device: nvmlDevice_t,
    encoderQueryType: nvmlEncoderType_t,
    #[out] encoderCapacity: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetEncoderStats(
    #[handle] device: nvmlDevice_t,
    #[out] sessionCount: *mut u32,
    #[out] averageFps: *mut u32,
    #[out] averageLatency: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(live_two(device, [Number::EncoderBusy, Number::EncoderPeriod]))]
fn nvmlDeviceGetEncoderUtilization(
    #[handle] device: nvmlDevice_t,
    #[out] utilization: *mut u32,
    #[out] samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[asked] #[cx]
fn nvmlDeviceGetFieldValues(
    #[handle] device: nvmlDevice_t,
    valuesCount: i32,
    #[out_array(valuesCount)] values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetFBCStats(
    #[handle] device: nvmlDevice_t,
    #[out] fbcStats: *mut nvmlFBCStats_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetGpuFabricInfo(
    #[handle] device: nvmlDevice_t,
    #[out] gpuFabricInfo: *mut nvmlGpuFabricInfo_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetGpuFabricInfoV(
    #[handle] device: nvmlDevice_t,
    gpuFabricInfo: *mut nvmlGpuFabricInfoV_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGpuFabricInfo_v4(
    device: nvmlDevice_t,
    gpuFabricInfo: *mut nvmlGpuFabricInfo_v4_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PcieGpuMaxGeneration))]
fn nvmlDeviceGetGpuMaxPcieLinkGeneration(
    #[handle] device: nvmlDevice_t,
    #[out] maxLinkGenDevice: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetGpuOperationMode(
    #[handle] device: nvmlDevice_t,
    #[out] current: *mut nvmlGpuOperationMode_t,
    #[out] pending: *mut nvmlGpuOperationMode_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGpuUptime_v1(device: nvmlDevice_t, uptime: *mut nvmlGpuUptime_v1_t) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetGspFirmwareMode(
    #[handle] device: nvmlDevice_t,
    #[out] isEnabled: *mut u32,
    #[out] defaultMode: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetGspFirmwareVersion(
    #[handle] device: nvmlDevice_t,
    #[out_array(80)] version: *mut c_char,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetHostname_v1(device: nvmlDevice_t, hostname: *mut nvmlHostname_v1_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetIndex(#[handle] device: nvmlDevice_t, #[out] index: *mut u32) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::InforomChecksum))]
fn nvmlDeviceGetInforomConfigurationChecksum(
    #[handle] device: nvmlDevice_t,
    #[out] checksum: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(text(device.facts.texts.get("inforom"), version, length))]
fn nvmlDeviceGetInforomImageVersion(
    #[handle] device: nvmlDevice_t,
    version: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetInforomVersion(
    #[handle] device: nvmlDevice_t,
    object: nvmlInforomObject_t,
    #[out_array(length)] version: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetIrqNum(#[handle] device: nvmlDevice_t, #[out] irqNum: *mut u32) -> nvmlReturn_t;

#[cx] #[is(live_two(device, [Number::JpegBusy, Number::JpegPeriod]))]
fn nvmlDeviceGetJpgUtilization(
    #[handle] device: nvmlDevice_t,
    #[out] utilization: *mut u32,
    #[out] samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetLastBBXFlushTime(
    #[handle] device: nvmlDevice_t,
    #[out] timestamp: *mut u64,
    #[out] durationUs: *mut u64,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PcieMaxGeneration))]
fn nvmlDeviceGetMaxPcieLinkGeneration(
    #[handle] device: nvmlDevice_t,
    #[out] maxLinkGen: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PcieMaxWidth))]
fn nvmlDeviceGetMaxPcieLinkWidth(
    #[handle] device: nvmlDevice_t,
    #[out] maxLinkWidth: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(affinity(device, "node", (nodeSet, nodeSetSize), scope))]
#[family(affinity)]
fn nvmlDeviceGetMemoryAffinity(
    #[handle] device: nvmlDevice_t,
    nodeSetSize: u32,
    nodeSet: *mut u64,
    scope: nvmlAffinityScope_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::MemoryBusWidth))]
fn nvmlDeviceGetMemoryBusWidth(
    #[handle] device: nvmlDevice_t,
    #[out] busWidth: *mut u32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetMemoryInfo(
    #[handle] device: nvmlDevice_t,
    #[out] memory: *mut nvmlMemory_t,
) -> nvmlReturn_t;

#[asked(whole)] #[cx]
fn nvmlDeviceGetMemoryInfo_v2(
    #[handle] device: nvmlDevice_t,
    #[versioned] memory: *mut nvmlMemory_v2_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMemoryLimits_v1(
    device: nvmlDevice_t,
    limits: *mut nvmlGetMemoryLimits_v1_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Minor))]
fn nvmlDeviceGetMinorNumber(
    #[handle] device: nvmlDevice_t,
    #[out] minorNumber: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Module))]
fn nvmlDeviceGetModuleId(#[handle] device: nvmlDevice_t, #[out] moduleId: *mut u32) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::MultiGpuBoard))]
fn nvmlDeviceGetMultiGpuBoard(
    #[handle] device: nvmlDevice_t,
    #[out] multiGpuBool: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(text(Some(&device.facts.name), name, length))]
fn nvmlDeviceGetName(
    #[handle] device: nvmlDevice_t,
    name: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetNumGpuCores(
    #[handle] device: nvmlDevice_t,
    #[out] numCores: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNumaNodeId(#[handle] device: nvmlDevice_t, #[out] node: *mut u32) -> nvmlReturn_t;

#[cx] #[is(live_two(device, [Number::FlowBusy, Number::FlowPeriod]))]
fn nvmlDeviceGetOfaUtilization(
    #[handle] device: nvmlDevice_t,
    #[out] utilization: *mut u32,
    #[out] samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetPciInfo(
    #[handle] device: nvmlDevice_t,
    #[out] pci: *mut nvmlPciInfoOld_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetPciInfoExt(
    #[handle] device: nvmlDevice_t,
    pci: *mut nvmlPciInfoExt_t,
) -> nvmlReturn_t;

#[is(nvmlDeviceGetPciInfo)]
fn nvmlDeviceGetPciInfo_v2(device: nvmlDevice_t, pci: *mut nvmlPciInfoOld_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetPciInfo_v3(
    #[handle] device: nvmlDevice_t,
    #[out] pci: *mut nvmlPciInfo_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PcieMaxSpeed))]
fn nvmlDeviceGetPcieLinkMaxSpeed(
    #[handle] device: nvmlDevice_t,
    #[out] maxSpeed: *mut u32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetPcieReplayCounter(
    #[handle] device: nvmlDevice_t,
    #[out] value: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::PcieSpeed))]
fn nvmlDeviceGetPcieSpeed(
    #[handle] device: nvmlDevice_t,
    #[out] pcieSpeed: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetPcieThroughput(
    #[handle] device: nvmlDevice_t,
    counter: nvmlPcieUtilCounter_t,
    #[out] value: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetPdi(
    #[handle] device: nvmlDevice_t,
    #[versioned] pdi: *mut nvmlPdi_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Persistence))]
fn nvmlDeviceGetPersistenceMode(
    #[handle] device: nvmlDevice_t,
    #[out] mode: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetPlatformInfo(
    #[handle] device: nvmlDevice_t,
    #[versioned] platformInfo: *mut nvmlPlatformInfo_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetSamples(
    #[handle] device: nvmlDevice_t,
    r#type: nvmlSamplingType_t,
    lastSeenTimeStamp: u64,
    #[out] sampleValType: *mut nvmlValueType_t,
    #[out] sampleCount: *mut u32,
    #[out_array(sampleCount)] samples: *mut nvmlSample_t,
) -> nvmlReturn_t;

#[cx] #[is(text(device.facts.texts.get("serial"), serial, length))]
fn nvmlDeviceGetSerial(
    #[handle] device: nvmlDevice_t,
    serial: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetTotalEnergyConsumption(
    #[handle] device: nvmlDevice_t,
    #[out] energy: *mut u64,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetUUID(
    #[handle] device: nvmlDevice_t,
    uuid: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetUtilizationRates(
    #[handle] device: nvmlDevice_t,
    #[out] utilization: *mut nvmlUtilization_t,
) -> nvmlReturn_t;

#[cx] #[is(text(device.facts.texts.get("vbios"), version, length))]
fn nvmlDeviceGetVbiosVersion(
    #[handle] device: nvmlDevice_t,
    version: *mut c_char,
    length: u32,
) -> nvmlReturn_t;
