/*
 * DCCP (RFC 4340) and Multipath DCCP (RFC 9897) in user space: datagrams with congestion control.
 *
 * Errors. Functions that return int or ssize_t return a negative errno value on failure; dccp_last_error() has the
 * reason in words. A null argument, a structure of a wrong size or a value out of range is -EINVAL. A handle that was
 * closed, or is of another kind, is -EBADF. In a child of fork(), handles of the parent are -EPERM.
 *
 * Handles are not pointers to memory: no call with a wrong one is undefined. Every function may be called from
 * every thread.
 *
 * Timeouts are milliseconds: negative waits without limit, 0 does not wait (-EAGAIN), otherwise -ETIMEDOUT after that
 * time.
 *
 * Structures begin with their size, which the caller sets to sizeof. Zero in any other member of dccp_options,
 * dccp_path or dccp_peer means its default, so that later versions can add members.
 *
 * Strings are UTF-8, end with a null byte, and are copied.
 */

#ifndef DCCP_H
#define DCCP_H

/* Generated from the Rust source by cbindgen: UPDATE=1 cargo test -p libdccp writes it. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * In dccp_events(): dccp_recv() does not wait.
 */
#define DCCP_READABLE 1

/**
 * In dccp_events(): dccp_send() does not wait.
 */
#define DCCP_WRITABLE 2

/**
 * In dccp_events(): dccp_next_event() does not wait.
 */
#define DCCP_EVENT 4

/**
 * In dccp_events(): the connection is over. Datagrams that arrived before may still wait.
 */
#define DCCP_CLOSED 8

/**
 * In dccp_events(): dccp_accept_stream() does not wait.
 */
#define DCCP_STREAM 16

/**
 * Room for every address, with its port and a null byte.
 */
#define DCCP_ADDRESS_SIZE 64

/**
 * Room for every key in base64, with a null byte.
 */
#define DCCP_KEY_SIZE 45

/**
 * Room for every reason.
 */
#define DCCP_REASON_SIZE 32

/**
 * A path carries data, or does so again.
 */
#define DCCP_EVENT_PATH_UP 1

/**
 * A path is silent or its link is down; the connection goes on without it.
 */
#define DCCP_EVENT_PATH_SUSPECT 2

/**
 * A path is gone.
 */
#define DCCP_EVENT_PATH_DOWN 3

/**
 * dccp_max_datagram() changed.
 */
#define DCCP_EVENT_SIZE 4

/**
 * The connection is over.
 */
#define DCCP_EVENT_CLOSED 5

/**
 * What congestion control allows has changed by as much as dccp_options.tell_rate says.
 */
#define DCCP_EVENT_RATE 6

/**
 * The path leaves through the interface of another, and not through the one that has its address: they are one line.
 */
#define DCCP_EVENT_PATH_STRAYS 7

/**
 * A session of a dccp_endpoint is open; dccp_connected() tells of others.
 */
#define DCCP_EVENT_OPENED 8

/**
 * In dccp_event.kind: the peer opened a stream of a dccp_endpoint's session. It can be read and written.
 */
#define DCCP_EVENT_STREAM_OPENED 9

/**
 * In dccp_event.kind: there are bytes to read on a stream of a dccp_endpoint, or the end.
 */
#define DCCP_EVENT_STREAM_READABLE 10

/**
 * In dccp_event.kind: there is room on a stream of a dccp_endpoint that had none.
 */
#define DCCP_EVENT_STREAM_WRITABLE 11

/**
 * In dccp_event.kind: the peer has all that was written on a stream of a dccp_endpoint, to the end.
 */
#define DCCP_EVENT_STREAM_DELIVERED 12

/**
 * In dccp_event.kind: the peer gave a stream of a dccp_endpoint up.
 */
#define DCCP_EVENT_STREAM_RESET 13

/**
 * The handshake is under way.
 */
#define DCCP_PATH_CONNECTING 1

/**
 * It carries data.
 */
#define DCCP_PATH_UP 2

/**
 * It is silent, or its link is down.
 */
#define DCCP_PATH_SUSPECT 3

/**
 * It is closed.
 */
#define DCCP_PATH_DOWN 4

/**
 * It carries data only while no other path can.
 */
