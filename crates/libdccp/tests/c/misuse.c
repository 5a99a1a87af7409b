/* Mistakes of C callers are reported as errors; threads, batches and descriptors work as the header says. */
#define _GNU_SOURCE
#include <dccp.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(expression, value)                                                                       \
    do {                                                                                                \
        long long got_ = (long long)(expression);                                                       \
        if (got_ != (long long)(value)) {                                                               \
            fprintf(stderr, "line %d: %s is %lld, not %lld: %s\n", __LINE__, #expression, got_,         \
                    (long long)(value), dccp_last_error());                                             \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

/* Makes the call with three wrong handles h: null, of another kind, and never issued. */
#define REFUSED(type, other, call)                                                                      \
    do {                                                                                                \
        struct type *handles_[] = {NULL, (struct type *)(other), (struct type *)-1};                    \
        for (int n_ = 0; n_ < 3; n_++) {                                                                \
            struct type *h = handles_[n_];                                                              \
            EXPECT(call, h == NULL ? -EINVAL : -EBADF);                                                 \
        }                                                                                               \
    } while (0)

static struct dccp_listener *listener;
static char where[DCCP_ADDRESS_SIZE];
static const char *private_keys[] = {
    "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=", "XasIfmJKikt54X+Lg4AO5m87sSkmGLb9HC+LJ/+I4Os="};
static const char *public_keys[] = {
    "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=", "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="};

static void *receive(void *conn)
{
    char datagram[100];
    return (void *)(intptr_t)dccp_recv(conn, datagram, sizeof datagram, -1);
}

static void *accept_one(void *unused)
{
    struct dccp_conn *conn;
    (void)unused;
    return (void *)(intptr_t)dccp_accept(listener, -1, &conn);
}

static int in_thread(void *(*function)(void *), void *arg, void (*meanwhile)(void *))
{
    pthread_t thread;
    void *result;

    pthread_create(&thread, NULL, function, arg);
    usleep(50000);
    meanwhile(arg);
    pthread_join(thread, &result);
    return (int)(intptr_t)result;
}

static void close_conn(void *conn)
{
    EXPECT(dccp_close(conn), 0);
}

static void close_listener(void *unused)
{
    (void)unused;
    EXPECT(dccp_listener_close(listener), 0);
}

static void arguments(void)
{
    struct dccp_options options = {.size = sizeof options};
    struct dccp_conn *conn = NULL;
    struct {
        struct dccp_options known;
        long later;
    } newer = {.known = {.size = sizeof newer}};

    EXPECT(dccp_connect(NULL, NULL, &conn), -EINVAL);
    EXPECT(dccp_connect(where, NULL, NULL), -EINVAL);
    EXPECT(dccp_connect("no port", NULL, &conn), -EINVAL);
    EXPECT(dccp_connect("\xff\xfe:1", NULL, &conn), -EINVAL);
    options.size = 0;
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    EXPECT(strstr(dccp_last_error(), "sizeof") != NULL, 1);
    /* The first version's struct ended before `dscp` and still works; a shorter one is an error. */
    options.size = offsetof(struct dccp_options, dscp) - 1;
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options.size = (size_t)-1;
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);

    /* A program built for a later version works unless it sets a new member. */
    newer.later = 1;
    EXPECT(dccp_connect(where, &newer.known, &conn), -E2BIG);
    newer.later = 0;
    EXPECT(dccp_connect(where, &newer.known, &conn), 0);
    EXPECT(dccp_close(conn), 0);

    options = (struct dccp_options){.size = sizeof options, .ccid = 99};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    EXPECT(strstr(dccp_last_error(), "CCID, expected one of: 2, 3, ") != NULL, 1);
    options = (struct dccp_options){.size = sizeof options, .ccid = 999};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options = (struct dccp_options){.size = sizeof options, .flags = 1u << 31};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options = (struct dccp_options){.size = sizeof options, .service = "echo"};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options = (struct dccp_options){.size = sizeof options, .scheduler = "best"};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options = (struct dccp_options){.size = sizeof options, .reordering = "best"};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options = (struct dccp_options){.size = sizeof options, .private_key = "secret"};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    EXPECT(strstr(dccp_last_error(), "secret") == NULL, 1);
    options = (struct dccp_options){.size = sizeof options, .send_policy = 9};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options = (struct dccp_options){.size = sizeof options, .mtu = 100};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    options = (struct dccp_options){.size = sizeof options, .path_count = 1};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);

    struct dccp_path paths[3] = {{.size = sizeof paths[0], .local = "127.0.0.1"},
                                 {.size = sizeof paths[0] + 8, .local = "127.0.0.1"},
                                 {.size = sizeof paths[0]}};
    options = (struct dccp_options){.size = sizeof options, .paths = paths, .path_count = 2};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    paths[1] = (struct dccp_path){.size = sizeof paths[0]};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    paths[1].local = "localhost";
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    paths[1] = (struct dccp_path){.size = sizeof paths[0], .interface = "nosuchdevice"};
    EXPECT(dccp_connect(where, &options, &conn), -ENODEV);
    paths[1] = (struct dccp_path){.size = sizeof paths[0], .local = "127.0.0.1", .priority = 16};
    EXPECT(dccp_connect(where, &options, &conn), -EINVAL);
    EXPECT(conn == NULL || dccp_close(conn) == -EBADF, 1);

    options = (struct dccp_options){.size = sizeof options, .service = "SC:else"};
    EXPECT(dccp_connect(where, &options, &conn), -ECONNREFUSED);
    options = (struct dccp_options){.size = sizeof options, .connect_timeout_ms = 50, .dccp_port = 1};
    EXPECT(dccp_connect("127.0.0.1:9", &options, &conn) < 0, 1);
    EXPECT(dccp_listen(where, NULL, &listener) == -EADDRINUSE, 1);
}

