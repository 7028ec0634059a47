//! Metrics that are sampled.

#[unsupported("the server does not sample these metrics")]
fn nvmlDevicePerfMetricsGetSamples_v1(
    device: nvmlDevice_t,
    samples: *mut nvmlPerfMetricsSamples_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlDeviceReadPRMCounters_v1(
    device: nvmlDevice_t,
    counterList: *mut nvmlPRMCounterList_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlDeviceReadWritePRM_v1(device: nvmlDevice_t, buffer: *mut nvmlPRMTLV_v1_t) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlGpmMetricsGet(metricsGet: *mut nvmlGpmMetricsGet_t) -> nvmlReturn_t;

#[asked]
fn nvmlGpmQueryDeviceSupport(
    #[handle] device: nvmlDevice_t,
    #[versioned] gpmSupport: *mut nvmlGpmSupport_t,
) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlGpmQueryIfStreamingEnabled(device: nvmlDevice_t, state: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlGpmSampleAlloc(gpmSample: *mut nvmlGpmSample_t) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlGpmSampleFree(gpmSample: nvmlGpmSample_t) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlGpmSampleGet(device: nvmlDevice_t, gpmSample: nvmlGpmSample_t) -> nvmlReturn_t;

#[unsupported("the server does not sample these metrics")]
fn nvmlGpmSetStreamingEnabled(device: nvmlDevice_t, state: u32) -> nvmlReturn_t;
