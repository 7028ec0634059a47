//! One device.

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetAPIRestriction(
    device: nvmlDevice_t,
    apiType: nvmlRestrictedAPI_t,
    isRestricted: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetAddressingMode(
    device: nvmlDevice_t,
    mode: *mut nvmlDeviceAddressingMode_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetArchitecture(
    device: nvmlDevice_t,
    arch: *mut nvmlDeviceArchitecture_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetBAR1MemoryInfo(
    device: nvmlDevice_t,
    bar1Memory: *mut nvmlBAR1Memory_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetBBXTimeData_v1(
    device: nvmlDevice_t,
    timeData: *mut nvmlBBXTimeData_v1_t,
) -> nvmlReturn_t;

#[is(fixed(device, Number::Board, boardId))]
fn nvmlDeviceGetBoardId(device: nvmlDevice_t, boardId: *mut u32) -> nvmlReturn_t;

#[is(text(device, "part", partNumber, length))]
fn nvmlDeviceGetBoardPartNumber(
    device: nvmlDevice_t,
    partNumber: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[is(fixed(device, Number::Brand, r#type))]
fn nvmlDeviceGetBrand(device: nvmlDevice_t, r#type: *mut nvmlBrandType_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetBridgeChipInfo(
    device: nvmlDevice_t,
    bridgeHierarchy: *mut nvmlBridgeChipHierarchy_t,
) -> nvmlReturn_t;

#[is(fixed(device, Number::BusType, r#type))]
fn nvmlDeviceGetBusType(device: nvmlDevice_t, r#type: *mut nvmlBusType_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetCapabilities(
    device: nvmlDevice_t,
    caps: *mut nvmlDeviceCapabilities_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetComputeMode(device: nvmlDevice_t, mode: *mut nvmlComputeMode_t) -> nvmlReturn_t;

#[unsupported("processors and memory of the server mean nothing to this machine")]
fn nvmlDeviceGetCpuAffinity(
    device: nvmlDevice_t,
    cpuSetSize: u32,
    cpuSet: *mut u64,
) -> nvmlReturn_t;

#[unsupported("processors and memory of the server mean nothing to this machine")]
fn nvmlDeviceGetCpuAffinityWithinScope(
    device: nvmlDevice_t,
    cpuSetSize: u32,
    cpuSet: *mut u64,
    scope: nvmlAffinityScope_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetCudaComputeCapability(
    device: nvmlDevice_t,
    major: *mut i32,
    minor: *mut i32,
) -> nvmlReturn_t;

#[is(live(device, Number::PcieGeneration, currLinkGen))]
fn nvmlDeviceGetCurrPcieLinkGeneration(device: nvmlDevice_t, currLinkGen: *mut u32) -> nvmlReturn_t;

#[is(live(device, Number::PcieWidth, currLinkWidth))]
fn nvmlDeviceGetCurrPcieLinkWidth(device: nvmlDevice_t, currLinkWidth: *mut u32) -> nvmlReturn_t;

#[is(live_two(device, [Number::DecoderBusy, Number::DecoderPeriod], utilization, samplingPeriodUs))]
fn nvmlDeviceGetDecoderUtilization(
    device: nvmlDevice_t,
    utilization: *mut u32,
    samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[is(fixed(device, Number::DisplayActive, isActive))]
fn nvmlDeviceGetDisplayActive(
    device: nvmlDevice_t,
    isActive: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[is(fixed(device, Number::Display, display))]
fn nvmlDeviceGetDisplayMode(device: nvmlDevice_t, display: *mut nvmlEnableState_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetDriverModel(
    device: nvmlDevice_t,
    current: *mut nvmlDriverModel_t,
    pending: *mut nvmlDriverModel_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetDriverModel_v2(
    device: nvmlDevice_t,
    current: *mut nvmlDriverModel_t,
    pending: *mut nvmlDriverModel_t,
) -> nvmlReturn_t;

#[is(live_two(device, [Number::EncoderBusy, Number::EncoderPeriod], utilization, samplingPeriodUs))]
fn nvmlDeviceGetEncoderUtilization(
    device: nvmlDevice_t,
    utilization: *mut u32,
    samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetFieldValues(
    device: nvmlDevice_t,
    valuesCount: i32,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetGpuFabricInfo(
    device: nvmlDevice_t,
    gpuFabricInfo: *mut nvmlGpuFabricInfo_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetGpuFabricInfoV(
    device: nvmlDevice_t,
    gpuFabricInfo: *mut nvmlGpuFabricInfoV_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGpuFabricInfo_v4(
    device: nvmlDevice_t,
    gpuFabricInfo: *mut nvmlGpuFabricInfo_v4_t,
) -> nvmlReturn_t;

#[is(fixed(device, Number::PcieGpuMaxGeneration, maxLinkGenDevice))]
fn nvmlDeviceGetGpuMaxPcieLinkGeneration(
    device: nvmlDevice_t,
    maxLinkGenDevice: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGpuOperationMode(
    device: nvmlDevice_t,
    current: *mut nvmlGpuOperationMode_t,
    pending: *mut nvmlGpuOperationMode_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGpuUptime_v1(device: nvmlDevice_t, uptime: *mut nvmlGpuUptime_v1_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGspFirmwareMode(
    device: nvmlDevice_t,
    isEnabled: *mut u32,
    defaultMode: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGspFirmwareVersion(device: nvmlDevice_t, version: *mut c_char) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetHostname_v1(device: nvmlDevice_t, hostname: *mut nvmlHostname_v1_t) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetIndex(device: nvmlDevice_t, index: *mut u32) -> nvmlReturn_t;

#[is(fixed(device, Number::InforomChecksum, checksum))]
fn nvmlDeviceGetInforomConfigurationChecksum(
    device: nvmlDevice_t,
    checksum: *mut u32,
) -> nvmlReturn_t;

#[is(text(device, "inforom", version, length))]
fn nvmlDeviceGetInforomImageVersion(
    device: nvmlDevice_t,
    version: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetInforomVersion(
    device: nvmlDevice_t,
    object: nvmlInforomObject_t,
    version: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetIrqNum(device: nvmlDevice_t, irqNum: *mut u32) -> nvmlReturn_t;

#[is(live_two(device, [Number::JpegBusy, Number::JpegPeriod], utilization, samplingPeriodUs))]
fn nvmlDeviceGetJpgUtilization(
    device: nvmlDevice_t,
    utilization: *mut u32,
    samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetLastBBXFlushTime(
    device: nvmlDevice_t,
    timestamp: *mut u64,
    durationUs: *mut u64,
) -> nvmlReturn_t;

#[is(fixed(device, Number::PcieMaxGeneration, maxLinkGen))]
fn nvmlDeviceGetMaxPcieLinkGeneration(device: nvmlDevice_t, maxLinkGen: *mut u32) -> nvmlReturn_t;

#[is(fixed(device, Number::PcieMaxWidth, maxLinkWidth))]
fn nvmlDeviceGetMaxPcieLinkWidth(device: nvmlDevice_t, maxLinkWidth: *mut u32) -> nvmlReturn_t;

#[unsupported("processors and memory of the server mean nothing to this machine")]
fn nvmlDeviceGetMemoryAffinity(
    device: nvmlDevice_t,
    nodeSetSize: u32,
    nodeSet: *mut u64,
    scope: nvmlAffinityScope_t,
) -> nvmlReturn_t;

#[is(fixed(device, Number::MemoryBusWidth, busWidth))]
fn nvmlDeviceGetMemoryBusWidth(device: nvmlDevice_t, busWidth: *mut u32) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetMemoryInfo(device: nvmlDevice_t, memory: *mut nvmlMemory_t) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, memory: *mut nvmlMemory_v2_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMemoryLimits_v1(
    device: nvmlDevice_t,
    limits: *mut nvmlGetMemoryLimits_v1_t,
) -> nvmlReturn_t;

#[is(fixed(device, Number::Minor, minorNumber))]
fn nvmlDeviceGetMinorNumber(device: nvmlDevice_t, minorNumber: *mut u32) -> nvmlReturn_t;

#[is(fixed(device, Number::Module, moduleId))]
fn nvmlDeviceGetModuleId(device: nvmlDevice_t, moduleId: *mut u32) -> nvmlReturn_t;

#[is(fixed(device, Number::MultiGpuBoard, multiGpuBool))]
fn nvmlDeviceGetMultiGpuBoard(device: nvmlDevice_t, multiGpuBool: *mut u32) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetName(device: nvmlDevice_t, name: *mut c_char, length: u32) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetNumGpuCores(device: nvmlDevice_t, numCores: *mut u32) -> nvmlReturn_t;

#[unsupported("processors and memory of the server mean nothing to this machine")]
fn nvmlDeviceGetNumaNodeId(device: nvmlDevice_t, node: *mut u32) -> nvmlReturn_t;

#[is(live_two(device, [Number::FlowBusy, Number::FlowPeriod], utilization, samplingPeriodUs))]
fn nvmlDeviceGetOfaUtilization(
    device: nvmlDevice_t,
    utilization: *mut u32,
    samplingPeriodUs: *mut u32,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetPciInfo(device: nvmlDevice_t, pci: *mut nvmlPciInfoOld_t) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetPciInfoExt(device: nvmlDevice_t, pci: *mut nvmlPciInfoExt_t) -> nvmlReturn_t;

#[is(nvmlDeviceGetPciInfo)]
fn nvmlDeviceGetPciInfo_v2(device: nvmlDevice_t, pci: *mut nvmlPciInfoOld_t) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetPciInfo_v3(device: nvmlDevice_t, pci: *mut nvmlPciInfo_t) -> nvmlReturn_t;

#[is(fixed(device, Number::PcieMaxSpeed, maxSpeed))]
fn nvmlDeviceGetPcieLinkMaxSpeed(device: nvmlDevice_t, maxSpeed: *mut u32) -> nvmlReturn_t;

#[is(live(device, Number::PcieReplays, value))]
fn nvmlDeviceGetPcieReplayCounter(device: nvmlDevice_t, value: *mut u32) -> nvmlReturn_t;

#[is(live(device, Number::PcieSpeed, pcieSpeed))]
fn nvmlDeviceGetPcieSpeed(device: nvmlDevice_t, pcieSpeed: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPcieThroughput(
    device: nvmlDevice_t,
    counter: nvmlPcieUtilCounter_t,
    value: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPdi(device: nvmlDevice_t, pdi: *mut nvmlPdi_t) -> nvmlReturn_t;

#[is(fixed(device, Number::Persistence, mode))]
fn nvmlDeviceGetPersistenceMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPlatformInfo(
    device: nvmlDevice_t,
    platformInfo: *mut nvmlPlatformInfo_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetSamples(
    device: nvmlDevice_t,
    r#type: nvmlSamplingType_t,
    lastSeenTimeStamp: u64,
    sampleValType: *mut nvmlValueType_t,
    sampleCount: *mut u32,
    samples: *mut nvmlSample_t,
) -> nvmlReturn_t;

#[is(text(device, "serial", serial, length))]
fn nvmlDeviceGetSerial(device: nvmlDevice_t, serial: *mut c_char, length: u32) -> nvmlReturn_t;

#[is(live(device, Number::Energy, energy))]
fn nvmlDeviceGetTotalEnergyConsumption(device: nvmlDevice_t, energy: *mut u64) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetUUID(device: nvmlDevice_t, uuid: *mut c_char, length: u32) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetUtilizationRates(
    device: nvmlDevice_t,
    utilization: *mut nvmlUtilization_t,
) -> nvmlReturn_t;

#[is(text(device, "vbios", version, length))]
fn nvmlDeviceGetVbiosVersion(
    device: nvmlDevice_t,
    version: *mut c_char,
    length: u32,
) -> nvmlReturn_t;
