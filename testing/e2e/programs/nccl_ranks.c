/* Ranks that talk to each other: nccl_ranks MODE RANKS SEED. Each rank is a process, but for MODE
   `all`, where one process has all devices. What ranks print comes out in their order. */
#include "nccl.h"

static uint64_t state;
static uint64_t rnd(void) {
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  return state;
}

#define MOST 3000
static double in[MOST * 8], out[MOST * 8];

static uint64_t sum(const void *p, size_t n) {
  uint64_t h = 1469598103934665603ull;
  for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)p)[i]) * 1099511628211ull;
  return h;
}

/* One random collective: every rank draws the same. */
static void step(int n, void *comm, int me, int ranks, ptr a, ptr b, void *s) {
  int kind = rnd() % 10, op = rnd() % 5, root = rnd() % ranks, type = rnd() % 2 ? 7 : 8;
  size_t count = rnd() % MOST, size = type == 7 ? 4 : 8, all = sizeof in;
  uint64_t keep = state;
  state += 77 * (me + 1);
  for (size_t i = 0; i < MOST * 8; i++) {
    double v = (double)(rnd() % 1000) / 64 + 1;
    if (size == 4) ((float *)in)[i] = v; else in[i] = v;
  }
  state = keep;
  memset(out, 0, all);
  put(a, in, all);
  put(b, out, all);
  int rc = 0;
  if (kind == 0) rc = ((Coll *)find(nccl, "ncclAllReduce"))(a, b, count, type, op, comm, s);
  if (kind == 1) rc = ((Plain *)find(nccl, "ncclAllGather"))(a, b, count, type, comm, s);
  if (kind == 2) rc = ((Coll *)find(nccl, "ncclReduceScatter"))(a, b, count, type, op, comm, s);
  if (kind == 3) rc = ((Rooted *)find(nccl, "ncclReduce"))(a, b, count, type, op, root, comm, s);
  if (kind == 4) rc = ((Coll *)find(nccl, "pncclBroadcast"))(a, b, count, type, root, comm, s);
  if (kind == 5) rc = ((Plain *)find(nccl, "ncclAlltoAll"))(a, b, count, type, comm, s);
  if (kind == 6) rc = ((Coll *)find(nccl, "ncclGather"))(a, b, count, type, root, comm, s);
  if (kind == 7) rc = ((Coll *)find(nccl, "ncclScatter"))(a, b, count, type, root, comm, s);
  if (kind == 8) {
    check("start", NC(ncclGroupStart, (void)));
    ((Peer *)find(nccl, "ncclSend"))(a, count, type, (me + 1) % ranks, comm, s);
    ((Peer *)find(nccl, "ncclRecv"))(b, count, type, (me + ranks - 1) % ranks, comm, s);
    rc = NC(ncclGroupEnd, (void));
  }
  if (kind == 9) {
    double by = 2.5;
    float by4 = 2.5f;
    int made;
    check("premul", NC(ncclRedOpCreatePreMulSum, (int *, void *, int, int, void *), &made,
                       size == 4 ? (void *)&by4 : (void *)&by, type, 1, comm));
    rc = ((Coll *)find(nccl, "ncclAllReduce"))(a, b, count, type, made, comm, s);
    check("premul end", NC(ncclRedOpDestroy, (int, void *), made, comm));
  }
  check("collective", rc);
  check("sync", sync_(s));
  get(out, b, all);
  printf("%d: kind %d count %zu %016llx\n", n, kind, count, (unsigned long long)sum(out, all));
}

static void told(const char *what, void *comm) {
  int ranks, rank, device, error;
  check("count", NC(ncclCommCount, (void *, int *), comm, &ranks));
  check("rank", NC(ncclCommUserRank, (void *, int *), comm, &rank));
  check("device", NC(ncclCommCuDevice, (void *, int *), comm, &device));
  check("error", NC(ncclCommGetAsyncError, (void *, int *), comm, &error));
  printf("%s: rank %d of %d on %d, error %d\n", what, rank, ranks, device, error);
}

static int wait_for(void *comm) {
  int error = 7;
  for (int i = 0; error == 7 && i < 60000; i++) {
    check("ask", NC(ncclCommGetAsyncError, (void *, int *), comm, &error));
    usleep(1000);
  }
  return error;
}