static void handles(struct dccp_conn *conn, struct dccp_conn *peer)
{
    struct dccp_stats stats = {.size = sizeof stats};
    struct dccp_path_stats path = {.size = sizeof path};
    struct dccp_event event = {.size = sizeof event};
    struct dccp_msg message = {.data = NULL, .len = 5};
    char datagram[100];
    int status;
    pid_t child;

    EXPECT(dccp_send(conn, NULL, 1, 0), -EINVAL);
    EXPECT(dccp_send(conn, "x", 0, 0), -EINVAL);
    EXPECT(dccp_send(conn, "x", (size_t)-1, 0), -EINVAL);
    EXPECT(dccp_send_with(conn, "x", 1, 0, 256, 0), -EINVAL);
    EXPECT(dccp_send((struct dccp_conn *)&stats, "x", 1, 0), -EBADF);
    EXPECT(dccp_recv(conn, NULL, 1, 0), -EINVAL);
    EXPECT(dccp_recv(conn, datagram, sizeof datagram, 0), -EAGAIN);
    EXPECT(dccp_recv(conn, datagram, sizeof datagram, 1), -ETIMEDOUT);
    EXPECT(dccp_accept(listener, 0, &conn), -EAGAIN);
    EXPECT(dccp_accept(listener, 1, &conn), -ETIMEDOUT);
    EXPECT(dccp_sendmmsg(conn, NULL, 1, 0), -EINVAL);
    EXPECT(dccp_sendmmsg(conn, &message, 1, 0), -EINVAL);
    EXPECT(dccp_sendmmsg(conn, NULL, 0, 0), 0);
    EXPECT(dccp_recvmmsg(conn, NULL, 1, 0), -EINVAL);
    EXPECT(dccp_get_stats(conn, NULL), -EINVAL);
    EXPECT(dccp_get_path_stats(conn, 7, &path), -ENOENT);
    EXPECT(dccp_get_path_stats(conn, 0, &path), 0);
    EXPECT((int)path.path_mtu, 1500);
    EXPECT(dccp_next_event(conn, 0, NULL), -EINVAL);
    while (dccp_next_event(conn, 0, &event) == 0)
        ;
    EXPECT(dccp_next_event(conn, 1, &event), -ETIMEDOUT);
    EXPECT(dccp_peer_address(conn, datagram, 3), -ERANGE);
    EXPECT(dccp_peer_address(conn, NULL, 3), -EINVAL);
    EXPECT(dccp_peer_key(conn, datagram, sizeof datagram), -ENODATA);
    EXPECT(dccp_set_ccid(conn, 99), -EINVAL);
    EXPECT(dccp_set_priority(conn, 0, 16), -EINVAL);
    EXPECT(dccp_set_scheduler(conn, "best"), -EINVAL);
    EXPECT(dccp_set_scheduler(conn, NULL), -EINVAL);
    EXPECT(dccp_end(conn), -EINPROGRESS);
    EXPECT(dccp_add_path(conn, NULL), -EINVAL);
    EXPECT(dccp_add_peer(listener, "no key", NULL), -EINVAL);
    EXPECT(dccp_add_peer(listener, NULL, NULL), -EINVAL);

    /* A datagram that is too large is not sent, and one that does not fit the receiver's buffer stays queued. */
    size_t most = (size_t)dccp_max_datagram(conn);
    char *large = calloc(1, most + 1);
    EXPECT(dccp_send(conn, large, most + 1, -1), -EMSGSIZE);
    EXPECT(dccp_send(conn, large, most, -1), most);
    EXPECT(dccp_recv(peer, datagram, sizeof datagram, 20000), -EMSGSIZE);
    EXPECT(dccp_recv(peer, large, most + 1, 20000), most);
    free(large);

    child = fork();
    if (child == 0) {
        int bad = dccp_send(conn, "x", 1, 0) != -EPERM || dccp_recv(conn, datagram, 1, 0) != -EPERM ||
                  dccp_events(conn) != -EPERM || dccp_end(conn) != -EPERM || dccp_finish(conn, -1) != -EPERM ||
                  dccp_next_event(conn, -1, &event) != -EPERM || dccp_accept(listener, 0, &conn) != -EPERM ||
                  dccp_listener_fd(listener) != -EPERM || dccp_add_peer(listener, public_keys[0], NULL) != -EPERM;
        _exit(bad);
    }
    waitpid(child, &status, 0);
    EXPECT(status, 0);
}

/* Calls every function that takes a handle with wrong handles. Timeouts are unlimited, so a function that does not
 * check its handle blocks. */
