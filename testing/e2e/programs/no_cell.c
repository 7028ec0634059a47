/* A library that ends a process in which a session's cell is to be made. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void end(void) {
    char said[65536];
    int fd = open("/proc/self/cmdline", O_RDONLY);
    ssize_t n = read(fd, said, sizeof said);
    close(fd);
    if (n > 0 && memmem(said, n, "--cell=", 7)) _exit(3);
}