/* What is refused, and with which code: each line is a call and what it returns. */
static void arguments(void *comm, int me, int ranks, Id id, ptr a, ptr b, void *s) {
#define SAY(what, ...) do { int rc_ = (__VA_ARGS__); printf("%s: %d\n", what, rc_); } while (0)
  Coll *reduce = (Coll *)find(nccl, "ncclAllReduce");
  Rooted *rooted = (Rooted *)find(nccl, "ncclReduce");
  Peer *send = (Peer *)find(nccl, "ncclSend"), *recv = (Peer *)find(nccl, "ncclRecv");
  Init *init = (Init *)find(nccl, "ncclCommInitRankConfig");
  void *other = &other, *handle = 0;
  int n = 0, made = 0, list[] = {me}, bad[] = {0, 0};
  double two = 2;
  SAY("no communicator", reduce(a, b, 1, 8, 0, 0, s));
  SAY("a type too many", reduce(a, b, 1, 12, 0, comm, s));
  SAY("a negative type", reduce(a, b, 1, -1, 0, comm, s));
  SAY("a negative operator", reduce(a, b, 1, 8, -1, comm, s));
  SAY("an operator that nobody made", reduce(a, b, 1, 8, 77, comm, s));
  SAY("a root too many", rooted(a, b, 1, 8, 0, ranks, comm, s));
  SAY("a negative root", rooted(a, b, 1, 8, 0, -1, comm, s));
  SAY("to nobody", send(a, 1, 8, ranks, comm, s));
  SAY("from nobody", recv(a, 1, 8, -1, comm, s));
  SAY("nothing at all", reduce(a, b, 0, 8, 0, comm, s));
  SAY("make", NC(ncclRedOpCreatePreMulSum, (int *, void *, int, int, void *), &made, &two, 8, 1,
                 comm));
  SAY("end", NC(ncclRedOpDestroy, (int, void *), made, comm));
  SAY("end again", NC(ncclRedOpDestroy, (int, void *), made, comm));
  SAY("end a sum", NC(ncclRedOpDestroy, (int, void *), 0, comm));
  SAY("an operator that has ended", reduce(a, b, 1, 8, made, comm, s));
  SAY("register", ((Register *)find(nccl, "ncclCommRegister"))(comm, a, 64, &handle));
  SAY("deregister", NC(ncclCommDeregister, (void *, void *), comm, handle));
  SAY("deregister again", NC(ncclCommDeregister, (void *, void *), comm, handle));
  SAY("deregister nothing", NC(ncclCommDeregister, (void *, void *), comm, 0));
  SAY("end of no group", NC(ncclGroupEnd, (void)));
  SAY("start", NC(ncclGroupStart, (void)));
  SAY("start in it", NC(ncclGroupStart, (void)));
  SAY("a failure in it", reduce(a, b, 1, 99, 0, comm, s));
  SAY("a good one behind it", NC(ncclCommCount, (void *, int *), comm, &n));
  SAY("end in it", NC(ncclGroupEnd, (void)));
  SAY("end", NC(ncclGroupEnd, (void)));
  SAY("start", NC(ncclGroupStart, (void)));
  SAY("in what is only estimated", reduce(a, b, 1, 8, 0, comm, s));
  NC(ncclGroupSimulateEnd, (void *), 0);
  SAY("that has ended the group", NC(ncclGroupEnd, (void)));
  SAY("count for nobody", NC(ncclCommCount, (void *, int *), comm, 0));
  SAY("rank of none", NC(ncclCommUserRank, (void *, int *), 0, &n));
  SAY("rank too many", init(&other, ranks, id, ranks, 0));
  SAY("no ranks", init(&other, 0, id, 0, 0));
  SAY("for nobody", init(0, ranks, id, me, 0));
  int *values[] = {0, 0, 0, 0, 0};
  for (int i = 0; i < 5; i++) {
    Config c = config(1);
    int *at[] = {(int *)&c.magic, &c.blocking, &c.min, &c.share, &c.rest[0]};
    values[i] = at[i];
    *values[i] = i == 2 ? 0 : 7;
    SAY("a configuration", init(&other, ranks, id, me, &c));
  }
  typedef int Scalable(void **, int, int, int, Id *, Config *);
  SAY("no ids", ((Scalable *)find(nccl, "ncclCommInitRankScalable"))(&other, ranks, me, 0, &id, 0));
  SAY("too many ids",
      ((Scalable *)find(nccl, "ncclCommInitRankScalable"))(&other, ranks, me, ranks + 1, &id, 0));
  SAY("all of none", NC(ncclCommInitAll, (void **, int, int *), &other, 0, bad));
  SAY("all of fewer", NC(ncclCommInitAll, (void **, int, int *), &other, -1, bad));
  typedef int Shrink(void *, int *, int, void **, Config *, int);
  Shrink *shrink = (Shrink *)find(nccl, "ncclCommShrink");
  SAY("without itself", shrink(comm, list, 1, &other, 0, 0));
  SAY("without nobody", shrink(comm, list, 0, &other, 0, 0));
  SAY("abort of none", NC(ncclCommAbort, (void *), 0));
  SAY("destroy none", NC(ncclCommDestroy, (void *), 0));
  SAY("finalize none", NC(ncclCommFinalize, (void *), 0));
  SAY("revoke none", NC(ncclCommRevoke, (void *, int), 0, 0));
  SAY("revoke oddly", NC(ncclCommRevoke, (void *, int), comm, 3));
  /* None of it has done the communicator any harm. */
  SAY("good", reduce(a, b, 1, 8, 0, comm, s));
  SAY("sync", sync_(s));
  told("still", comm);
  if (ranks > 1) {
    int last[] = {ranks - 1};
    void *fewer = 0;
    if (me < ranks - 1) {
      SAY("shrink", shrink(comm, last, 1, &fewer, 0, 0));
      told("fewer", fewer);
      SAY("of fewer", reduce(a, b, 1, 8, 0, fewer, s));
      SAY("sync", sync_(s));
      SAY("destroy fewer", NC(ncclCommDestroy, (void *), fewer));
    }
  }
  SAY("revoke", NC(ncclCommRevoke, (void *, int), comm, 0));
  SAY("revoke again", NC(ncclCommRevoke, (void *, int), comm, 0));
  SAY("of what is revoked", reduce(a, b, 1, 8, 0, comm, s));
  SAY("finalize what is revoked", NC(ncclCommFinalize, (void *), comm));
  SAY("destroy", NC(ncclCommDestroy, (void *), comm));
}