#define DCCP_PATH_STANDBY 5

/**
 * In dccp_options.flags: ask for a multipath session, to which paths can be added. Two paths imply it.
 */
#define DCCP_MULTIPATH 1

/**
 * In dccp_options.flags: dccp_connect() does not wait for the peer's answer; see dccp_connected().
 */
#define DCCP_NONBLOCK 2

/**
 * In dccp_options.flags: native DCCP, IP protocol 33, instead of DCCP in UDP. Needs CAP_NET_RAW.
 */
#define DCCP_RAW 4

/**
 * In dccp_options.flags: receive data that comes with the peer's first packet.
 */
#define DCCP_TAKE_EARLY_DATA 8

/**
 * In dccp_options.flags: short sequence numbers (RFC 4340 section 7.6.2).
 */
#define DCCP_SHORT_NUMBERS 16

/**
 * In dccp_options.flags: ask the peer for a CRC-32c of its data (RFC 4340 section 9.3).
 */
#define DCCP_DATA_CHECKSUM 32

/**
 * In dccp_options.flags: a listener with a key lets in every client that has one; see dccp_peer_key().
 */
#define DCCP_ANY_PEER 64

/**
 * In dccp_options.flags: reliable streams beside datagrams, in a multipath session; see dccp_open_stream().
 */
#define DCCP_STREAMS 128

/**
 * In dccp_options.send_policy: a sender waits while the queue is full. The default.
 */
#define DCCP_SEND_WAIT 0

/**
 * In dccp_options.send_policy: the oldest datagram is dropped.
 */
#define DCCP_SEND_DROP_OLDEST 1

/**
 * In dccp_options.send_policy: the new datagram is dropped.
 */
#define DCCP_SEND_DROP_NEWEST 2

/**
 * In dccp_options.send_policy: the oldest datagram of the lowest priority is dropped; higher priorities leave first.
 */
#define DCCP_SEND_PRIORITY 3

/**
 * In dccp_options.keepalive_ms: never.
 */
#define DCCP_NEVER UINT32_MAX

/**
 * A connection.
 */
struct dccp_conn;

/**
 * Makes connections that share one thread and, to the same peer, one socket.
 */
struct dccp_connector;

/**
 * All connections of one event loop, without socket, clock or thread. The program carries packets in UDP datagrams, and says what time it is.
 */
struct dccp_endpoint;

/**
 * A listener.
 */
struct dccp_listener;

/**
 * A reliable stream of bytes both ways.
 */
struct dccp_stream;

/**
 * A path of a multipath connection. One of local and interface is needed.
 */
struct dccp_path {
  /**
   * sizeof(struct dccp_path)
   */
  size_t size;
  /**
   * Address of this host, in numbers.
   */
  const char *local;
  /**
   * Network interface that it leaves through. An address alone does not bind a path to a line.
   */
  const char *interface;
  /**
   * Address and port of the peer, in numbers; NULL: where the connection goes.
   */
  const char *remote;
  /**
   * 1 standby, 2 overflow, 3 to 15 primary, larger preferred, -1 never (RFC 9897 section 3.2.10); 0 means 3.
   */
  int32_t priority;
};

/**
 * A peer and its keys, in base64 as WireGuard has them.
 */
struct dccp_peer {
  /**
   * sizeof(struct dccp_peer)
   */
  size_t size;
  /**
   * Its public key.
   */
  const char *public_key;
  /**
   * A secret shared beside the keys, or NULL.
   */
  const char *preshared_key;
};

/**
 * How connections are made and what they do. Zero, or NULL, means the default.
 */
