// Checkpoints of this process and of another, by CUDA's own functions; and what can be set of core
// dumps.

#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

__global__ void add(int *p, int n, int k) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] += k;
}

__global__ void spin(long long n) {
  long long t = clock64();
  while (clock64() - t < n) {}
}

static const int N = 64 << 20;

static void state(int pid) {
  CUprocessState s = (CUprocessState)-1;
  int rc = cuCheckpointProcessGetState(pid, &s);
  printf(" -> %d, state %d\n", rc, (int)s);
}

static void step(const char *name, int pid, int rc) {
  printf("%s: %d", name, rc);
  state(pid);
}

// What is refused, and what is not.
static void codes(int pid) {
  CUcheckpointLockArgs lock = {};
  lock.timeoutMs = 5000;
  step("unlock", pid, cuCheckpointProcessUnlock(pid, nullptr));
  step("checkpoint", pid, cuCheckpointProcessCheckpoint(pid, nullptr));
  step("restore", pid, cuCheckpointProcessRestore(pid, nullptr));
  printf("null: %d %d\n", cuCheckpointProcessGetState(pid, nullptr),
         cuCheckpointProcessGetRestoreThreadId(pid, nullptr));
  lock.reserved0 = 1;
  step("lock with more", pid, cuCheckpointProcessLock(pid, &lock));
  lock.reserved0 = 0;
  step("lock", pid, cuCheckpointProcessLock(pid, &lock));
  step("lock again", pid, cuCheckpointProcessLock(pid, &lock));
  step("restore while locked", pid, cuCheckpointProcessRestore(pid, nullptr));
  step("unlock", pid, cuCheckpointProcessUnlock(pid, nullptr));
  step("lock for as long as it takes", pid, cuCheckpointProcessLock(pid, nullptr));
  step("checkpoint", pid, cuCheckpointProcessCheckpoint(pid, nullptr));
  step("checkpoint again", pid, cuCheckpointProcessCheckpoint(pid, nullptr));
  step("unlock too soon", pid, cuCheckpointProcessUnlock(pid, nullptr));
  step("restore", pid, cuCheckpointProcessRestore(pid, nullptr));
  step("unlock", pid, cuCheckpointProcessUnlock(pid, nullptr));
  int tid = 0;
  int rc = cuCheckpointProcessGetRestoreThreadId(pid, &tid);
  printf("thread: %d, one: %d\n", rc, tid > 0);
  fflush(stdout);
}

static bool all(CUdeviceptr p, int wanted) {
  std::vector<int> there(N);
  if (cuMemcpyDtoH(there.data(), p, N * sizeof(int))) return false;
  for (int v : there)
    if (v != wanted) return false;
  return true;
}

// Says what it has whenever it is asked.
static int target() {
  CUdeviceptr p = 0;
  cudaFree(nullptr);
  cuMemAlloc(&p, N * sizeof(int));
  cuMemsetD32(p, 5, N);
  cuCtxSynchronize();
  int round = 0;
  for (char c; write(1, "r", 1) == 1 && read(0, &c, 1) == 1; round++) {
    bool right = all(p, 5 + round);
    add<<<N / 256, 256>>>((int *)p, N, 1);
    if (write(1, right ? "y" : "n", 1) != 1) return 1;
  }
  return round == 2 ? 0 : 1;
}

static void other(const char *self) {
  int to[2], from[2];
  if (pipe(to) || pipe(from)) exit(1);
  int pid = fork();
  if (pid == 0) {
    dup2(to[0], 0);
    dup2(from[1], 1);
    close(to[1]);
    close(from[0]);
    execl(self, self, "target", (char *)nullptr);
    _exit(127);
  }
  close(to[0]);
  close(from[1]);
  char said = 0;
  auto hear = [&] { return read(from[0], &said, 1) == 1 ? said : '?'; };
  auto ask = [&] { return write(to[1], "x", 1) == 1; };
  printf("it is %c\n", hear());
  codes(pid);
  ask();
  printf("it has all: %c%c\n", hear(), hear());
  step("lock", pid, cuCheckpointProcessLock(pid, nullptr));
  step("checkpoint", pid, cuCheckpointProcessCheckpoint(pid, nullptr));
  ask();
  step("restore", pid, cuCheckpointProcessRestore(pid, nullptr));
  step("unlock", pid, cuCheckpointProcessUnlock(pid, nullptr));
  printf("it has all: %c%c\n", hear(), hear());
  close(to[1]);
  int status = 0;
  waitpid(pid, &status, 0);
  printf("it ended with %d\n", status);
  step("lock of what has ended", pid, cuCheckpointProcessLock(pid, nullptr));
  step("lock of what has no CUDA", getppid(), cuCheckpointProcessLock(getppid(), nullptr));
}