static void rank(const char *mode, int me, int ranks, Id id) {
  void *comm = 0, *s;
  use(me);
  s = stream();
  ptr a = alloc(sizeof in), b = alloc(sizeof out);
  if (!strcmp(mode, "abort")) {
    /* Nobody else comes. */
    Config c = config(0);
    int rc = ((Init *)find(nccl, "ncclCommInitRankConfig"))(&comm, ranks + 1, id, me, &c);
    int use_ = ((Coll *)find(nccl, "ncclAllReduce"))(a, b, 1, 7, 0, comm, s);
    usleep(50000);
    printf("init %d, use %d, abort %d\n", rc, use_ != 0, NC(ncclCommAbort, (void *), comm));
    return;
  }
  if (!strcmp(mode, "early")) {
    /* Each is aborted before anybody has begun to make it, or just then. */
    int inits = 0, aborts = 0;
    for (int i = 0; i < 200; i++) {
      Config c = config(0);
      inits += ((Init *)find(nccl, "ncclCommInitRankConfig"))(&comm, ranks + 1, id, me, &c) == 7;
      aborts += NC(ncclCommAbort, (void *), comm) == 0;
    }
    printf("inits %d, aborts %d\n", inits, aborts);
    return;
  }
  if (!strcmp(mode, "nonblocking")) {
    Config c = config(0);
    int rc = ((Init *)find(nccl, "ncclCommInitRankConfig"))(&comm, ranks, id, me, &c);
    printf("init %d\n", rc);
    printf("ready: %d\n", wait_for(comm));
  } else {
    check("init", NC(ncclCommInitRank, (void **, int, Id, int), &comm, ranks, id, me));
  }
  told("world", comm);
  if (!strcmp(mode, "arguments")) {
    arguments(comm, me, ranks, id, a, b, s);
    return;
  }
  if (!strcmp(mode, "together")) {
    check("start", NC(ncclGroupStart, (void)));
    int rc = NC(ncclCommFinalize, (void *), comm);
    rc += NC(ncclCommDestroy, (void *), comm);
    printf("finalized and destroyed: %d %d\n", rc, NC(ncclGroupEnd, (void)));
    return;
  }
  if (!strcmp(mode, "operator")) {
    double three = 3, got = 0;
    int made = 0, error;
    put(a, &three, sizeof three);
    put(b, &got, sizeof got);
    NC(ncclRedOpCreatePreMulSum, (int *, void *, int, int, void *), &made, &three, 8, 1, comm);
    ((Coll *)find(nccl, "ncclAllReduce"))(a, b, 1, 8, made, comm, s);
    check("sync", sync_(s));
    get(&got, b, sizeof got);
    check("ask", NC(ncclCommGetAsyncError, (void *, int *), comm, &error));
    printf("got %g, error %d\n", got, error);
    return;
  }
  if (!strcmp(mode, "death")) {
    check("first", ((Coll *)find(nccl, "ncclAllReduce"))(a, b, 100, 7, 0, comm, s));
    check("sync", sync_(s));
    if (me == ranks - 1) { fflush(stdout); _exit(0); }
    int error = 0;
    for (int i = 0; !error && i < 300; i++) {
      int rc = ((Coll *)find(nccl, "ncclAllReduce"))(a, b, 100, 7, 0, comm, s);
      sync_(s);
      usleep(100000);
      check("ask", NC(ncclCommGetAsyncError, (void *, int *), comm, &error));
      if (rc) error = rc;
    }
    printf("error %d, abort %d\n", error, NC(ncclCommAbort, (void *), comm));
    return;
  }
  uint64_t shared = state;
  for (int i = 0; i < 30; i++) step(i, comm, me, ranks, a, b, s);
  void *half = 0, *handle;
  Split *split = (Split *)find(nccl, "ncclCommSplit");
  check("split", split(comm, me % 2, -me, &half, 0) % 7);
  if (!strcmp(mode, "nonblocking")) printf("half: %d %d\n", wait_for(half), wait_for(comm));
  told("half", half);
  check("register", ((Register *)find(nccl, "ncclCommRegister"))(half, a, sizeof in, &handle));
  state = shared + 1 + me % 2;
  int mine, size;
  NC(ncclCommUserRank, (void *, int *), half, &mine);
  NC(ncclCommCount, (void *, int *), half, &size);
  for (int i = 0; i < 10; i++) step(i, half, mine, size, a, b, s);
  told("half, behind all", half);
  check("deregister", NC(ncclCommDeregister, (void *, void *), half, handle));
  void *none = &none;
  check("no colour", split(comm, -1, 0, &none, 0) % 7);
  printf("none: %d, %d\n", none == 0, wait_for(comm));
  int rc = ((Coll *)find(nccl, "ncclAllReduce"))(a, b, 1, 99, 0, comm, s);
  printf("a type that is none: %d\n", rc);
  check("destroy half", NC(ncclCommDestroy, (void *), half));
  int last = NC(ncclCommFinalize, (void *), comm);
  check("finalize", last == 7 ? wait_for(comm) : last);
  check("destroy", NC(ncclCommDestroy, (void *), comm));
}

