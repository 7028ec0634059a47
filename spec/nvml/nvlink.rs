//! NVLink.

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceFreezeNvLinkUtilizationCounter(
    device: nvmlDevice_t,
    link: u32,
    counter: u32,
    freeze: nvmlEnableState_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetC2cModeInfoV(
    #[handle] device: nvmlDevice_t,
    #[out] c2cModeInfo: *mut nvmlC2cModeInfo_v1_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkCapability(
    #[handle] device: nvmlDevice_t,
    link: u32,
    capability: nvmlNvLinkCapability_t,
    #[out] capResult: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkErrorCounter(
    #[handle] device: nvmlDevice_t,
    link: u32,
    counter: nvmlNvLinkErrorCounter_t,
    #[out] counterValue: *mut u64,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkInfo(
    #[handle] device: nvmlDevice_t,
    #[versioned] info: *mut nvmlNvLinkInfo_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkInfo_v3(device: nvmlDevice_t, info: *mut nvmlNvLinkInfo_v3_t) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkRemoteDeviceType(
    #[handle] device: nvmlDevice_t,
    link: u32,
    #[out] pNvLinkDeviceType: *mut nvmlIntNvLinkDeviceType_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkRemotePciInfo(
    device: nvmlDevice_t,
    link: u32,
    pci: *mut nvmlPciInfo_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    #[handle] device: nvmlDevice_t,
    link: u32,
    #[out] pci: *mut nvmlPciInfo_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkState(
    #[handle] device: nvmlDevice_t,
    link: u32,
    #[out] isActive: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkTelemetrySamples_v1(
    device: nvmlDevice_t,
    samples: *mut nvmlNvlinkTelemetrySamples_v1_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkUtilizationControl(
    #[handle] device: nvmlDevice_t,
    link: u32,
    counter: u32,
    #[out] control: *mut nvmlNvLinkUtilizationControl_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkUtilizationCounter(
    #[handle] device: nvmlDevice_t,
    link: u32,
    counter: u32,
    #[out] rxcounter: *mut u64,
    #[out] txcounter: *mut u64,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvLinkVersion(
    #[handle] device: nvmlDevice_t,
    link: u32,
    #[out] version: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvlinkBwMode(
    #[handle] device: nvmlDevice_t,
    #[versioned] getBwMode: *mut nvmlNvlinkGetBwMode_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvlinkNvlePrivateInfo_v1(
    device: nvmlDevice_t,
    privateInfo: *mut nvmlNvlinkNvlePrivateInfo_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvlinkRemapTableInfo_v1(
    device: nvmlDevice_t,
    remapTableInfo: *mut nvmlNvlinkGetRemapTableInfo_v1_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetNvlinkSupportedBwModes(
    #[handle] device: nvmlDevice_t,
    #[versioned] supportedBwMode: *mut nvmlNvlinkSupportedBwModes_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceLockNvlinkRemapTable_v1(
    device: nvmlDevice_t,
    remapTableLockInfo: *mut nvmlNvlinkLockRemapTable_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceResetNvLinkErrorCounters(device: nvmlDevice_t, link: u32) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceResetNvLinkUtilizationCounter(
    device: nvmlDevice_t,
    link: u32,
    counter: u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceSetNvLinkDeviceLowPowerThreshold(
    device: nvmlDevice_t,
    info: *mut nvmlNvLinkPowerThres_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceSetNvLinkUtilizationControl(
    device: nvmlDevice_t,
    link: u32,
    counter: u32,
    control: *mut nvmlNvLinkUtilizationControl_t,
    reset: u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceSetNvlinkBwMode(
    device: nvmlDevice_t,
    setBwMode: *mut nvmlNvlinkSetBwMode_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceSetNvlinkBwModeAsync_v1(
    device: nvmlDevice_t,
    setBwModeAsync: *mut nvmlNvlinkSetBwModeAsync_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceSetNvlinkNvleReady_v1(
    device: nvmlDevice_t,
    setNvleReady: *mut nvmlNvlinkSetNvleReady_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceSetupNvlinkNvleEncryptionKey_v1(
    device: nvmlDevice_t,
    encryptionKey: *mut nvmlNvlinkSetupNvleEncryptionKey_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlSystemGetNvlinkBwMode(nvlinkBwMode: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlSystemSetNvlinkBwMode(nvlinkBwMode: u32) -> nvmlReturn_t;
