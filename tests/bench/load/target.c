#include "tests/bench/load/target.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

uint64_t target_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool read_body(struct target *target, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    bool whole = false;
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (length >= 0) {
        rewind(file);
        target->body = malloc((size_t)length + 1);
        target->body_bytes = (size_t)length;
        whole = target->body != NULL &&
                fread(target->body, 1, target->body_bytes, file) == target->body_bytes;
    }
    fclose(file);
    return whole;
}

bool target_open(struct target *target, const char *address, const char *path_and_query,
                 const char *body_file)
{
    target->address = address;
    if (!read_body(target, body_file))
        return false;
    int length = snprintf(target->head, sizeof target->head,
                          "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
                          "Content-Type: application/octet-stream\r\n\r\n",
                          path_and_query, target->body_bytes);
    target->head_bytes = (size_t)length;
    return length > 0 && target->head_bytes < sizeof target->head;
}

bool target_expect(struct target *target)
{
    static const char field[] = "Expect: 100-continue\r\n\r\n";
    const size_t at = target->head_bytes - strlen("\r\n");
    if (at + sizeof field > sizeof target->head)
        return false;
    memcpy(target->head + at, field, sizeof field);
    target->head_bytes = at + strlen(field);
    target->expects = true;
    return true;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_tcp(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char host[32];
    unsigned port;
    const int on = 1;
    if (sscanf(text, "%31[0-9.]:%u", host, &port) != 2 || port > 65535 ||
        inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return -1;
    address.sin_port = htons((uint16_t)port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

int target_connect(const struct target *target)
{
    const char *address = target->address;
    return strncmp(address, "unix:", 5) == 0 ? connect_unix(address + 5) : connect_tcp(address);
}

int target_rest(const struct target *target, size_t sent, struct iovec parts[2])
{
    int count = 0;
    if (sent < target->head_bytes)
        parts[count++] =
            (struct iovec){(char *)(uintptr_t)target->head + sent, target->head_bytes - sent};
    size_t of_body = sent < target->head_bytes ? 0 : sent - target->head_bytes;
    if (of_body < target->body_bytes)
        parts[count++] =
            (struct iovec){(char *)target->body + of_body, target->body_bytes - of_body};
    return count;
}
