//! NVLink.

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceFreezeNvLinkUtilizationCounter(
    device: nvmlDevice_t,
    link: u32,
    counter: u32,
    freeze: nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetC2cModeInfoV(
    device: nvmlDevice_t,
    c2cModeInfo: *mut nvmlC2cModeInfo_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkCapability(
    device: nvmlDevice_t,
    link: u32,
    capability: nvmlNvLinkCapability_t,
    capResult: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkErrorCounter(
    device: nvmlDevice_t,
    link: u32,
    counter: nvmlNvLinkErrorCounter_t,
    counterValue: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkInfo(device: nvmlDevice_t, info: *mut nvmlNvLinkInfo_t) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkInfo_v3(device: nvmlDevice_t, info: *mut nvmlNvLinkInfo_v3_t) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkRemoteDeviceType(
    device: nvmlDevice_t,
    link: u32,
    pNvLinkDeviceType: *mut nvmlIntNvLinkDeviceType_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkRemotePciInfo(
    device: nvmlDevice_t,
    link: u32,
    pci: *mut nvmlPciInfo_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: nvmlDevice_t,
    link: u32,
    pci: *mut nvmlPciInfo_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkState(
    device: nvmlDevice_t,
    link: u32,
    isActive: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkTelemetrySamples_v1(
    device: nvmlDevice_t,
    samples: *mut nvmlNvlinkTelemetrySamples_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkUtilizationControl(
    device: nvmlDevice_t,
    link: u32,
    counter: u32,
    control: *mut nvmlNvLinkUtilizationControl_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkUtilizationCounter(
    device: nvmlDevice_t,
    link: u32,
    counter: u32,
    rxcounter: *mut u64,
    txcounter: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvLinkVersion(device: nvmlDevice_t, link: u32, version: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvlinkBwMode(
    device: nvmlDevice_t,
    getBwMode: *mut nvmlNvlinkGetBwMode_t,
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

#[unsupported("the server does not tell of its links one by one")]
fn nvmlDeviceGetNvlinkSupportedBwModes(
    device: nvmlDevice_t,
    supportedBwMode: *mut nvmlNvlinkSupportedBwModes_t,
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
