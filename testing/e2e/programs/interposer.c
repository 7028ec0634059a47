/* A library that is preloaded and comes before the C library, as profilers and sanitizers do: it
 * passes on what it is called for. Which function comes next it looks up when it is loaded or, with
 * LAZY, when it is called first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PASS_ON(type, name, parameters, arguments)                                                \
    static type(*next_##name) parameters;                                                         \
    type name parameters {                                                                        \
        if (!next_##name) next_##name = (type(*) parameters)dlsym(RTLD_NEXT, #name);              \
        return next_##name arguments;                                                             \
    }                                                                                             \
    __attribute__((constructor)) static void find_##name(void) {                                  \
        if (!LAZY) next_##name = (type(*) parameters)dlsym(RTLD_NEXT, #name);                     \
    }

PASS_ON(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
PASS_ON(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
PASS_ON(ssize_t, pread64, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
PASS_ON(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
PASS_ON(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
PASS_ON(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
PASS_ON(ssize_t, recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
PASS_ON(ssize_t, send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
PASS_ON(size_t, fread, (void *p, size_t s, size_t n, FILE *f), (p, s, n, f))
PASS_ON(size_t, fwrite, (const void *p, size_t s, size_t n, FILE *f), (p, s, n, f))
PASS_ON(int, sigaction, (int s, const struct sigaction *a, struct sigaction *b), (s, a, b))
PASS_ON(sighandler_t, signal, (int s, sighandler_t h), (s, h))
PASS_ON(int, pthread_sigmask, (int how, const sigset_t *a, sigset_t *b), (how, a, b))
PASS_ON(int, sigprocmask, (int how, const sigset_t *a, sigset_t *b), (how, a, b))