static void dump_setting(bool global, bool set, int which, const void *value, size_t size) {
  char room[2000] = "";
  if (value) memcpy(room, value, size);
  size_t n = size;
  auto name = (CUcoredumpSettings)which;
  int rc = set ? (global ? cuCoredumpSetAttributeGlobal : cuCoredumpSetAttribute)(name, room, &n)
               : (global ? cuCoredumpGetAttributeGlobal : cuCoredumpGetAttribute)(name, room, &n);
  printf("core dumps, %s %s %d of size %zu: %d, %zu, %d %d %d %d\n", global ? "all" : "one",
         set ? "set" : "get", which, size, rc, n, room[0], room[1], room[2], room[3]);
}

static void dumps() {
  for (int which = 0; which < 9; which++) {
    size_t size = which == 5 || which == 6 ? 100 : which == 7 ? 4 : 1;
    for (bool global : {true, false}) {
      dump_setting(global, false, which, nullptr, size);
      dump_setting(global, false, which, nullptr, size + 4);
      size_t n = 0;
      auto name = (CUcoredumpSettings)which;
      int rc = global ? cuCoredumpGetAttributeGlobal(name, nullptr, &n)
                      : cuCoredumpGetAttribute(name, nullptr, &n);
      printf("core dumps, size of %d: %d, %zu\n", which, rc, n);
    }
  }
  bool no = false, yes = true;
  int flags = 1;
  dump_setting(true, true, 2, &no, 1);
  dump_setting(true, true, 3, &yes, 1);
  dump_setting(true, true, 5, "core", 5);
  dump_setting(true, true, 6, "pipe", 5);
  dump_setting(true, true, 7, &flags, 4);
  dump_setting(true, true, 7, &flags, 2);
  dump_setting(true, true, 99, &flags, 4);
  for (int which = 2; which < 8; which++) {
    size_t size = which == 5 || which == 6 ? 50 : which == 7 ? 4 : 1;
    for (bool global : {true, false}) dump_setting(global, false, which, nullptr, size);
  }
  dump_setting(false, true, 5, "mine", 5);
  dump_setting(false, true, 2, &yes, 1);
  for (bool global : {true, false}) {
    dump_setting(global, false, 5, nullptr, 5);
    dump_setting(global, false, 5, nullptr, 4);
    dump_setting(global, false, 2, nullptr, 1);
  }
  printf("core dumps, nulls: %d %d\n",
         cuCoredumpGetAttributeGlobal(CU_COREDUMP_FILE, &flags, nullptr),
         cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, nullptr, nullptr));
}

int main(int count, char **words) {
  if (count > 1) return target();
  cudaFree(nullptr);
  int own = getpid();
  CUdeviceptr p = 0;
  cuMemAlloc(&p, N * sizeof(int));
  cuMemsetD32(p, 41, N);
  int *page_locked = nullptr;
  cudaHostAlloc((void **)&page_locked, 1 << 20, cudaHostAllocMapped);
  page_locked[7] = 3;
  add<<<N / 256, 256>>>((int *)p, N, 1);
  codes(own);
  printf("all there: %d\n", all(p, 42));
  add<<<1, 32>>>(page_locked, 32, 4);
  printf("page-locked: %d %d\n", (int)cudaDeviceSynchronize(), page_locked[7]);
  // What is under way does not end in time.
  spin<<<1, 1>>>(2'000'000'000);
  CUcheckpointLockArgs lock = {};
  lock.timeoutMs = 200;
  step("lock in too short a time", own, cuCheckpointProcessLock(own, &lock));
  printf("then: %d\n", (int)cudaDeviceSynchronize());
  other(words[0]);
  dumps();
  printf("done\n");
}
