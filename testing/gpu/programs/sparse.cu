// Sparse arrays, and arrays that are mapped later: their memory comes from the program.

#include <cuda.h>
#include <cstdio>
#include <cstring>

#include <vector>

static void told(const char *what, int rc) { printf("%s: %d\n", what, rc); }

__global__ void read_texels(cudaTextureObject_t t, float *out, int n) {
  int x = threadIdx.x;
  if (x < n) out[x] = tex2D<float4>(t, x + 0.5f, 0.5f).y;
}

static CUmemGenericAllocationHandle tiles(size_t size) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  CUmemGenericAllocationHandle memory = 0;
  told("memory for tiles", cuMemCreate(&memory, size, &prop, 0));
  return memory;
}

static CUarrayMapInfo entry(CUmipmappedArray array, CUmemGenericAllocationHandle memory, bool map) {
  CUarrayMapInfo e;
  memset(&e, 0, sizeof e);
  e.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  e.resource.mipmap = array;
  e.memOperationType = map ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
  e.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  e.memHandle.memHandle = memory;
  e.deviceBitMask = 1;
  return e;
}

static void properties(const char *what, int rc, const CUDA_ARRAY_SPARSE_PROPERTIES &p) {
  printf("%s: %d, tiles of %u %u %u, tail from %u of %llu, flags %u\n", what, rc,
         p.tileExtent.width, p.tileExtent.height, p.tileExtent.depth, p.miptailFirstLevel,
         p.miptailSize, p.flags);
}

// Rows of a level of four floats each, written and read.
static void rows(CUarray level, int width, int height, float first) {
  std::vector<float> out(4 * width * height), in(4 * width * height, -1.f);
  for (size_t i = 0; i < out.size(); i++) out[i] = first + i;
  CUDA_MEMCPY2D c = {};
  c.srcMemoryType = CU_MEMORYTYPE_HOST;
  c.srcHost = out.data();
  c.srcPitch = 16 * width;
  c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  c.dstArray = level;
  c.WidthInBytes = 16 * width;
  c.Height = height;
  told("write", cuMemcpy2D(&c));
  CUDA_MEMCPY2D d = {};
  d.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  d.srcArray = level;
  d.dstMemoryType = CU_MEMORYTYPE_HOST;
  d.dstHost = in.data();
  d.dstPitch = 16 * width;
  d.WidthInBytes = 16 * width;
  d.Height = height;
  told("read", cuMemcpy2D(&d));
  printf("the same: %d\n", in == out);
}

static void sparse() {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = 1024;
  shape.Height = 512;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  CUmipmappedArray array = nullptr;
  told("sparse levels", cuMipmappedArrayCreate(&array, &shape, 10));
  CUDA_ARRAY_SPARSE_PROPERTIES p = {};
  int rc = cuMipmappedArrayGetSparseProperties(&p, array);
  properties("properties", rc, p);
  CUstream stream;
  cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  size_t tile = 64 << 10;
  auto memory = tiles(2 << 20);
  auto e = entry(array, memory, true);
  e.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  e.subresource.sparseLevel.extentWidth = p.tileExtent.width;
  e.subresource.sparseLevel.extentHeight = p.tileExtent.height;
  e.subresource.sparseLevel.extentDepth = 1;
  auto tail = entry(array, memory, true);
  tail.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
  tail.subresource.miptail.size = p.miptailSize;
  tail.offset = 16 * tile;
  CUarrayMapInfo both[] = {e, tail};
  told("map a tile and the tail", cuMemMapArrayAsync(both, 2, stream));
  told("synchronize", cuStreamSynchronize(stream));
  CUarray level = nullptr;
  told("first level", cuMipmappedArrayGetLevel(&level, array, 0));
  rows(level, p.tileExtent.width, p.tileExtent.height, 1.f);
  // Through a texture.
  cudaResourceDesc r = {};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = (cudaArray_t)level;
  cudaTextureDesc how = {};
  how.readMode = cudaReadModeElementType;
  cudaTextureObject_t texture = 0;
  told("texture", cudaCreateTextureObject(&texture, &r, &how, nullptr));
  float *out = nullptr, seen[8] = {};
  cudaMalloc((void **)&out, sizeof seen);
  read_texels<<<1, 8>>>(texture, out, 8);
  told("kernel", cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost));
  for (float v : seen) printf(" %g", v);
  printf("\n");
  cudaDestroyTextureObject(texture);
  CUarray last = nullptr;
  told("last level", cuMipmappedArrayGetLevel(&last, array, 8));
  rows(last, 4, 2, 100.f);
  // What is wrong with an entry is said at once.
  auto wrong = e;
  wrong.offset = 12345;
  told("offset", cuMemMapArrayAsync(&wrong, 1, stream));
  wrong = e;
  wrong.resourceType = (CUresourcetype)7;
  told("resource", cuMemMapArrayAsync(&wrong, 1, stream));
  wrong = e;
  wrong.subresource.sparseLevel.level = 77;
  told("level", cuMemMapArrayAsync(&wrong, 1, stream));
  wrong = e;
  wrong.deviceBitMask = 0;
  told("no device", cuMemMapArrayAsync(&wrong, 1, stream));
  told("none", cuMemMapArrayAsync(&e, 0, stream));
  told("null", cuMemMapArrayAsync(nullptr, 1, stream));
  // Memory that is let go of is there as long as it is mapped.
  told("release", cuMemRelease(memory));
  rows(level, 8, 8, 7.f);
  auto off = entry(array, 0, false);
  off.subresourceType = e.subresourceType;
  off.subresource = e.subresource;
  told("unmap", cuMemMapArrayAsync(&off, 1, stream));
  told("synchronize", cuStreamSynchronize(stream));
  told("destroy", cuMipmappedArrayDestroy(array));
  cuStreamDestroy(stream);
}

static void deferred() {
  CUDA_ARRAY3D_DESCRIPTOR shape = {};
  shape.Width = 256;
  shape.Height = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  shape.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
  CUarray array = nullptr;
  int rc = cuArray3DCreate(&array, &shape);
  told("mapped later", rc);
  if (rc) return;
  CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {};
  rc = cuArrayGetMemoryRequirements(&needs, array, 0);
  printf("needs: %d, %zu of %zu\n", rc, needs.size, needs.alignment);
  auto memory = tiles(2 << 20);
  CUarrayMapInfo e;
  memset(&e, 0, sizeof e);
  e.resourceType = CU_RESOURCE_TYPE_ARRAY;
  e.resource.array = array;
  e.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  e.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  e.memHandle.memHandle = memory;
  e.deviceBitMask = 1;
  told("map", cuMemMapArrayAsync(&e, 1, nullptr));
  rows(array, 256, 64, 3.f);
  told("destroy", cuArrayDestroy(array));
  told("release", cuMemRelease(memory));
}

int main() {
  cudaFree(nullptr);
  for (int which : {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
                    CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED}) {
    int yes = -1;
    cuDeviceGetAttribute(&yes, (CUdevice_attribute)which, 0);
    printf("attribute %d: %d\n", which, yes);
  }
  sparse();
  deferred();
  printf("done: %d\n", (int)cudaDeviceSynchronize());
}