struct dccp_options {
  /**
   * sizeof(struct dccp_options)
   */
  size_t size;
  /**
   * DCCP_MULTIPATH and the like.
   */
  uint32_t flags;
  /**
   * Congestion control of what this end sends: 2 as TCP, 3 and 4 TFRC, 5 BBR (the default), 7 CUBIC.
   */
  uint32_t ccid;
  /**
   * Service Code: "SC:chat", "SC=7". A listener can take several, with commas between them. Default: 0.
   */
  const char *service;
  /**
   * Network interface of all paths that do not name one. Default: any.
   */
  const char *interface;
  /**
   * Paths of a client's connection.
   */
  const struct dccp_path *paths;
  /**
   * How many.
   */
  size_t path_count;
  /**
   * Which path a packet takes, by name as in docs/schedulers.md.
   */
  const char *scheduler;
  /**
   * How datagrams of several paths are put in order: "passive" as they come, "adaptive" (the default).
   */
  const char *reordering;
  /**
   * Mark of all packets, for policy routing (SO_MARK). Needs CAP_NET_ADMIN.
   */
  uint32_t mark;
  /**
   * Datagrams that wait at most for the congestion window. Default: 16.
   */
  uint32_t queue;
  /**
   * How long a datagram waits at most, milliseconds; then it is dropped. Default: no limit.
   */
  uint32_t queue_time_ms;
  /**
   * DCCP_SEND_WAIT and the like: what happens when the queue is full.
   */
  uint32_t send_policy;
  /**
   * Received datagrams that wait at most for the application. Default: 4096.
   */
  uint32_t receive_queue;
  /**
   * Connections that wait at most to be accepted. Default: 128.
   */
  uint32_t backlog;
  /**
   * Bytes of received datagrams that wait at most in all connections of a listener or a connector. Default: 256 MiB.
   */
  size_t receive_memory;
  /**
   * Connections that a listener has at most. Default: 16384.
   */
  uint32_t max_connections;
  /**
   * Connections of one source at most. Default: a quarter of all.
   */
  uint32_t max_connections_per_source;
  /**
   * Largest IP packet, bytes, 576 to 65535. Default: 1500.
   */
  uint32_t mtu;
  /**
   * How long to wait for the peer's answer, milliseconds. Default: 5000.
   */
  uint32_t connect_timeout_ms;
  /**
   * How long a path may be idle before the peer is asked whether it is there, milliseconds. Default: 12000, 24000 at a
   * listener; DCCP_NEVER.
   */
  uint32_t keepalive_ms;
  /**
   * How long a connection lives on without any path that works, milliseconds. Default: 60000.
   */
  uint32_t survive_ms;
  /**
   * Private key of this end, in base64; encrypts. Default: no encryption.
   */
  const char *private_key;
  /**
   * Peers that are let in; a client connects to the first.
   */
  const struct dccp_peer *peers;
  /**
   * How many.
   */
  size_t peer_count;
  /**
   * Data to go with the first packet, 512 bytes at most. Whoever sees it can repeat it.
   */
  const void *early_data;
  /**
   * Its bytes.
   */
  size_t early_data_len;
  /**
   * File that gets a trace in qlog format.
   */
  const char *qlog;
  /**
   * UDP port that a client sends from. Default: any.
   */
  uint16_t source_udp_port;
  /**
   * DCCP port that a client sends from. Default: any.
   */
  uint16_t source_dccp_port;
  /**
   * DCCP port of the listener, inside UDP. Default: 5001.
   */
  uint16_t dccp_port;
  /**
   * Checksum coverage of what this end sends, 0 to 15 (RFC 4340 section 9.2). Only with DCCP_RAW.
   */
  uint8_t coverage;
  /**
   * Least checksum coverage that is accepted.
   */
  uint8_t min_coverage;
  /**
   * DSCP of IP headers, 0 to 63. Default: 0.
   */
  uint32_t dscp;
  /**
   * Percent by which what congestion control allows must change for a DCCP_EVENT_RATE, up to 255. Default: never.
   */
  uint32_t tell_rate;
};

/**
 * One datagram of dccp_sendmmsg() and dccp_recvmmsg().
 */
struct dccp_msg {
  /**
   * Its bytes.
   */
  void *data;
  /**
   * How many; to dccp_recvmmsg() the room there is, and from it the bytes received.
   */
  size_t len;
};

/**
 * An address as dccp_endpoint functions have it.
 */
struct dccp_address {
  /**
   * The address, 4 or 16 bytes in network byte order.
   */
  uint8_t ip[16];
  /**
   * 4 or 6.
   */
  uint16_t version;
  /**
   * UDP port, in host byte order.
   */
  uint16_t port;
  /**
   * Interface of a link-local IPv6 address.
   */
  uint32_t scope;
};

/**
 * A packet for the network.
 */