static void wrong_handles(struct dccp_conn *conn)
{
    struct dccp_path to_add = {.size = sizeof to_add, .local = "127.0.0.1"};
    struct dccp_stats stats = {.size = sizeof stats};
    struct dccp_path_stats path = {.size = sizeof path};
    struct dccp_event event = {.size = sizeof event};
    struct dccp_address to = {.ip = {192, 0, 2, 1}, .version = 4, .port = 1};
    char bytes[100];
    struct dccp_msg message = {.data = bytes, .len = sizeof bytes};
    struct dccp_packet packet = {.size = sizeof packet, .data = bytes, .len = sizeof bytes};
    struct dccp_conn *new_conn;
    struct dccp_stream *stream;
    uint64_t number;

    REFUSED(dccp_conn, listener, dccp_connected(h));
    REFUSED(dccp_conn, listener, dccp_send(h, "x", 1, -1));
    REFUSED(dccp_conn, listener, dccp_send_with(h, "x", 1, -1, 0, 0));
    REFUSED(dccp_conn, listener, dccp_recv(h, bytes, sizeof bytes, -1));
    REFUSED(dccp_conn, listener, dccp_sendmmsg(h, &message, 1, -1));
    REFUSED(dccp_conn, listener, dccp_recvmmsg(h, &message, 1, -1));
    REFUSED(dccp_conn, listener, dccp_sendmmsg(h, NULL, 0, -1));
    REFUSED(dccp_conn, listener, dccp_recvmmsg(h, NULL, 0, -1));
    REFUSED(dccp_conn, listener, dccp_fd(h));
    REFUSED(dccp_conn, listener, dccp_events(h));
    REFUSED(dccp_conn, listener, dccp_add_path(h, &to_add));
    REFUSED(dccp_conn, listener, dccp_remove_path(h, 0));
    REFUSED(dccp_conn, listener, dccp_set_priority(h, 0, 3));
    REFUSED(dccp_conn, listener, dccp_set_scheduler(h, "rr"));
    REFUSED(dccp_conn, listener, dccp_set_ccid(h, 2));
    REFUSED(dccp_conn, listener, dccp_probe(h, 1000000, 100));
    REFUSED(dccp_conn, listener, dccp_finish(h, -1));
    REFUSED(dccp_conn, listener, dccp_close(h));
    REFUSED(dccp_conn, listener, dccp_abort(h, "why"));
    REFUSED(dccp_conn, listener, dccp_end(h));
    REFUSED(dccp_conn, listener, dccp_get_stats(h, &stats));
    REFUSED(dccp_conn, listener, dccp_get_path_stats(h, 0, &path));
    REFUSED(dccp_conn, listener, dccp_next_event(h, -1, &event));
    REFUSED(dccp_conn, listener, dccp_max_datagram(h));
    REFUSED(dccp_conn, listener, dccp_is_multipath(h));
    REFUSED(dccp_conn, listener, dccp_peer_address(h, bytes, sizeof bytes));
    REFUSED(dccp_conn, listener, dccp_local_address(h, bytes, sizeof bytes));
    REFUSED(dccp_conn, listener, dccp_peer_key(h, bytes, sizeof bytes));
    REFUSED(dccp_conn, listener, dccp_service(h, bytes, sizeof bytes));
    REFUSED(dccp_conn, listener, dccp_peer_said(h, bytes, sizeof bytes));
    REFUSED(dccp_conn, listener, dccp_open_stream(h, &stream));
    REFUSED(dccp_conn, listener, dccp_accept_stream(h, -1, &stream));

    REFUSED(dccp_stream, conn, dccp_stream_read(h, bytes, sizeof bytes, -1));
    REFUSED(dccp_stream, conn, dccp_stream_write(h, "x", 1, -1));
    REFUSED(dccp_stream, conn, dccp_stream_end(h));
    REFUSED(dccp_stream, conn, dccp_stream_finish(h, -1));
    REFUSED(dccp_stream, conn, dccp_stream_reset(h, 7));
    REFUSED(dccp_stream, conn, dccp_stream_close(h));
    REFUSED(dccp_stream, conn, dccp_stream_fd(h));

    REFUSED(dccp_listener, conn, dccp_accept(h, -1, &new_conn));
    REFUSED(dccp_listener, conn, dccp_listener_fd(h));
    REFUSED(dccp_listener, conn, dccp_listener_address(h, bytes, sizeof bytes));
    REFUSED(dccp_listener, conn, dccp_add_peer(h, public_keys[0], NULL));
    REFUSED(dccp_listener, conn, dccp_remove_peer(h, public_keys[0]));
    REFUSED(dccp_listener, conn, dccp_listener_close(h));

    REFUSED(dccp_connector, conn, dccp_connector_connect(h, where, NULL, &new_conn));
    REFUSED(dccp_connector, conn, dccp_connector_close(h));

    REFUSED(dccp_endpoint, conn, dccp_endpoint_listen(h));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_connect(h, 1, 0, &to, 50000, &number));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_add_path(h, 1, 1, 0, &to, 50000));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_receive(h, 1, 0, &to, 0, bytes, sizeof bytes));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_transmit(h, 1, &packet));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_timeout(h));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_handle_timeout(h, 1));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_send(h, 1, 1, "x", 1));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_queued(h, 1));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_recv(h, &number, bytes, sizeof bytes));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_next_event(h, &event));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_close(h, 1, 1));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_free(h));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_peer_key(h, 1, bytes, sizeof bytes));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_open_stream(h, 1, 1, &number));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_stream_read(h, 1, 1, 1, bytes, sizeof bytes));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_stream_write(h, 1, 1, 1, "x", 1));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_stream_end(h, 1, 1, 1));
    REFUSED(dccp_endpoint, conn, dccp_endpoint_stream_reset(h, 1, 1, 1, 7));
}

