// A galaxy of 16384 stars in 200 time steps, tiles of it in shared memory; prints its energy and a
// checksum.
//   nvcc -arch=native nbody.cu -o nbody && ./nbody
#include "check.h"
#include <cstdio>
#include <cstring>
#include <vector>

constexpr int N = 16384, STEPS = 200, TILE = 256;

__global__ void advance(const float4 *place, float4 *next, float4 *speed, float dt) {
  __shared__ float4 tile[TILE];
  int i = blockIdx.x * TILE + threadIdx.x;
  float4 me = place[i], pull = make_float4(0, 0, 0, 0);
  for (int first = 0; first < N; first += TILE) {
    tile[threadIdx.x] = place[first + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < TILE; j++) {
      float x = tile[j].x - me.x, y = tile[j].y - me.y, z = tile[j].z - me.z;
      float r = rsqrtf(x * x + y * y + z * z + 0.01f), f = tile[j].w * r * r * r;
      pull.x += f * x, pull.y += f * y, pull.z += f * z;
    }
    __syncthreads();
  }
  float4 v = speed[i];
  v.x += pull.x * dt, v.y += pull.y * dt, v.z += pull.z * dt;
  speed[i] = v;
  next[i] = make_float4(me.x + v.x * dt, me.y + v.y * dt, me.z + v.z * dt, me.w);
}

// The same numbers on every machine.
static float noise() {
  static unsigned s = 12345;
  s = s * 1664525u + 1013904223u;
  return float(s >> 8) / (1 << 24) - 0.5f;
}

int main() {
  std::vector<float4> place(N), speed(N, make_float4(0, 0, 0, 0));
  for (float4 &p : place) p = make_float4(noise(), noise(), noise(), 1.0f / N);
  float4 *a, *b, *v;
  size_t bytes = N * sizeof(float4);
  CHECK(cudaMalloc(&a, bytes));
  CHECK(cudaMalloc(&b, bytes));
  CHECK(cudaMalloc(&v, bytes));
  CHECK(cudaMemcpy(a, place.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(v, speed.data(), bytes, cudaMemcpyHostToDevice));
  for (int i = 0; i < STEPS; i++) {
    advance<<<N / TILE, TILE>>>(i % 2 ? b : a, i % 2 ? a : b, v, 0.005f);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaMemcpy(place.data(), STEPS % 2 ? b : a, bytes, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(speed.data(), v, bytes, cudaMemcpyDeviceToHost));
  double energy = 0;
  unsigned sum = 2166136261u;
  for (int i = 0; i < N; i++) {
    energy += 0.5 / N * (speed[i].x * speed[i].x + speed[i].y * speed[i].y
                         + speed[i].z * speed[i].z);
    unsigned words[4];
    memcpy(words, &place[i], sizeof words);
    for (unsigned word : words) sum = (sum ^ word) * 16777619u;
  }
  printf("kinetic energy %.9f, checksum %08x\n", energy, sum);
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(v));
}