struct dccp_packet {
  /**
   * sizeof(struct dccp_packet)
   */
  size_t size;
  /**
   * Room for the payload of a UDP datagram; 65507 bytes are enough.
   */
  void *data;
  /**
   * How much room there is; from dccp_endpoint_transmit() the bytes of the packet.
   */
  size_t len;
  /**
   * Where it goes.
   */
  struct dccp_address to;
  /**
   * By which of the program's sockets.
   */
  uint32_t socket;
  /**
   * ECN field of the IP header.
   */
  uint32_t ecn;
};

/**
 * What happened to a connection.
 */
struct dccp_event {
  /**
   * sizeof(struct dccp_event)
   */
  size_t size;
  /**
   * DCCP_EVENT_PATH_UP and the like.
   */
  uint32_t kind;
  /**
   * Number of the path it happened to.
   */
  uint32_t path;
  /**
   * Largest datagram, bytes, of DCCP_EVENT_SIZE.
   */
  uint64_t max_datagram;
  /**
   * Negative errno value of an end that is an error; 0 for one in good order.
   */
  int32_t error;
  /**
   * Name of the reason of an end, such as "closed_by_peer".
   */
  char reason[DCCP_REASON_SIZE];
  /**
   * What congestion control allows, bits per second, of DCCP_EVENT_RATE.
   */
  uint64_t rate;
  /**
   * The path whose line it is, of DCCP_EVENT_PATH_STRAYS.
   */
  uint32_t other_path;
  /**
   * The session of a dccp_endpoint.
   */
  uint64_t session;
  /**
   * The stream of a dccp_endpoint's session, of DCCP_EVENT_STREAM_OPENED and the like.
   */
  uint64_t stream;
  /**
   * The peer's application's number of DCCP_EVENT_STREAM_RESET.
   */
  uint32_t code;
};

/**
 * Counters and state of a connection.
 */
struct dccp_stats {
  /**
   * sizeof(struct dccp_stats)
   */
  size_t size;
  /**
   * Datagrams taken from the application.
   */
  uint64_t sent;
  /**
   * Their bytes.
   */
  uint64_t sent_bytes;
  /**
   * Of them, still waiting for the window.
   */
  uint64_t queued;
  /**
   * Of them, dropped since no path could carry them any more.
   */
  uint64_t dropped;
  /**
   * Of them, dropped because the queue was full.
   */
  uint64_t displaced;
  /**
   * Of them, dropped because they had not left in time.
   */
  uint64_t expired;
  /**
   * Packets with data that congestion control takes for lost.
   */
  uint64_t lost;
  /**
   * Datagrams that arrived.
   */
  uint64_t received;
  /**
   * Their bytes.
   */
  uint64_t received_bytes;
  /**
   * Of them, dropped because the application did not fetch them.
   */
  uint64_t unread;
  /**
   * What the paths were seen to carry, bits per second; 0 while app_limited, since nobody knows then.
   */
  uint64_t rate;
  /**
   * What congestion control would let leave now, bits per second.
   */
  uint64_t allowed;
  /**
   * How long the oldest datagram has waited in the queue, microseconds; 0 while it is empty.
   */
  uint64_t oldest_us;
  /**
   * 1 if the application sends less than congestion control would let it.
   */
  uint32_t app_limited;
  /**
   * How many paths dccp_get_path_stats() knows.
   */
  uint32_t path_count;
};

/**
 * One path of a connection.
 */