/* Calls every function that takes a structure with a structure that is too small, and with a null pointer. */
static void wrong_sizes(struct dccp_conn *conn)
{
    struct dccp_peer peer = {.size = sizeof peer - 1, .public_key = public_keys[0]};
    struct dccp_options options = {.size = 1}, with_peer = {.size = sizeof with_peer, .peers = &peer, .peer_count = 1};
    struct dccp_path path = {.size = sizeof path - 1, .local = "127.0.0.1"};
    struct dccp_stats stats = {.size = 1};
    struct dccp_path_stats path_stats = {.size = 1};
    struct dccp_event event = {.size = 1};
    struct dccp_packet packet = {.size = 1};
    struct dccp_conn *new_conn;
    struct dccp_connector *connector;
    struct dccp_listener *new_listener;
    struct dccp_endpoint *endpoint;
    unsigned char seed[32] = {1};

    EXPECT(dccp_connect(where, &options, &new_conn), -EINVAL);
    EXPECT(dccp_connector_new(&options, &connector), -EINVAL);
    EXPECT(dccp_connector_new(NULL, NULL), -EINVAL);
    EXPECT(dccp_listen("127.0.0.1:0", &options, &new_listener), -EINVAL);
    EXPECT(dccp_listen("127.0.0.1:0", NULL, NULL), -EINVAL);
    EXPECT(dccp_listen(NULL, NULL, &new_listener), -EINVAL);
    EXPECT(dccp_endpoint_new(seed, &options, &endpoint), -EINVAL);
    with_peer.private_key = private_keys[1];
    EXPECT(dccp_listen("127.0.0.1:0", &with_peer, &new_listener), -EINVAL);
    with_peer.peers = NULL;
    EXPECT(dccp_listen("127.0.0.1:0", &with_peer, &new_listener), -EINVAL);
    EXPECT(dccp_add_path(conn, &path), -EINVAL);
    EXPECT(dccp_get_stats(conn, &stats), -EINVAL);
    EXPECT(dccp_get_path_stats(conn, 0, &path_stats), -EINVAL);
    EXPECT(dccp_get_path_stats(conn, 0, NULL), -EINVAL);
    EXPECT(dccp_next_event(conn, 0, &event), -EINVAL);
    EXPECT(dccp_endpoint_new(seed, NULL, &endpoint), 0);
    EXPECT(dccp_endpoint_transmit(endpoint, 1, &packet), -EINVAL);
    EXPECT(dccp_endpoint_transmit(endpoint, 1, NULL), -EINVAL);
    EXPECT(dccp_endpoint_next_event(endpoint, &event), -EINVAL);
    EXPECT(dccp_endpoint_next_event(endpoint, NULL), -EINVAL);
    EXPECT(dccp_endpoint_receive(endpoint, 1, 0, NULL, 0, "x", 1), -EINVAL);
    EXPECT(dccp_endpoint_free(endpoint), 0);
}

/* Makes calls that the state of the connection does not allow. */
static void wrong_states(struct dccp_conn *conn)
{
    struct dccp_path path = {.size = sizeof path, .local = "127.0.0.1"};
    char text[DCCP_ADDRESS_SIZE];

    EXPECT(strlen(dccp_version()) > 0, 1);
    EXPECT(dccp_listener_fd(listener) > 0, 1);
    /* This is not a multipath session, so no path can be added, and there is only path 0. */
    EXPECT(dccp_is_multipath(conn), 0);
    EXPECT(dccp_add_path(conn, &path), -EINVAL);
    EXPECT(dccp_remove_path(conn, 1), -ENOENT);
    EXPECT(dccp_set_priority(conn, 1, 3), -ENOENT);
    EXPECT(dccp_local_address(conn, text, 3), -ERANGE);
    EXPECT(dccp_local_address(conn, NULL, 3), -EINVAL);
    EXPECT(dccp_local_address(conn, text, sizeof text) > 0, 1);
    EXPECT(strncmp(text, "127.0.0.1:", 10), 0);
    EXPECT(dccp_service(conn, text, 1), -ERANGE);
    EXPECT(dccp_service(conn, NULL, 3), -EINVAL);
    EXPECT(dccp_service(conn, text, sizeof text) > 0, 1);
    EXPECT(dccp_peer_said(conn, text, sizeof text), -ENODATA);
    /* The listener has no key. */
    EXPECT(dccp_add_peer(listener, public_keys[0], NULL), -EINVAL);
    EXPECT(dccp_remove_peer(listener, public_keys[0]), -EINVAL);
    EXPECT(dccp_remove_peer(listener, NULL), -EINVAL);
    EXPECT(dccp_remove_peer(listener, "no key"), -EINVAL);
}

static void batches(struct dccp_conn *conn, struct dccp_conn *peer)
{
    char in[3][8], out[3][8] = {"one", "two", "three"};
    struct dccp_msg sent[3], received[3];
    unsigned count = 0;

    for (int n = 0; n < 3; n++) {
        sent[n] = (struct dccp_msg){.data = out[n], .len = strlen(out[n])};
        received[n] = (struct dccp_msg){.data = in[n], .len = sizeof in[n]};
    }
    EXPECT(dccp_sendmmsg(conn, sent, 3, -1), 3);
    while (count < 3) {
        int more = dccp_recvmmsg(peer, received + count, 3 - count, 20000);
        EXPECT(more > 0, 1);
        count += (unsigned)more;
    }
    for (int n = 0; n < 3; n++)
        EXPECT(received[n].len == sent[n].len && memcmp(in[n], out[n], sent[n].len) == 0, 1);
}

