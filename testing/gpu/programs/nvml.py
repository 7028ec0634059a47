"""nvidia-ml-py: what the library tells of the GPUs must be what it tells natively."""
import os

try:
    import pynvml as nv
except ImportError:
    print("skipped: no nvidia-ml-py here")
    raise SystemExit from None


def show(name, ask):
    """Prints an answer, or the error in its place."""
    try:
        print(name, ask())
    except nv.NVMLError as e:
        print(name, type(e).__name__)


def fields(structure):
    """What a structure holds, but for its version."""
    names = [f[0] for f in structure._fields_ if f[0] != "version"]
    return [(n, getattr(structure, n)) for n in names]


def device(h):
    show("name", lambda: nv.nvmlDeviceGetName(h))
    uuid = nv.nvmlDeviceGetUUID(h)
    print("uuid", uuid[:4], len(uuid))
    show("same device", lambda: nv.nvmlDeviceGetIndex(nv.nvmlDeviceGetHandleByUUID(uuid)))
    show("capability", lambda: nv.nvmlDeviceGetCudaComputeCapability(h))
    show("memory", lambda: nv.nvmlDeviceGetMemoryInfo(h).total)
    show("brand", lambda: nv.nvmlDeviceGetBrand(h))
    show("cores", lambda: nv.nvmlDeviceGetNumGpuCores(h))
    show("mig", lambda: nv.nvmlDeviceGetMigMode(h))
    show(
        "used", lambda: 0 < nv.nvmlDeviceGetMemoryInfo(h).used < nv.nvmlDeviceGetMemoryInfo(h).total
    )
    show("utilization", lambda: 0 <= nv.nvmlDeviceGetUtilizationRates(h).gpu <= 100)
    show("temperature", lambda: 0 < nv.nvmlDeviceGetTemperature(h, nv.NVML_TEMPERATURE_GPU) < 120)
    show("power", lambda: nv.nvmlDeviceGetPowerUsage(h) > 0)
    show("repair", lambda: fields(nv.nvmlDeviceGetRepairStatus(h)))
    show("encoder", lambda: [nv.nvmlDeviceGetEncoderCapacity(h, i) for i in range(2)])
    show("encoding", lambda: nv.nvmlDeviceGetEncoderStats(h))
    show("captures", lambda: fields(nv.nvmlDeviceGetFBCStats(h)))
    show("rows", lambda: nv.nvmlDeviceGetRemappedRows(h))
    show("histogram", lambda: fields(nv.nvmlDeviceGetRowRemapperHistogram(h)))
    show("attributes", lambda: fields(nv.nvmlDeviceGetAttributes_v2(h)))
    show("inforom", lambda: [nv.nvmlDeviceGetInforomVersion(h, i) for i in range(3)])
    show("memory clocks", lambda: nv.nvmlDeviceGetSupportedMemoryClocks(h))
    show("clocks", lambda: nv.nvmlDeviceGetSupportedGraphicsClocks(h, 2619))
    show("boost", lambda: [nv.nvmlDeviceGetMaxCustomerBoostClock(h, i) for i in range(4)])
    show("limits", lambda: nv.nvmlDeviceGetMinMaxClockOfPState(h, 0, 0))
    show("application", lambda: nv.nvmlDeviceGetClock(h, 0, 1))
    show("states", lambda: nv.nvmlDeviceGetSupportedPerformanceStates(h))
    states = nv.nvmlDeviceGetDynamicPstatesInfo
    show("dynamic", lambda: [u.bIsPresent for u in states(h).utilization])
    show("thermal", lambda: nv.nvmlDeviceGetThermalSettings(h, 15).count)
    show("addressing", lambda: fields(nv.nvmlDeviceGetAddressingMode(h)))
    show("gsp", lambda: (nv.nvmlDeviceGetGspFirmwareMode(h), nv.nvmlDeviceGetGspFirmwareVersion(h)))
    show("irq", lambda: nv.nvmlDeviceGetIrqNum(h) > 0)
    show("node", lambda: nv.nvmlDeviceGetNumaNodeId(h))
    show("module", lambda: nv.nvmlDeviceGetModuleId(h))
    show("throughput", lambda: nv.nvmlDeviceGetPcieThroughput(h, 0) >= 0)
    show("pages", lambda: nv.nvmlDeviceGetRetiredPages(h, 0))
    show("pending", lambda: nv.nvmlDeviceGetRetiredPagesPendingStatus(h))
    show("ecc", lambda: [nv.nvmlDeviceGetTotalEccErrors(h, i, 0) for i in range(2)])
    show("ecc counter", lambda: nv.nvmlDeviceGetMemoryErrorCounter(h, 0, 0, 2))
    show("violation", lambda: nv.nvmlDeviceGetViolationStatus(h, 0).violationTime >= 0)
    show("links", lambda: [nv.nvmlDeviceGetNvLinkState(h, i) for i in range(18)])
    show("link", lambda: nv.nvmlDeviceGetNvLinkVersion(h, 0))
    show("link can", lambda: [nv.nvmlDeviceGetNvLinkCapability(h, 0, i) for i in range(6)])
    show("c2c", lambda: fields(nv.nvmlDeviceGetC2cModeInfoV(h)))
    show("gpm", lambda: nv.nvmlGpmQueryDeviceSupport(h).isSupportedDevice)
    show("driver model", lambda: nv.nvmlDeviceGetDriverModel(h))
    show("margin", lambda: nv.nvmlDeviceGetMarginTemperature(h) > 0)
    show("performance", lambda: type(nv.nvmlDeviceGetPerformanceModes(h)).__name__)
    show("self", lambda: [nv.nvmlDeviceGetP2PStatus(h, h, i) for i in range(5)])
    asked = [nv.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, nv.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 9999]
    show(
        "fields",
        lambda: [
            (v.fieldId, v.nvmlReturn, v.valueType, v.timestamp > 0 or v.nvmlReturn)
            for v in nv.nvmlDeviceGetFieldValues(h, asked)
        ],
    )
    show("near", lambda: len(nv.nvmlDeviceGetTopologyNearestGpus(h, 0)))


nv.nvmlInit()
show("driver", nv.nvmlSystemGetDriverVersion)
show("cuda", nv.nvmlSystemGetCudaDriverVersion)
show("branch", lambda: nv.nvmlSystemGetDriverBranch().branch)
show("process", lambda: "python" in str(nv.nvmlSystemGetProcessName(os.getpid())))
show("count", nv.nvmlDeviceGetCount)
for i in range(nv.nvmlDeviceGetCount()):
    device(nv.nvmlDeviceGetHandleByIndex(i))
try:
    nv.nvmlDeviceGetHandleByIndex(999)
except nv.NVMLError as e:
    print("no such device:", e)
nv.nvmlShutdown()
try:
    nv.nvmlDeviceGetCount()
except nv.NVMLError as e:
    print("after the end:", e)
