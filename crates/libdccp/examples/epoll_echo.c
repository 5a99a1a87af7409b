/* An echo server with one thread and epoll: epoll_echo 0.0.0.0:6511 */
#include <dccp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static struct dccp_listener *listener;

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, strerror(-result), dccp_last_error());
        exit(1);
    }
}

static void watch(int epoll, int fd, void *conn)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};

    check(fd, "descriptor");
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        check(-errno, "epoll_ctl");
}

static void accept_all(int epoll)
{
    struct dccp_conn *conn;
    int result;

    while ((result = dccp_accept(listener, 0, &conn)) == 0)
        watch(epoll, dccp_fd(conn), conn);
    if (result != -EAGAIN)
        check(result, "accept");
}

static void answer(int epoll, struct dccp_conn *conn)
{
    static char datagram[65536];
    ssize_t len;

    dccp_events(conn); /* arms the descriptor again */
    while ((len = dccp_recv(conn, datagram, sizeof datagram, 0)) > 0)
        dccp_send(conn, datagram, (size_t)len, 0); /* without room it is dropped, as a network would */
    if (len == -EAGAIN)
        return;
    epoll_ctl(epoll, EPOLL_CTL_DEL, dccp_fd(conn), NULL);
    dccp_close(conn);
}

int main(int argc, char **argv)
{
    struct dccp_options options = {.size = sizeof options, .service = "SC:echo"};
    struct epoll_event events[64];
    char where[DCCP_ADDRESS_SIZE];
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (argc != 2) {
        fprintf(stderr, "usage: epoll_echo ADDRESS:PORT\n");
        return 2;
    }
    check(dccp_listen(argv[1], &options, &listener), argv[1]);
    check(dccp_listener_address(listener, where, sizeof where), "address");
    printf("listening on %s\n", where);
    fflush(stdout);
    watch(epoll, dccp_listener_fd(listener), NULL);
    for (;;) {
        int count = epoll_wait(epoll, events, 64, -1);
        for (int n = 0; n < count; n++) {
            if (events[n].data.ptr == NULL)
                accept_all(epoll);
            else
                answer(epoll, events[n].data.ptr);
        }
    }
}