static void descriptors(struct dccp_conn *conn, struct dccp_conn *peer)
{
    struct pollfd pollfd = {.fd = dccp_fd(conn), .events = POLLIN};
    struct dccp_event event = {.size = sizeof event};
    char datagram[8];

    while (dccp_next_event(conn, 0, &event) == 0)
        ;
    EXPECT(dccp_events(conn), DCCP_WRITABLE);
    EXPECT(poll(&pollfd, 1, 0), 0);
    EXPECT(dccp_send(peer, "ping", 4, -1), 4);
    EXPECT(poll(&pollfd, 1, 20000), 1);
    EXPECT(dccp_events(conn), DCCP_WRITABLE | DCCP_READABLE);
    EXPECT(dccp_recv(conn, datagram, sizeof datagram, 0), 4);
    EXPECT(poll(&pollfd, 1, 0), 0);
    EXPECT(dccp_finish(peer, 20000), 0);
    EXPECT(dccp_send(peer, "late", 4, 0), -EPIPE);
    /* Other events, such as a new datagram size, may come before. */
    EXPECT(poll(&pollfd, 1, 20000), 1);
    for (int tries = 0; tries < 2000 && !(dccp_events(conn) & DCCP_CLOSED); tries++)
        poll(NULL, 0, 10);
    EXPECT(dccp_events(conn) & DCCP_CLOSED, DCCP_CLOSED);
    EXPECT(dccp_recv(conn, datagram, sizeof datagram, -1), 0);
    EXPECT(dccp_end(conn), 0);
    do
        EXPECT(dccp_next_event(conn, -1, &event), 0);
    while (event.kind != DCCP_EVENT_CLOSED);
    EXPECT(strcmp(event.reason, "closed_by_peer"), 0);
    EXPECT(dccp_next_event(conn, -1, &event), -EPIPE);
}

static void *read_stream(void *stream)
{
    char bytes[100];
    return (void *)(intptr_t)dccp_stream_read(stream, bytes, sizeof bytes, -1);
}

static void close_stream(void *stream)
{
    EXPECT(dccp_stream_close(stream), 0);
}

static void *accept_stream(void *conn)
{
    struct dccp_stream *stream;
    return (void *)(intptr_t)dccp_accept_stream(conn, -1, &stream);
}

static void streams(void)
{
    struct dccp_options options = {.size = sizeof options, .flags = DCCP_STREAMS, .dscp = 64};
    struct dccp_listener *with_streams;
    struct dccp_conn *conn, *peer;
    struct dccp_stream *stream, *theirs;
    pid_t child;
    int status;
    char bytes[100];

    EXPECT(dccp_listen("127.0.0.1:0", &options, &with_streams), -EINVAL);
    options.dscp = 256;
    EXPECT(dccp_listen("127.0.0.1:0", &options, &with_streams), -EINVAL);
    options.dscp = 10;
    EXPECT(dccp_listen("127.0.0.1:0", &options, &with_streams), 0);
    EXPECT(dccp_listener_address(with_streams, bytes, sizeof bytes) > 0, 1);
    EXPECT(dccp_connect(bytes, &options, &conn), 0);
    EXPECT(dccp_accept(with_streams, 20000, &peer), 0);
    EXPECT(dccp_open_stream(conn, NULL), -EINVAL);
    EXPECT(dccp_accept_stream(peer, 0, &theirs), -EAGAIN);
    EXPECT(dccp_accept_stream(peer, 10, &theirs), -ETIMEDOUT);
    EXPECT(dccp_open_stream(conn, &stream), 0);
    EXPECT(dccp_stream_write(stream, "hello", 5, -1), 5);
    EXPECT(dccp_stream_write(stream, NULL, 5, -1), -EINVAL);
    EXPECT(dccp_accept_stream(peer, 20000, &theirs), 0);
    EXPECT(dccp_stream_fd(theirs) > 0, 1);
    child = fork();
    if (child == 0)
        _exit(dccp_stream_read(theirs, bytes, sizeof bytes, -1) != -EPERM || dccp_stream_end(stream) != -EPERM ||
              dccp_stream_fd(stream) != -EPERM);
    waitpid(child, &status, 0);
    EXPECT(status, 0);
    EXPECT(dccp_stream_read(theirs, bytes, sizeof bytes, 20000), 5);
    EXPECT(dccp_stream_read(theirs, bytes, sizeof bytes, 0), -EAGAIN);
    EXPECT(dccp_recv((struct dccp_conn *)stream, bytes, sizeof bytes, 0), -EBADF);
    EXPECT(in_thread(read_stream, theirs, close_stream), -ECONNABORTED);
    EXPECT(dccp_stream_read(theirs, bytes, sizeof bytes, 0), -EBADF);
    EXPECT(dccp_stream_end(stream), 0);
    EXPECT(dccp_stream_write(stream, "more", 4, -1), -EPIPE);
    EXPECT(dccp_stream_close(stream), 0);
    EXPECT(dccp_open_stream(conn, &stream), 0);
    EXPECT(dccp_stream_write(stream, "x", 1, -1), 1);
    EXPECT(dccp_accept_stream(peer, 20000, &theirs), 0);
    EXPECT(dccp_stream_read(theirs, bytes, sizeof bytes, 20000), 1);
    EXPECT(dccp_stream_reset(stream, 7), 0);
    EXPECT(dccp_stream_read(theirs, bytes, sizeof bytes, 20000), -ECONNRESET);
    EXPECT(dccp_stream_finish(theirs, 20000), -EPIPE);
    EXPECT(dccp_stream_close(theirs), 0);
    EXPECT(dccp_probe(conn, 1000000, 100), 0);

    /* After an orderly end, a stream without its end is incomplete. */
    EXPECT(dccp_open_stream(conn, &stream), 0);
    EXPECT(dccp_accept_stream(peer, 20000, &theirs), 0);
    EXPECT(in_thread(accept_stream, conn, close_conn), -ECONNABORTED);
    EXPECT(dccp_accept_stream(peer, 20000, NULL), -EINVAL);
    EXPECT(dccp_stream_read(theirs, bytes, sizeof bytes, 20000), -ECONNRESET);
    EXPECT(dccp_stream_write(theirs, "x", 1, 20000), -EPIPE);
    EXPECT(dccp_stream_close(theirs), 0);
    EXPECT(dccp_accept_stream(peer, 20000, &theirs), -EPIPE);
    EXPECT(dccp_stream_close(stream), 0);
    EXPECT(dccp_close(peer), 0);
    EXPECT(dccp_listener_close(with_streams), 0);
}

