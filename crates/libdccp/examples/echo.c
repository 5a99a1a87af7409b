/* An echo server and client: echo server 0.0.0.0:6511, echo client example.org:6511 hello */
#include <dccp.h>
#include <pthread.h>
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

static void *serve(void *arg)
{
    struct dccp_conn *conn = arg;
    char datagram[65536];
    ssize_t len;

    while ((len = dccp_recv(conn, datagram, sizeof datagram, -1)) > 0)
        if (dccp_send(conn, datagram, (size_t)len, -1) < 0)
            break;
    dccp_close(conn);
    return NULL;
}

static void server(const char *address, const struct dccp_options *options)
{
    struct dccp_listener *listener;
    struct dccp_conn *conn;
    char where[DCCP_ADDRESS_SIZE];
    pthread_t thread;

    check(dccp_listen(address, options, &listener), address);
    check(dccp_listener_address(listener, where, sizeof where), "address");
    printf("listening on %s\n", where);
    fflush(stdout);
    for (;;) {
        check(dccp_accept(listener, -1, &conn), "accept");
        if (pthread_create(&thread, NULL, serve, conn) != 0)
            dccp_close(conn);
        else
            pthread_detach(thread);
    }
}

static void client(const char *address, const char *text, const struct dccp_options *options)
{
    struct dccp_conn *conn;
    char answer[65536];
    ssize_t len;

    check(dccp_connect(address, options, &conn), address);
    check(dccp_send(conn, text, strlen(text), -1), "send");
    len = dccp_recv(conn, answer, sizeof answer, 5000);
    check(len, "recv");
    printf("%.*s\n", (int)len, answer);
    check(dccp_finish(conn, 5000), "finish");
    dccp_close(conn);
}

int main(int argc, char **argv)
{
    struct dccp_options options = {.size = sizeof options, .ccid = 5, .service = "SC:echo"};

    if (argc == 3 && strcmp(argv[1], "server") == 0)
        server(argv[2], &options);
    else if (argc == 4 && strcmp(argv[1], "client") == 0)
        client(argv[2], argv[3], &options);
    else {
        fprintf(stderr, "usage: echo server ADDRESS:PORT\n       echo client ADDRESS:PORT TEXT\n");
        return 2;
    }
    return 0;
}