struct dccp_path_stats {
  /**
   * sizeof(struct dccp_path_stats)
   */
  size_t size;
  /**
   * Its number.
   */
  uint32_t path;
  /**
   * DCCP_PATH_UP and the like.
   */
  uint32_t state;
  /**
   * Congestion control of what this end sends, 0 until it is agreed.
   */
  uint32_t ccid;
  /**
   * Congestion control of what the peer sends.
   */
  uint32_t peer_ccid;
  /**
   * Smoothed round-trip time, microseconds; 0 until it is known.
   */
  uint64_t rtt_us;
  /**
   * Congestion window, bytes.
   */
  uint64_t window;
  /**
   * What it was seen to carry, bits per second; 0 while the application limits it.
   */
  uint64_t rate;
  /**
   * What congestion control would let leave now, bits per second.
   */
  uint64_t allowed;
  /**
   * Packets with data that left.
   */
  uint64_t sent;
  /**
   * Of them, taken for lost.
   */
  uint64_t lost;
  /**
   * Address of the peer.
   */
  char peer[DCCP_ADDRESS_SIZE];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Version of the library, as "0.1.0".
 */
const char *dccp_version(void);

/**
 * Connects to a listener at an address such as "example.org:6511", "192.0.2.1:6511" or "[2001:db8::1]:6511"; options may be NULL. Of
 * several addresses of a name, to the first that answers; with DCCP_NONBLOCK to the first. Names are looked up meanwhile, which takes
 * time even then.
 */
int dccp_connect(const char *address,
                 const struct dccp_options *options,
                 struct dccp_conn **conn);

/**
 * Whether a connection made with DCCP_NONBLOCK is open: 0 then, -EINPROGRESS before, or why it failed. The descriptor becomes readable
 * when this changes.
 */
int dccp_connected(const struct dccp_conn *conn);

/**
 * Makes a connector, for programs with many connections: each dccp_connect() has a thread of its own. options may be NULL.
 */
int dccp_connector_new(const struct dccp_options *options,
                       struct dccp_connector **connector);

/**
 * As dccp_connect(), with the connector's options. With keys, peer is the public key of the peer in base64, or NULL for the first of the
 * options.
 */
int dccp_connector_connect(struct dccp_connector *connector,
                           const char *address,
                           const char *peer_key,
                           struct dccp_conn **conn);

/**
 * Closes a connector. Its connections go on.
 */
int dccp_connector_close(struct dccp_connector *connector);

/**
 * Queues a datagram and waits while the queue is full; its bytes. -EMSGSIZE above dccp_max_datagram(), -EINVAL if it is empty, -EPIPE
 * after the end.
 */
ptrdiff_t dccp_send(struct dccp_conn *conn,
                    const void *data,
                    size_t len,
                    int timeout_ms);

/**
 * As dccp_send(), with a priority for DCCP_SEND_PRIORITY, 0 to 255, and, unless it is 0, a time in milliseconds after which the datagram is
 * dropped if it has not left.
 */
ptrdiff_t dccp_send_with(struct dccp_conn *conn,
                         const void *data,
                         size_t len,
                         int timeout_ms,
                         unsigned int priority,
                         unsigned int expires_ms);

/**
 * Waits for a datagram and copies it; its bytes. 0 after the end in good order, -ECONNRESET or -ETIMEDOUT after any other; -EMSGSIZE if it
 * is larger than the buffer: it is still there then. -ECONNABORTED if another thread closes the connection.
 */
ptrdiff_t dccp_recv(struct dccp_conn *conn,
                    void *buffer,
                    size_t len,
                    int timeout_ms);

/**
 * Queues several datagrams; how many. Waits for the first alone: a later one that is not taken ends the call.
 */
int dccp_sendmmsg(struct dccp_conn *conn,
                  const struct dccp_msg *datagrams,
                  unsigned int count,
                  int timeout_ms);

/**
 * Waits for a datagram and receives all that are there, count at most; how many, 0 after the end in good order.
 */
int dccp_recvmmsg(struct dccp_conn *conn,
                  struct dccp_msg *datagrams,
                  unsigned int count,
                  int timeout_ms);

/**
 * A descriptor for poll() and epoll, for reading only: readable while datagrams wait and after the end, and after an event or when room came
 * that a sender did not find, until dccp_events() was called. Use it edge- or level-triggered. It belongs to the connection: do not read,
 * write or close it.
 */
int dccp_fd(struct dccp_conn *conn);

/**
 * What the connection is ready for: DCCP_READABLE and the like.
 */
int dccp_events(struct dccp_conn *conn);

/**
 * Adds a path to a client's multipath session; its number. Events tell when it is up.
 */
int dccp_add_path(struct dccp_conn *conn, const struct dccp_path *path_to_add);

/**
 * Closes a path in good order.
 */
int dccp_remove_path(struct dccp_conn *conn, unsigned int number);

/**
 * Changes a path's priority at both ends: 0 never, 1 standby, 2 overflow, 3 to 15 primary.
 */
int dccp_set_priority(struct dccp_conn *conn, unsigned int number, unsigned int priority);

/**
 * Changes the congestion control of what this end sends, on all paths, while data flows.
 */
int dccp_set_ccid(struct dccp_conn *conn, unsigned int ccid);

/**
 * Sends rate bits per second for a while, padding where there is nothing else to send, so that dccp_stats.allowed tells what the path carries
 * before the program sends more. Congestion control bounds it. The newest probe replaces one that is under way.
 */
int dccp_probe(struct dccp_conn *conn,
               uint64_t rate,
               unsigned int duration_ms);

/**
 * Sends what is queued and waits until it is acknowledged or given up for lost, and the connection closed. What came in can still be
 * received. The handle stays valid until dccp_close().
 */
int dccp_finish(struct dccp_conn *conn,
                int timeout_ms);

/**
 * Closes the handle, and the connection as dccp_finish() does, in the background: it takes as long as the process lives. Calls of other
 * threads that wait on it return -ECONNABORTED.
 */
int dccp_close(struct dccp_conn *conn);

/**
 * Closes the handle and ends the connection at once: what is queued is dropped. The peer gets the text, unless it is NULL.
 */
int dccp_abort(struct dccp_conn *conn,
               const char *why);

/**
 * Why it ended: 0 if it did in good order, -EINPROGRESS while it has not, or the negative errno value of the reason.
 */
int dccp_end(const struct dccp_conn *conn);

/**
 * Makes an endpoint. The seed is 32 bytes of the system's randomness: keys derive from it. Of the options those about sockets, paths and queues
 * have no meaning here. With a private key everything is encrypted; then times count from 1970, so that peers know a restarted endpoint's handshakes
 * for newer ones, and each connect is to the first of the peers.
 */
int dccp_endpoint_new(const uint8_t *seed,
                      const struct dccp_options *options,
                      struct dccp_endpoint **endpoint);

/**
 * Takes sessions from now on, at the DCCP port of the options.
 */
int dccp_endpoint_listen(struct dccp_endpoint *endpoint);

/**
 * Begins a session, by the number of a socket of the program's. It goes on in dccp_endpoint_transmit(). local_port is a DCCP port that no other
 * session to this peer has.
 */
int dccp_endpoint_connect(struct dccp_endpoint *endpoint,
                          uint64_t now_ns,
                          uint32_t socket,
                          const struct dccp_address *to,
                          uint16_t local_port,
                          uint64_t *session);

/**
 * Adds a path to a client's multipath session; its number.
 */
int dccp_endpoint_add_path(struct dccp_endpoint *endpoint,
                           uint64_t now_ns,
                           uint64_t session,
                           uint32_t socket,
                           const struct dccp_address *to,
                           uint16_t local_port);

/**
 * The payload of a UDP datagram came in on a socket of the program's, with this ECN field.
 */
int dccp_endpoint_receive(struct dccp_endpoint *endpoint,
                          uint64_t now_ns,
                          uint32_t socket,
                          const struct dccp_address *from,
                          uint32_t ecn,
                          const void *data,
                          size_t len);

/**
 * The next packet for the network: 1, or 0 if none may leave now. -EMSGSIZE if it is larger than the room; it is still there then.
 */
int dccp_endpoint_transmit(struct dccp_endpoint *endpoint,
                           uint64_t now_ns,
                           struct dccp_packet *packet);

/**
 * When to call dccp_endpoint_handle_timeout(), in nanoseconds of the program's clock; INT64_MAX for never.
 */
int64_t dccp_endpoint_timeout(const struct dccp_endpoint *endpoint);

/**
 * The time of dccp_endpoint_timeout() has come. Then ask dccp_endpoint_transmit() for packets.
 */
int dccp_endpoint_handle_timeout(struct dccp_endpoint *endpoint, uint64_t now_ns);

/**
 * Queues a datagram of a session. What the queue cannot hold is dropped; look at dccp_endpoint_queued() before.
 */
int dccp_endpoint_send(struct dccp_endpoint *endpoint,
                       uint64_t now_ns,
                       uint64_t session,
                       const void *data,
                       size_t len);

/**
 * How many datagrams of a session wait for the congestion window.
 */
int dccp_endpoint_queued(const struct dccp_endpoint *endpoint, uint64_t session);

/**
 * The next datagram that arrived, and of which session: its bytes, or -EAGAIN. -EMSGSIZE if it is larger than the buffer; it is still there
 * then.
 */
ptrdiff_t dccp_endpoint_recv(struct dccp_endpoint *endpoint,
                             uint64_t *session,
                             void *buffer,
                             size_t len);

/**
 * The next event: 1, or 0 if there is none. dccp_event.session says of which session.
 */
int dccp_endpoint_next_event(struct dccp_endpoint *endpoint, struct dccp_event *event);

/**
 * Closes a session in good order; what is queued is dropped.
 */
int dccp_endpoint_close(struct dccp_endpoint *endpoint, uint64_t now_ns, uint64_t session);

/**
 * Forgets the endpoint and all its sessions; their peers are not told.
 */
int dccp_endpoint_free(struct dccp_endpoint *endpoint);

/**
 * Writes the public key of a session's peer, in base64; its length. -ENODATA if the session is not encrypted.
 */
int dccp_endpoint_peer_key(const struct dccp_endpoint *endpoint,
                           uint64_t session,
                           char *into,
                           size_t size);

/**
 * Opens a stream of a session to the peer; its number. Both ends need DCCP_STREAMS, and the session is open: otherwise -EOPNOTSUPP. -EAGAIN while
 * the peer allows no more.
 */
int dccp_endpoint_open_stream(struct dccp_endpoint *endpoint,
                              uint64_t now_ns,
                              uint64_t session,
                              uint64_t *stream);

/**
 * Bytes of a stream: how many were read, 0 after the last. -EAGAIN if none are there; DCCP_EVENT_STREAM_READABLE tells of the next. -ECONNRESET if
 * either end gave the stream up.
 */
ptrdiff_t dccp_endpoint_stream_read(struct dccp_endpoint *endpoint,
                                    uint64_t now_ns,
                                    uint64_t session,
                                    uint64_t stream,
                                    void *buffer,
                                    size_t len);

/**
 * How many of the bytes were taken. -EAGAIN if there is no room; DCCP_EVENT_STREAM_WRITABLE tells when there is. -EPIPE if this end ended the
 * stream, -ECONNRESET if either end gave it up.
 */
ptrdiff_t dccp_endpoint_stream_write(struct dccp_endpoint *endpoint,
                                     uint64_t now_ns,
                                     uint64_t session,
                                     uint64_t stream,
                                     const void *data,
                                     size_t len);

/**
 * Writes no more on a stream: the peer reads to the end. Reading goes on. DCCP_EVENT_STREAM_DELIVERED tells when the peer has everything.
 */
int dccp_endpoint_stream_end(struct dccp_endpoint *endpoint,
                             uint64_t now_ns,
                             uint64_t session,
                             uint64_t stream);

/**
 * Gives both directions of a stream up at once. The peer is told the number, which is the application's.
 */
int dccp_endpoint_stream_reset(struct dccp_endpoint *endpoint,
                               uint64_t now_ns,
                               uint64_t session,
                               uint64_t stream,
                               uint16_t code);

/**
 * Why the last call of this thread that failed did, in words. Valid until the next one that fails.
 */
const char *dccp_last_error(void);

/**
 * Listens on an address of this host, such as "0.0.0.0:6511"; port 0 is any that is free. options may be NULL.
 */
int dccp_listen(const char *address,
                const struct dccp_options *options,
                struct dccp_listener **listener);

/**
 * Waits for the next connection.
 */
int dccp_accept(struct dccp_listener *listener, int timeout_ms, struct dccp_conn **conn);

/**
 * A descriptor for poll() and epoll, readable while a connection waits to be accepted. Do not read, write or close it.
 */
int dccp_listener_fd(struct dccp_listener *listener);

/**
 * Writes the address it listens on, as "192.0.2.1:6511" with a null byte; DCCP_ADDRESS_SIZE bytes are enough. Its length, or -ERANGE.
 */
int dccp_listener_address(const struct dccp_listener *listener,
                          char *into,
                          size_t size);

/**
 * Lets a peer in by its public key from now on; preshared_key may be NULL.
 */
int dccp_add_peer(struct dccp_listener *listener,
                  const char *public_key,
                  const char *preshared_key);

/**
 * Lets a peer in no more, and ends its connections.
 */
int dccp_remove_peer(struct dccp_listener *listener, const char *public_key);

/**
 * Closes it. Connections that were accepted go on; a thread that waits in dccp_accept() returns -ECONNABORTED.
 */
int dccp_listener_close(struct dccp_listener *listener);

/**
 * Counters and state of a connection.
 */
int dccp_get_stats(const struct dccp_conn *conn, struct dccp_stats *stats);

/**
 * State of the path of this index, from 0 up to dccp_stats.path_count; -ENOENT beyond.
 */
int dccp_get_path_stats(const struct dccp_conn *conn,
                        unsigned int index,
                        struct dccp_path_stats *stats);

/**
 * Waits for the next event, from the connection's beginning on; the newest 256 are kept. -EPIPE after DCCP_EVENT_CLOSED.
 */
int dccp_next_event(struct dccp_conn *conn,
                    int timeout_ms,
                    struct dccp_event *event);

/**
 * Largest datagram that all paths carry at present, bytes.
 */
ptrdiff_t dccp_max_datagram(const struct dccp_conn *conn);

/**
 * 1 if it is a multipath session (RFC 9897), otherwise 0.
 */
int dccp_is_multipath(const struct dccp_conn *conn);

/**
 * Writes the address of the peer when the connection opened; DCCP_ADDRESS_SIZE bytes are enough. Its length, or -ERANGE.
 */
int dccp_peer_address(const struct dccp_conn *conn,
                      char *into,
                      size_t size);

/**
 * Writes the address of this host that it was opened from or at, as dccp_peer_address() does.
 */
int dccp_local_address(const struct dccp_conn *conn, char *into, size_t size);

/**
 * Writes the peer's public key in base64; DCCP_KEY_SIZE bytes are enough. -ENODATA without encryption.
 */
int dccp_peer_key(const struct dccp_conn *conn,
                  char *into,
                  size_t size);

/**
 * Writes the Service Code of the connection.
 */
int dccp_service(const struct dccp_conn *conn, char *into, size_t size);

/**
 * Writes what the peer said when it ended the connection. -ENODATA if it said nothing.
 */
int dccp_peer_said(const struct dccp_conn *conn, char *into, size_t size);

/**
 * Opens a stream to the peer, which accepts it. Both ends need DCCP_STREAMS: otherwise -EOPNOTSUPP. -EAGAIN while the peer allows no more.
 */
int dccp_open_stream(struct dccp_conn *conn,
                     struct dccp_stream **stream);

/**
 * Waits for a stream that the peer opens. dccp_events() has DCCP_STREAM while one waits.
 */
int dccp_accept_stream(struct dccp_conn *conn, int timeout_ms, struct dccp_stream **stream);

/**
 * Waits for bytes; how many were read, 0 after the last. -ECONNRESET if the peer gave the stream up.
 */
ptrdiff_t dccp_stream_read(struct dccp_stream *stream,
                           void *buffer,
                           size_t len,
                           int timeout_ms);

/**
 * Waits for room; how many of the bytes were taken, at least one. -EPIPE if the peer wants no more, or this end ended the stream.
 */
ptrdiff_t dccp_stream_write(struct dccp_stream *stream,
                            const void *data,
                            size_t len,
                            int timeout_ms);

/**
 * Writes no more: the peer reads to the end. Reading goes on.
 */
int dccp_stream_end(struct dccp_stream *stream);

/**
 * Writes no more, and waits until the peer has everything.
 */
int dccp_stream_finish(struct dccp_stream *stream, int timeout_ms);

/**
 * Closes the handle, and gives both directions up at once. The peer is told the number, which is the application's.
 */
int dccp_stream_reset(struct dccp_stream *stream,
                      uint16_t code);

/**
 * Closes the handle. What was written still arrives while the connection lives; what the peer writes is not wanted any more.
 */
int dccp_stream_close(struct dccp_stream *stream);

/**
 * A descriptor for poll() and epoll, for reading only: readable while there are bytes or the end, and until the next call when room came
 * that a dccp_stream_write() did not find, or when the peer has everything. Do not read, write or close it.
 */
int dccp_stream_fd(struct dccp_stream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DCCP_H */
