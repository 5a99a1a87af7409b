/* Sends a file over a reliable stream, over one path or several:
 * file receive ADDR:PORT FILE, file send ADDR:PORT FILE [LOCAL-ADDRESS]... */
#include <dccp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(long result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, strerror((int)-result), dccp_last_error());
        exit(1);
    }
}

static FILE *open_or_exit(const char *name, const char *mode)
{
    FILE *file = fopen(name, mode);

    if (!file) {
        perror(name);
        exit(1);
    }
    return file;
}

static void receive(const char *address, const char *name)
{
    struct dccp_options options = {.size = sizeof options, .flags = DCCP_STREAMS, .service = "SC:file"};
    struct dccp_listener *listener;
    struct dccp_conn *conn;
    struct dccp_stream *stream;
    char buffer[65536], where[DCCP_ADDRESS_SIZE];
    FILE *file = open_or_exit(name, "wb");
    ssize_t len;

    check(dccp_listen(address, &options, &listener), "listen");
    check(dccp_listener_address(listener, where, sizeof where), "address");
    printf("listening on %s\n", where);
    fflush(stdout);
    check(dccp_accept(listener, -1, &conn), "accept");
    check(dccp_accept_stream(conn, -1, &stream), "accept a stream");
    while ((len = dccp_stream_read(stream, buffer, sizeof buffer, -1)) > 0)
        fwrite(buffer, 1, (size_t)len, file);
    check(len, "read");
    if (fclose(file))
        perror(name);
    dccp_stream_close(stream);
    /* The sender closes. A receiver that exits earlier may not have acknowledged the last bytes. */
    while (dccp_recv(conn, buffer, sizeof buffer, -1) > 0)
        ;
    dccp_close(conn);
}

static void send_file(const char *address, const char *name, char **locals, int paths)
{
    struct dccp_options options = {.size = sizeof options, .flags = DCCP_STREAMS, .service = "SC:file"};
    struct dccp_path lines[8];
    struct dccp_conn *conn;
    struct dccp_stream *stream;
    char buffer[65536];
    FILE *file = open_or_exit(name, "rb");
    size_t len;

    for (int n = 0; n < paths && n < 8; n++)
        lines[n] = (struct dccp_path){.size = sizeof lines[n], .local = locals[n]};
    options.paths = lines;
    options.path_count = paths < 8 ? (size_t)paths : 8;
    check(dccp_connect(address, &options, &conn), "connect");
    check(dccp_open_stream(conn, &stream), "open a stream");
    while ((len = fread(buffer, 1, sizeof buffer, file)) > 0)
        for (size_t done = 0; done < len;) {
            ssize_t taken = dccp_stream_write(stream, buffer + done, len - done, -1);

            check(taken, "write");
            done += (size_t)taken;
        }
    fclose(file);
    check(dccp_stream_finish(stream, -1), "finish"); /* the peer has everything */
    dccp_stream_close(stream);
    check(dccp_finish(conn, 5000), "close");
    dccp_close(conn);
}

int main(int argc, char **argv)
{
    if (argc == 4 && !strcmp(argv[1], "receive"))
        receive(argv[2], argv[3]);
    else if (argc >= 4 && !strcmp(argv[1], "send"))
        send_file(argv[2], argv[3], argv + 4, argc - 4);
    else {
        fprintf(stderr, "usage: file receive ADDR:PORT FILE | send ADDR:PORT FILE [LOCAL-ADDRESS]...\n");
        return 2;
    }
    return 0;
}