typedef int Configured(ptr, ptr, size_t, int, int, void *, void *, void *);
static void all(int ranks) {
  void *comms[8], *s[8];
  ptr a[8], b[8];
  use(0);
  check("all", NC(ncclCommInitAll, (void **, int, int *), comms, ranks, 0));
  for (int r = 0; r < ranks; r++) {
    use(r);
    s[r] = stream();
    a[r] = alloc(sizeof in);
    b[r] = alloc(sizeof out);
    for (int i = 0; i < MOST; i++) in[i] = i * (r + 1);
    put(a[r], in, sizeof in);
    told("all", comms[r]);
  }
  check("start", NC(ncclGroupStart, (void)));
  for (int r = 0; r < ranks; r++) {
    use(r);
    Coll *reduce = (Coll *)find(nccl, "ncclAllReduce");
    // A program for a later version has the call with a configuration, and may give it none.
    Configured *configured = (Configured *)dlsym(nccl, "ncclAllReduceConfig");
    check("in group", configured ? configured(a[r], b[r], MOST, 8, 0, comms[r], s[r], 0)
                                 : reduce(a[r], b[r], MOST, 8, 0, comms[r], s[r]));
  }
  check("end", NC(ncclGroupEnd, (void)));
  for (int r = 0; r < ranks; r++) {
    use(r);
    check("sync", sync_(s[r]));
    get(out, b[r], MOST * 8);
    printf("%d: %016llx\n", r, (unsigned long long)sum(out, MOST * 8));
    check("destroy", NC(ncclCommDestroy, (void *), comms[r]));
  }
}

int main(int argc, char **argv) {
  const char *mode = argv[1];
  int ranks = atoi(argv[2]), ends[8][2], ids[8][2], version = 0, bad = 0;
  state = strtoull(argv[3], 0, 10) * 2654435761u + 1;
  if (argc != 4 || ranks < 1 || ranks > 8) return 2;
  if (!strcmp(mode, "all")) {
    load();
    check("version", NC(ncclGetVersion, (int *), &version));
    printf("version %d\n", version);
    all(ranks);
    return 0;
  }
  for (int r = 0; r < ranks; r++)
    if (pipe(ends[r]) || pipe(ids[r])) return 2;
  for (int r = 0; r < ranks; r++) {
    if (fork()) continue;
    Id id;
    dup2(ends[r][1], 1);
    alarm(100);
    load();
    if (r == 0) {
      check("id", NC(ncclGetUniqueId, (Id *), &id));
      for (int o = 1; o < ranks; o++)
        if (write(ids[o][1], &id, sizeof id) != sizeof id) exit(1);
    } else if (read(ids[r][0], &id, sizeof id) != sizeof id) {
      exit(1);
    }
    rank(mode, r, ranks, id);
    fflush(stdout);
    exit(0);
  }
  for (int r = 0; r < ranks; r++) {
    char text[4096];
    ssize_t n;
    close(ends[r][1]);
    printf("rank %d:\n", r);
    fflush(stdout);
    while ((n = read(ends[r][0], text, sizeof text)) > 0)
      if (write(1, text, n) != n) return 2;
  }
  for (int status; wait(&status) > 0;) bad |= status;
  return bad != 0;
}