/* Runs one step (5 ms) of a lossless link between two endpoints whose clocks show 2026. The client's events go to
 * `seen`. */
static void turn(struct dccp_endpoint **ends, const struct dccp_address *at, uint64_t *now, char *bytes, size_t room)
{
    struct dccp_packet packet = {.size = sizeof packet, .data = bytes, .len = room};

    for (int n = 0; n < 2; n++) {
        EXPECT(dccp_endpoint_handle_timeout(ends[n], *now), 0);
        packet.len = room;
        while (dccp_endpoint_transmit(ends[n], *now, &packet) == 1) {
            EXPECT(packet.to.port, at[1 - n].port);
            EXPECT(packet.socket, 5);
            /* The packet is encrypted. */
            EXPECT(memmem(bytes, packet.len, "in secret", 9) == NULL, 1);
            EXPECT(dccp_endpoint_receive(ends[1 - n], *now, 5, &at[n], packet.ecn, bytes, packet.len), 0);
            packet.len = room;
        }
    }
    *now += 5000000;
}

/* Tests keys and streams of endpoints, in virtual time. */
static void sealed_endpoints(void)
{
    struct dccp_peer peer = {.size = sizeof peer, .public_key = public_keys[1]};
    struct dccp_options options = {.size = sizeof options, .flags = DCCP_STREAMS};
    struct dccp_endpoint *ends[2];
    unsigned char seeds[2][32] = {{1}, {2}};
    char bytes[2000], text[2000];
    struct dccp_event event = {.size = sizeof event};
    struct dccp_address at[2] = {{.ip = {192, 0, 2, 1}, .version = 4, .port = 1}, {.ip = {192, 0, 2, 2}, .version = 4, .port = 2}};
    uint64_t session, theirs = 0, stream, accepted = 99, now = 1790000000000000000;
    int opened = 0, delivered = 0, reset = 0;

    options.private_key = private_keys[0];
    EXPECT(dccp_endpoint_new(seeds[0], &options, &ends[0]), 0);
    EXPECT(dccp_endpoint_connect(ends[0], now, 5, &at[1], 50000, &session), -EINVAL);
    EXPECT(dccp_endpoint_free(ends[0]), 0);
    options.peers = &peer;
    options.peer_count = 1;
    EXPECT(dccp_endpoint_new(seeds[0], &options, &ends[0]), 0);
    options = (struct dccp_options){.size = sizeof options, .flags = DCCP_STREAMS | DCCP_ANY_PEER, .private_key = private_keys[1]};
    EXPECT(dccp_endpoint_new(seeds[1], &options, &ends[1]), 0);
    EXPECT(dccp_endpoint_listen(ends[1]), 0);
    EXPECT(dccp_endpoint_connect(ends[0], now, 1u << 31, &at[1], 50000, &session), -EINVAL);
    EXPECT(dccp_endpoint_connect(ends[0], now, 5, &at[1], 50000, &session), 0);
    EXPECT(dccp_endpoint_open_stream(ends[0], now, session, &stream), -EOPNOTSUPP);
    EXPECT(dccp_endpoint_open_stream(ends[0], now, session, NULL), -EINVAL);
    for (int n = 0; n < 40; n++) {
        turn(ends, at, &now, bytes, sizeof bytes);
        while (dccp_endpoint_next_event(ends[0], &event) == 1) {
            opened |= event.kind == DCCP_EVENT_OPENED;
            delivered |= event.kind == DCCP_EVENT_STREAM_DELIVERED && event.stream == stream;
            reset |= event.kind == DCCP_EVENT_STREAM_RESET && event.code == 77;
        }
        while (dccp_endpoint_next_event(ends[1], &event) == 1) {
            theirs = event.session;
            if (event.kind == DCCP_EVENT_STREAM_OPENED)
                accepted = event.stream;
        }
        if (n == 10) {
            EXPECT(opened, 1);
            EXPECT(dccp_endpoint_send(ends[0], now, session, "in secret", 9), 0);
            EXPECT(dccp_endpoint_open_stream(ends[0], now, session, &stream), 0);
            EXPECT(dccp_endpoint_stream_write(ends[0], now, session, stream, "in secret", 9), 9);
            EXPECT(dccp_endpoint_stream_read(ends[0], now, session, stream, text, sizeof text), -EAGAIN);
            EXPECT(dccp_endpoint_stream_end(ends[0], now, session, stream), 0);
            EXPECT(dccp_endpoint_stream_write(ends[0], now, session, stream, "more", 4), -EPIPE);
        }
        if (n == 20) {
            EXPECT(delivered, 1);
            EXPECT(dccp_endpoint_recv(ends[1], &theirs, text, sizeof text), 9);
            EXPECT(dccp_endpoint_stream_read(ends[1], now, theirs, accepted, text, sizeof text), 9);
            EXPECT(dccp_endpoint_stream_read(ends[1], now, theirs, accepted, text, sizeof text), 0);
            EXPECT(dccp_endpoint_stream_reset(ends[1], now, theirs, accepted, 77), 0);
        }
    }
    EXPECT(reset, 1);
    EXPECT(dccp_endpoint_stream_read(ends[1], now, theirs, 998, text, sizeof text), -EBADF);
    EXPECT(dccp_endpoint_peer_key(ends[0], session, text, sizeof text), 44);
    EXPECT(strcmp(text, public_keys[1]), 0);
    EXPECT(dccp_endpoint_peer_key(ends[1], theirs, text, sizeof text), 44);
    EXPECT(strcmp(text, public_keys[0]), 0);
    EXPECT(dccp_endpoint_peer_key(ends[1], 998, text, sizeof text), -ENOTCONN);
    EXPECT(dccp_endpoint_add_path(ends[0], now, 998, 5, &at[1], 50001), -ENOTCONN);
    EXPECT(dccp_endpoint_open_stream(ends[0], now, session, &stream), 0);
    EXPECT(dccp_endpoint_stream_write(ends[0], now, session, stream, "the rest", 8), 8);
    for (int n = 0; n < 20; n++)
        turn(ends, at, &now, bytes, sizeof bytes);
    while (dccp_endpoint_next_event(ends[1], &event) == 1)
        if (event.kind == DCCP_EVENT_STREAM_OPENED)
            accepted = event.stream;
    /* The peer learns of the end although the channel closes with the session, and can still read the stream. */
    EXPECT(dccp_endpoint_close(ends[0], now, session), 0);
    for (int n = 0; n < 40; n++) {
        while (dccp_endpoint_next_event(ends[0], &event) == 1)
            ;
        turn(ends, at, &now, bytes, sizeof bytes);
        if (n == 5)
            EXPECT(dccp_endpoint_stream_read(ends[1], now, theirs, accepted, text, sizeof text), 8);
        while (n >= 5 && dccp_endpoint_next_event(ends[1], &event) == 1)
            opened += event.kind == DCCP_EVENT_CLOSED && event.error == 0;
    }
    EXPECT(opened, 2);
    for (int n = 0; n < 2; n++)
        EXPECT(dccp_endpoint_free(ends[n]), 0);
}

