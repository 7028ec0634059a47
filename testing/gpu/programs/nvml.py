"""nvidia-ml-py: what the library tells of the GPUs must be what it tells natively."""
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


nv.nvmlInit()
show("driver", nv.nvmlSystemGetDriverVersion)
show("cuda", nv.nvmlSystemGetCudaDriverVersion)
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
