/* An echo server and client that run their own event loop, socket and clock:
 * own_loop listen PORT | own_loop connect IPV4 PORT TEXT */
#include <arpa/inet.h>
#include <dccp.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

static struct dccp_endpoint *endpoint;
static int udp;

static long check(long result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, strerror((int)-result), dccp_last_error());
        exit(1);
    }
    return result;
}

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Sends all packets that may leave now. */
static void transmit(void)
{
    static char data[65507];
    struct dccp_packet packet = {.size = sizeof packet, .data = data, .len = sizeof data};

    while (check(dccp_endpoint_transmit(endpoint, now(), &packet), "transmit")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(packet.to.port)};

        memcpy(&to.sin_addr, packet.to.ip, 4);
        sendto(udp, data, packet.len, 0, (struct sockaddr *)&to, sizeof to);
        packet.len = sizeof data;
    }
}

/* Waits for datagrams or the timer, and passes them to the endpoint. */
static void turn(void)
{
    static char data[65507];
    int64_t at = dccp_endpoint_timeout(endpoint), left = at == INT64_MAX ? -1 : (at - (int64_t)now()) / 1000000 + 1;
    struct pollfd pollfd = {.fd = udp, .events = POLLIN};
    struct sockaddr_in from;
    struct dccp_address address = {.version = 4};
    socklen_t size = sizeof from;
    ssize_t len;

    poll(&pollfd, 1, at == INT64_MAX ? -1 : left < 0 ? 0 : (int)left);
    while ((len = recvfrom(udp, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &size)) > 0) {
        memcpy(address.ip, &from.sin_addr, 4);
        address.port = ntohs(from.sin_port);
        check(dccp_endpoint_receive(endpoint, now(), 0, &address, 0, data, (size_t)len), "receive");
    }
    check(dccp_endpoint_handle_timeout(endpoint, now()), "timeout");
}

int main(int argc, char **argv)
{
    struct dccp_options options = {.size = sizeof options, .ccid = 5, .service = "SC:echo"};
    struct dccp_event event = {.size = sizeof event};
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof here;
    unsigned char seed[32];
    int client = argc == 5 && !strcmp(argv[1], "connect");
    uint64_t session;
    char data[2000];
    ssize_t len;

    if (!client && (argc != 3 || strcmp(argv[1], "listen"))) {
        fprintf(stderr, "usage: own_loop listen PORT | own_loop connect IPV4 PORT TEXT\n");
        return 2;
    }
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    here.sin_port = htons(client ? 0 : (uint16_t)atoi(argv[2]));
    if (getrandom(seed, sizeof seed, 0) != sizeof seed || bind(udp, (struct sockaddr *)&here, sizeof here)) {
        perror("cannot begin");
        return 1;
    }
    check(dccp_endpoint_new(seed, &options, &endpoint), "endpoint");
    if (client) {
        struct dccp_address to = {.version = 4, .port = (uint16_t)atoi(argv[3])};

        inet_pton(AF_INET, argv[2], to.ip);
        check(dccp_endpoint_connect(endpoint, now(), 0, &to, 50000, &session), "connect");
    } else {
        check(dccp_endpoint_listen(endpoint), "listen");
        getsockname(udp, (struct sockaddr *)&here, &size);
        printf("listening on 127.0.0.1:%d\n", ntohs(here.sin_port));
        fflush(stdout);
    }
    for (;;) {
        while ((len = dccp_endpoint_recv(endpoint, &session, data, sizeof data)) > 0) {
            if (client) {
                printf("%.*s\n", (int)len, data);
                dccp_endpoint_close(endpoint, now(), session);
            } else {
                dccp_endpoint_send(endpoint, now(), session, data, (size_t)len);
            }
        }
        while (check(dccp_endpoint_next_event(endpoint, &event), "event")) {
            if (client && event.kind == DCCP_EVENT_OPENED)
                check(dccp_endpoint_send(endpoint, now(), event.session, argv[4], strlen(argv[4])), "send");
            if (client && event.kind == DCCP_EVENT_CLOSED) {
                transmit();
                return event.error ? 1 : 0;
            }
        }
        transmit();
        turn();
    }
}