/* Tests two endpoints over a lossless link in virtual time, and the errors of wrong calls. */
static void endpoints(void)
{
    struct dccp_options options = {.size = sizeof options};
    struct dccp_endpoint *ends[2];
    unsigned char seeds[2][32] = {{1}, {2}};
    char bytes[2000], text[2000];
    struct dccp_packet packet = {.size = sizeof packet, .data = bytes, .len = sizeof bytes};
    struct dccp_event event = {.size = sizeof event};
    struct dccp_address at[2] = {{.ip = {192, 0, 2, 1}, .version = 4, .port = 1}, {.ip = {192, 0, 2, 2}, .version = 4, .port = 2}};
    struct dccp_address nowhere = {.version = 5};
    uint64_t session, theirs = 99, now = 1;
    int opened = 0, probes[2] = {0, 0};

    EXPECT(dccp_endpoint_new(NULL, &options, &ends[0]), -EINVAL);
    EXPECT(dccp_endpoint_new(seeds[0], &options, NULL), -EINVAL);
    options.ccid = 99;
    EXPECT(dccp_endpoint_new(seeds[0], &options, &ends[0]), -EINVAL);
    options.ccid = 2;
    for (int n = 0; n < 2; n++, options.flags = DCCP_NO_MTU_PROBING)
        EXPECT(dccp_endpoint_new(seeds[n], &options, &ends[n]), 0);
    EXPECT(dccp_endpoint_timeout(ends[0]), INT64_MAX);
    EXPECT(dccp_endpoint_connect(ends[0], now, 0, &nowhere, 50000, &session), -EINVAL);
    EXPECT(dccp_endpoint_connect(ends[0], now, 0, NULL, 50000, &session), -EINVAL);
    EXPECT(dccp_endpoint_connect(ends[0], now, 0, &at[1], 50000, NULL), -EINVAL);
    EXPECT(dccp_endpoint_receive(ends[0], now, 0x80000000, &at[1], 0, "x", 1), -EINVAL);
    EXPECT(dccp_endpoint_send(ends[0], now, 7, "x", 1), -ENOTCONN);
    EXPECT(dccp_endpoint_add_path(ends[0], now, 7, 0, &at[1], 50001), -ENOTCONN);
    EXPECT(dccp_endpoint_listen(ends[1]), 0);
    EXPECT(dccp_endpoint_connect(ends[0], now, 0, &at[1], 50000, &session), 0);
    packet.len = 3;
    EXPECT(dccp_endpoint_transmit(ends[0], now, &packet), -EMSGSIZE);
    for (int turn = 0; turn < 20; turn++, now += 5000000) {
        for (int n = 0; n < 2; n++) {
            EXPECT(dccp_endpoint_handle_timeout(ends[n], now), 0);
            packet.len = sizeof bytes;
            while (dccp_endpoint_transmit(ends[n], now, &packet) == 1) {
                EXPECT(packet.to.port, at[1 - n].port);
                probes[n] += packet.len > 1400;
                EXPECT(dccp_endpoint_receive(ends[1 - n], now, 0, &at[n], packet.ecn, bytes, packet.len), 0);
                packet.len = sizeof bytes;
            }
        }
        while (dccp_endpoint_next_event(ends[0], &event) == 1)
            opened |= event.kind == DCCP_EVENT_OPENED && event.session == session;
        if (turn == 10)
            EXPECT(dccp_endpoint_send(ends[0], now, session, "hello", 5), 0);
    }
    EXPECT(opened, 1);
    EXPECT(probes[0] > 0, 1);
    EXPECT(probes[1], 0);
    EXPECT(dccp_endpoint_send(ends[0], now, session, text, sizeof text), -EMSGSIZE);
    EXPECT(dccp_endpoint_send(ends[0], now, session, "", 0), -EINVAL);
    EXPECT(dccp_endpoint_queued(ends[0], session), 0);
    EXPECT(dccp_endpoint_recv(ends[1], &theirs, text, 2), -EMSGSIZE);
    EXPECT(dccp_endpoint_recv(ends[1], &theirs, text, sizeof text), 5);
    EXPECT(theirs != 99, 1);
    EXPECT(dccp_endpoint_recv(ends[1], &theirs, text, sizeof text), -EAGAIN);
    /* Invalid packets and a clock that goes back do no harm. */
    memset(bytes, 0xff, sizeof bytes);
    for (size_t len = 0; len < 60; len++)
        EXPECT(dccp_endpoint_receive(ends[1], len, 0, &at[0], 9, bytes, len), 0);
    EXPECT(dccp_endpoint_close(ends[0], now, session), 0);
    for (int n = 0; n < 2; n++)
        EXPECT(dccp_endpoint_free(ends[n]), 0);
    EXPECT(dccp_endpoint_free(ends[0]), -EBADF);
    EXPECT(dccp_endpoint_listen(ends[0]), -EBADF);
}

