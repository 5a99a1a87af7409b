/* A client over two Internet connections: two_paths example.org:6511 eth0 wwan0 (or two addresses of this host).
 * Sends 100 datagrams to an echo server. Prints when each path is up, and how many packets each path carried. */
#include <arpa/inet.h>
#include <dccp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(ssize_t result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, strerror((int)-result), dccp_last_error());
        exit(1);
    }
}

static struct dccp_path line(const char *name)
{
    struct dccp_path path = {.size = sizeof path};
    struct in6_addr any;

    if (inet_pton(AF_INET, name, &any) == 1 || inet_pton(AF_INET6, name, &any) == 1)
        path.local = name;
    else
        path.interface = name;
    return path;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: two_paths ADDRESS:PORT INTERFACE-OR-LOCAL-ADDRESS INTERFACE-OR-LOCAL-ADDRESS\n");
        return 2;
    }
    struct dccp_path paths[] = {line(argv[2]), line(argv[3])};
    struct dccp_options options = {
        .size = sizeof options, .ccid = 5, .service = "SC:echo", .paths = paths, .path_count = 2};
    struct dccp_stats stats = {.size = sizeof stats};
    struct dccp_event event = {.size = sizeof event};
    struct dccp_conn *conn;
    char datagram[1000] = "datagram";
    unsigned up = 0;

    check(dccp_connect(argv[1], &options, &conn), argv[1]);
    if (!dccp_is_multipath(conn)) {
        fprintf(stderr, "the server does not support several paths\n");
        return 1;
    }
    while (up < 2) {
        check(dccp_next_event(conn, 5000, &event), "waiting for both paths");
        if (event.kind == DCCP_EVENT_PATH_UP) {
            printf("path %u is up\n", event.path);
            up++;
        }
    }
    for (int n = 0; n < 100; n++) {
        check(dccp_send(conn, datagram, sizeof datagram, -1), "send");
        check(dccp_recv(conn, datagram, sizeof datagram, 5000), "recv");
    }
    check(dccp_get_stats(conn, &stats), "stats");
    for (unsigned n = 0; n < stats.path_count; n++) {
        struct dccp_path_stats path = {.size = sizeof path};
        check(dccp_get_path_stats(conn, n, &path), "stats");
        printf("path %u to %s: %llu packets, round trip %.1f ms\n", path.path, path.peer,
               (unsigned long long)path.sent, (double)path.rtt_us / 1000);
    }
    check(dccp_finish(conn, 5000), "finish");
    dccp_close(conn);
    return 0;
}
