/* Ranks that are threads of one process: nccl_threads MODE RANKS. Each makes its calls by itself,
   without a group around those of all; what ranks print comes out in their order. MODE: `wait` and
   `poll` for communicators that calls wait for, and that are asked how far they are; `late`, where
   rank 1 comes half a second after the others; `lag`, where it comes late to a sum; `never`, where
   it does not come, and another thread aborts. */
#include "nccl.h"
#include <pthread.h>
#include <stdarg.h>

#define N 1000
#define F64 8
static Id id;
static int ranks;
static const char *mode;
static char said[8][8192];
static __thread int me;
static void *comms[8];
static pthread_barrier_t all;

static void say(const char *format, ...) {
  va_list list;
  va_start(list, format);
  size_t n = strlen(said[me]);
  vsnprintf(said[me] + n, sizeof said[me] - n, format, list);
  va_end(list);
}

/* A call's code, once nothing of it is in progress. */
static int done(void *comm, int rc) {
  for (int i = 0; rc == 7 && i < 60000; i++) {
    usleep(1000);
    check("ask", NC(ncclCommGetAsyncError, (void *, int *), comm, &rc));
  }
  return rc;
}

static void show(const char *what, int rc, void *s, ptr b) {
  static __thread double out[N * 8];
  int synced = sync_(s);
  get(out, b, sizeof out);
  double sum = 0;
  for (int i = 0; i < N * 8; i++) sum += out[i] * (i % 7 + 1);
  say("%s: %d %d %.1f\n", what, rc, synced, sum);
}

static int exchange(void *comm, int to, int from, ptr a, ptr b, void *s) {
  check("start", NC(ncclGroupStart, (void)));
  if (to >= 0) ((Peer *)find(nccl, "ncclSend"))(a, N, F64, to, comm, s);
  if (from >= 0) ((Peer *)find(nccl, "ncclRecv"))(b, N, F64, from, comm, s);
  return NC(ncclGroupEnd, (void));
}

static void *rank(void *number) {
  static __thread double in[N * 8];
  me = (int)(intptr_t)number;
  use(me);
  void *s = stream(), *comm = 0;
  ptr a = alloc(sizeof in), b = alloc(sizeof in);
  Config c = config(strcmp(mode, "poll") != 0);
  int rc = ((Init *)find(nccl, "ncclCommInitRankConfig"))(&comm, ranks, id, me, &c);
  say("init: %d\n", done(comm, rc));
  comms[me] = comm;
  for (int i = 0; i < N * 8; i++) in[i] = i % 100 + 1000 * me;
  put(a, in, sizeof in);
  memset(in, 0, sizeof in);
  put(b, in, sizeof in);
  pthread_barrier_wait(&all);
  Plain *exchange_all = (Plain *)find(nccl, "ncclAlltoAll");
  if (!strcmp(mode, "never")) {
    if (me == 1) {
      usleep(300000);
      for (int r = 0; r < ranks; r++) check("abort", NC(ncclCommAbort, (void *), comms[r]));
      return 0;
    }
    say("ended: %d\n", exchange_all(a, b, N, F64, comm, s) != 0);
    return 0;
  }
  /* Nothing is sent by this, and nobody is connected by it. */
  show("nothing", done(comm, exchange_all(a, b, 0, F64, comm, s)), s, b);
  if (!strcmp(mode, "late") && me == 1) usleep(500000);
  for (int i = 0; i < 3; i++)
    show("all to all", done(comm, exchange_all(a, b, N, F64, comm, s)), s, b);
  /* A child, whose ranks are the other way round, and messages that only some ranks have a part
     in. */
  void *child = 0;
  rc = ((Split *)find(nccl, "ncclCommSplit"))(comm, 0, -me, &child, 0);
  say("split: %d %d\n", done(child, rc), done(comm, 7));
  int mine, next, before;
  check("rank", NC(ncclCommUserRank, (void *, int *), child, &mine));
  next = (mine + 1) % ranks, before = (mine + ranks - 1) % ranks;
  show("ring", done(child, exchange(child, next, before, a, b, s)), s, b);
  show("ring again", done(child, exchange(child, next, before, a, b, s)), s, b);
  int last = ranks - 1;
  Peer *send = (Peer *)find(nccl, "ncclSend"), *recv = (Peer *)find(nccl, "ncclRecv");
  if (mine == 0) show("one sends", done(child, send(a, N, F64, last, child, s)), s, b);
  if (mine == last) show("one gets", done(child, recv(b, N, F64, 0, child, s)), s, b);
  Coll *rooted = (Coll *)find(nccl, "ncclGather");
  show("gather nothing", done(child, rooted(a, b, 0, F64, 1, child, s)), s, b);
  show("gather", done(child, rooted(a, b, N, F64, 1, child, s)), s, b);
  rooted = (Coll *)find(nccl, "ncclScatter");
  show("scatter", done(child, rooted(a, b, N, F64, last, child, s)), s, b);
  if (!strcmp(mode, "lag") && me == 1) sleep(2);
  Coll *reduce = (Coll *)find(nccl, "ncclAllReduce");
  show("reduce", done(comm, reduce(a, b, N, F64, 0, comm, s)), s, b);
  check("destroy child", NC(ncclCommDestroy, (void *), child));
  check("destroy", NC(ncclCommDestroy, (void *), comm));
  return 0;
}

int main(int argc, char **argv) {
  pthread_t threads[8];
  if (argc != 3) return 2;
  mode = argv[1], ranks = atoi(argv[2]);
  if (ranks < 2 || ranks > 8) return 2;
  alarm(60);
  load();
  use(0);
  check("id", NC(ncclGetUniqueId, (Id *), &id));
  pthread_barrier_init(&all, 0, ranks);
  for (int r = 0; r < ranks; r++) pthread_create(threads + r, 0, rank, (void *)(intptr_t)r);
  for (int r = 0; r < ranks; r++) pthread_join(threads[r], 0);
  for (int r = 0; r < ranks; r++) printf("rank %d:\n%s", r, said[r]);
  return 0;
}