int main(void)
{
    struct dccp_options later = {.size = sizeof later, .flags = DCCP_NONBLOCK};
    struct dccp_connector *connector;
    struct dccp_conn *conn, *peer;
    struct pollfd pollfd = {.events = POLLIN};
    char text[100];

    EXPECT(dccp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT(dccp_listener_address(listener, where, sizeof where) > 0, 1);
    arguments();
    EXPECT(dccp_accept(listener, 20000, &peer), 0);
    EXPECT(dccp_close(peer), 0);
    EXPECT(dccp_close(peer), -EBADF);
    EXPECT(dccp_recv(peer, where, 0, 0), -EBADF);

    EXPECT(dccp_connector_new(&later, &connector), 0);
    EXPECT(dccp_connector_connect(connector, where, NULL, &conn), 0);
    pollfd.fd = dccp_fd(conn);
    EXPECT(poll(&pollfd, 1, 20000), 1);
    EXPECT(dccp_connected(conn), 0);
    EXPECT(dccp_connector_close(connector), 0);
    EXPECT(dccp_connector_close(connector), -EBADF);
    EXPECT(dccp_accept(listener, 20000, &peer), 0);
    handles(conn, peer);
    wrong_handles(conn);
    wrong_sizes(conn);
    wrong_states(conn);
    batches(conn, peer);
    descriptors(conn, peer);
    EXPECT(dccp_close(conn), 0);
    EXPECT(dccp_close(peer), 0);

    EXPECT(dccp_connect(where, NULL, &conn), 0);
    EXPECT(dccp_accept(listener, 20000, &peer), 0);
    EXPECT(in_thread(receive, conn, close_conn), -ECONNABORTED);
    EXPECT(dccp_close(peer), 0);

    EXPECT(dccp_connect(where, NULL, &conn), 0);
    EXPECT(dccp_accept(listener, 20000, &peer), 0);
    EXPECT(dccp_abort(peer, "enough"), 0);
    EXPECT(dccp_recv(conn, text, sizeof text, -1), -ECONNRESET);
    EXPECT(dccp_peer_said(conn, text, sizeof text), 6);
    EXPECT(strcmp(text, "enough"), 0);
    EXPECT(dccp_close(conn), 0);
    EXPECT(dccp_connect(where, NULL, &conn), 0);
    EXPECT(dccp_open_stream(conn, (struct dccp_stream **)&peer), -EOPNOTSUPP);
    EXPECT(dccp_close(conn), 0);
    EXPECT(dccp_accept(listener, 20000, &peer), 0);
    EXPECT(dccp_close(peer), 0);
    streams();
    endpoints();
    sealed_endpoints();
    EXPECT(in_thread(accept_one, NULL, close_listener), -ECONNABORTED);
    puts("all as the header says");
    return 0;
}
