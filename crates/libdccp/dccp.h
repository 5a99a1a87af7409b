/*
 * DCCP (RFC 4340) and Multipath DCCP (RFC 9897) in user space: datagrams with congestion control.
 *
 * Errors. Functions that return int or ptrdiff_t return a negative errno value on failure; dccp_last_error() has the
 * reason in words. A null argument, a structure of a wrong size or a value out of range returns -EINVAL. A handle that
 * is closed or of another kind returns -EBADF. In a child of fork(), the parent's listeners, connections and streams
 * return -EPERM; closing one there has no effect on the parent.
 *
 * Pointers must stay valid until the call returns, and buffers must have the size that the call says.
 *
 * Handles are not pointers to memory: a call with a wrong handle returns an error. Any thread may call any function.
 *
 * Timeouts are in milliseconds. A negative timeout means no limit. With 0, a call that would have to wait returns
 * -EAGAIN; with a positive timeout, it returns -ETIMEDOUT after that time.
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
 * In dccp_events(): dccp_recv() would not wait.
 */
#define DCCP_READABLE 1

/**
 * In dccp_events(): dccp_send() would not wait.
 */
#define DCCP_WRITABLE 2

/**
 * In dccp_events(): dccp_next_event() would not wait.
 */
#define DCCP_EVENT 4

/**
 * In dccp_events(): the connection has ended. Datagrams that arrived earlier may still be available.
 */
#define DCCP_CLOSED 8

/**
 * In dccp_events(): dccp_accept_stream() would not wait.
 */
#define DCCP_STREAM 16

/**
 * Size of a buffer for any address, with its port and a null byte.
 */
#define DCCP_ADDRESS_SIZE 64

/**
 * Size of a buffer for any key in base64, with a null byte.
 */
#define DCCP_KEY_SIZE 45

/**
 * Size of a buffer for any reason.
 */
#define DCCP_REASON_SIZE 32

/**
 * A path is up, or up again.
 */
#define DCCP_EVENT_PATH_UP 1

/**
 * A path is suspect: no packets arrive on it, or its link is down. The connection continues without it.
 */
#define DCCP_EVENT_PATH_SUSPECT 2

/**
 * A path was closed.
 */
#define DCCP_EVENT_PATH_DOWN 3

/**
 * dccp_max_datagram() has changed.
 */
#define DCCP_EVENT_SIZE 4

/**
 * The connection has ended.
 */
#define DCCP_EVENT_CLOSED 5

/**
 * The rate that congestion control allows has changed by the percentage set in dccp_options.tell_rate.
 */
#define DCCP_EVENT_RATE 6

/**
 * The packets of a path leave through the interface of another path, not through the interface that has
 * their source address. Both paths therefore use the same Internet connection.
 */
#define DCCP_EVENT_PATH_STRAYS 7

/**
 * A session of a dccp_endpoint has opened. For connections see dccp_connected().
 */
#define DCCP_EVENT_OPENED 8

/**
 * In dccp_event.kind: the peer opened a stream in a session of a dccp_endpoint. The stream can be read and
 * written.
 */
#define DCCP_EVENT_STREAM_OPENED 9

/**
 * In dccp_event.kind: a stream of a dccp_endpoint has bytes to read, or has ended.
 */
#define DCCP_EVENT_STREAM_READABLE 10

/**
 * In dccp_event.kind: a stream of a dccp_endpoint that was full has room again.
 */
#define DCCP_EVENT_STREAM_WRITABLE 11

/**
 * In dccp_event.kind: the peer has received all data of a dccp_endpoint's stream, including the end.
 */
#define DCCP_EVENT_STREAM_DELIVERED 12

/**
 * In dccp_event.kind: the peer reset a stream of a dccp_endpoint. Bytes that arrived before can still be
 * read. A program that does not read them must reset the stream.
 */
#define DCCP_EVENT_STREAM_RESET 13

/**
 * The handshake is in progress.
 */
#define DCCP_PATH_CONNECTING 1

/**
 * The path is up.
 */
#define DCCP_PATH_UP 2

/**
 * The path is suspect: no packets arrive on it, or its link is down.
 */
#define DCCP_PATH_SUSPECT 3

/**
 * The path is closed.
 */
#define DCCP_PATH_DOWN 4

/**
 * The path carries data only while no other path can.
 */
#define DCCP_PATH_STANDBY 5

/**
 * In dccp_options.flags: request a multipath session, to which paths can be added. Setting two paths implies
 * this flag.
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
 * In dccp_options.flags: accept data in the peer's first packet (see early_data). Otherwise, such data is
 * dropped.
 */
#define DCCP_TAKE_EARLY_DATA 8

/**
 * In dccp_options.flags: use short sequence numbers (RFC 4340 section 7.6.2).
 */
#define DCCP_SHORT_NUMBERS 16

/**
 * In dccp_options.flags: ask the peer to protect its data with a CRC-32c (RFC 4340 section 9.3).
 */
#define DCCP_DATA_CHECKSUM 32

/**
 * In dccp_options.flags: a listener with a key accepts every client that has a key; see dccp_peer_key().
 */
#define DCCP_ANY_PEER 64

/**
 * In dccp_options.flags: support reliable streams alongside datagrams, in a multipath session; see
 * dccp_open_stream().
 */
#define DCCP_STREAMS 128

/**
 * In dccp_options.flags: do not probe the MTU of each path (RFC 8899), but use the MTU known to the system,
 * up to dccp_options.mtu.
 */
#define DCCP_NO_MTU_PROBING 256

/**
 * In dccp_options.send_policy: make the sender wait while the queue is full. The default.
 */
#define DCCP_SEND_WAIT 0

/**
 * In dccp_options.send_policy: drop the oldest datagram.
 */
#define DCCP_SEND_DROP_OLDEST 1

/**
 * In dccp_options.send_policy: drop the new datagram.
 */
#define DCCP_SEND_DROP_NEWEST 2

/**
 * In dccp_options.send_policy: drop the oldest datagram of the lowest priority. Higher priorities are sent
 * first.
 */
#define DCCP_SEND_PRIORITY 3

/**
 * In dccp_options.keepalive_ms: never probe.
 */
#define DCCP_NEVER UINT32_MAX

/**
 * A connection.
 */
struct dccp_conn;

/**
 * Opens connections that share one thread. Connections to the same peer also share one socket.
 */
struct dccp_connector;

/**
 * All connections of an event loop, without sockets, clock or threads. The program sends and receives the
 * packets in UDP datagrams, and passes in the time.
 */
struct dccp_endpoint;

/**
 * A listener.
 */
struct dccp_listener;

/**
 * A reliable, bidirectional byte stream.
 */
struct dccp_stream;

/**
 * A path of a multipath connection. It needs a local address, an interface, or both.
 */
struct dccp_path {
  /**
   * sizeof(struct dccp_path)
   */
  size_t size;
  /**
   * Numeric address of this host.
   */
  const char *local;
  /**
   * Network interface that packets are sent through. An address alone does not select the interface.
   */
  const char *interface;
  /**
   * Numeric address and port of the peer. NULL means the address that the connection is made to.
   */
  const char *remote;
  /**
   * -1 never, 1 standby, 2 overflow, 3 to 15 primary (RFC 9897 section 3.2.10); 0 means 3. Among primary
   * paths, only the schedulers "cpf", "acpf", "weighted-rr" and "handover" prefer higher values.
   */
  int32_t priority;
};

/**
 * A peer and its keys, in base64 as in WireGuard.
 */
struct dccp_peer {
  /**
   * sizeof(struct dccp_peer)
   */
  size_t size;
  /**
   * Public key of the peer.
   */
  const char *public_key;
  /**
   * Preshared key, or NULL.
   */
  const char *preshared_key;
};

/**
 * Settings of connections. Zero, or NULL, means the default.
 */
struct dccp_options {
  /**
   * sizeof(struct dccp_options)
   */
  size_t size;
  /**
   * Flags: DCCP_MULTIPATH and similar.
   */
  uint32_t flags;
  /**
   * Congestion control for data that this end sends: 2 is like TCP, 3 and 4 are TFRC, 5 is BBR (the
   * default), and 7 is CUBIC.
   */
  uint32_t ccid;
  /**
   * Service Code, such as "SC:chat" or "SC=7". A listener can accept several, separated by commas.
   * Default: 0.
   */
  const char *service;
  /**
   * Network interface for all paths that do not set one themselves. Default: any.
   */
  const char *interface;
  /**
   * Paths of a client's connection.
   */
  const struct dccp_path *paths;
  /**
   * Number of paths.
   */
  size_t path_count;
  /**
   * Scheduler, which chooses the path of each packet: "auto" (the default), "cpf", "acpf", "rr",
   * "weighted-rr", "srtt", "otias", "ecf", "blest", "redundant" or "handover"; docs/schedulers.md compares
   * them.
   */
  const char *scheduler;
  /**
   * Reordering of datagrams from several paths: "adaptive" (the default) delivers them in order, "passive"
   * in the order of arrival. For "active-fixed" and "equalised", see docs/reordering.md.
   */
  const char *reordering;
  /**
   * Mark of all packets, for policy routing (SO_MARK). Needs CAP_NET_ADMIN.
   */
  uint32_t mark;
  /**
   * Maximum number of datagrams waiting for the congestion window. Default: 16.
   */
  uint32_t queue;
  /**
   * Longest time that a datagram may wait before it is dropped, in milliseconds. Default: no limit.
   */
  uint32_t queue_time_ms;
  /**
   * Behaviour when the send queue is full: DCCP_SEND_WAIT and similar.
   */
  uint32_t send_policy;
  /**
   * Maximum number of received datagrams waiting for the application. Default: 4096.
   */
  uint32_t receive_queue;
  /**
   * Maximum number of connections waiting to be accepted. Default: 128.
   */
  uint32_t backlog;
  /**
   * Memory for received datagrams, in bytes, over all connections of a listener or connector. Default: 256
   * MiB.
   */
  size_t receive_memory;
  /**
   * Maximum number of connections of a listener. Default: 16384.
   */
  uint32_t max_connections;
  /**
   * Maximum number of connections from one source, which is an IPv4 address or an IPv6 /64. Default: a
   * quarter of max_connections, but at least 16.
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
   * How long a path may be idle before this end probes the peer, in milliseconds. Default: 12000, or 24000
   * at a listener. DCCP_NEVER turns probes off.
   */
  uint32_t keepalive_ms;
  /**
   * How long a connection survives without a working path, milliseconds. Default: 60000.
   */
  uint32_t survive_ms;
  /**
   * This end's private key, in base64; enables encryption. Default: no encryption.
   */
  const char *private_key;
  /**
   * Peers to accept. A client connects to the first.
   */
  const struct dccp_peer *peers;
  /**
   * Number of peers.
   */
  size_t peer_count;
  /**
   * Data to send in this end's first packet, at most 512 bytes. An attacker who sees the packet can replay
   * it.
   */
  const void *early_data;
  /**
   * Length of early_data.
   */
  size_t early_data_len;
  /**
   * File for a trace in qlog format.
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
   * DCCP port of the listener inside UDP. Default: 5001.
   */
  uint16_t dccp_port;
  /**
   * Checksum coverage of data that this end sends, 0 to 15 (RFC 4340 section 9.2). Only with DCCP_RAW.
   */
  uint8_t coverage;
  /**
   * Minimum checksum coverage of accepted data, 0 to 15 (RFC 4340 section 9.2.1).
   */
  uint8_t min_coverage;
  /**
   * DSCP in IP headers, 0 to 63. Default: 0.
   */
  uint32_t dscp;
  /**
   * Change in the allowed rate, in percent up to 255, that triggers a DCCP_EVENT_RATE. Default: no such
   * events.
   */
  uint32_t tell_rate;
};

/**
 * A datagram for dccp_sendmmsg() or dccp_recvmmsg().
 */
struct dccp_msg {
  /**
   * The bytes of the datagram.
   */
  void *data;
  /**
   * Number of bytes. For dccp_recvmmsg(): size of the buffer, and afterwards the number of bytes received.
   */
  size_t len;
};

/**
 * An address for functions of dccp_endpoint.
 */
struct dccp_address {
  /**
   * The address: 4 or 16 bytes in network byte order.
   */
  uint8_t ip[16];
  /**
   * IP version: 4 or 6.
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
 * A packet to send to the network.
 */
struct dccp_packet {
  /**
   * sizeof(struct dccp_packet)
   */
  size_t size;
  /**
   * Buffer for the payload of a UDP datagram; 65507 bytes are always enough.
   */
  void *data;
  /**
   * Size of the buffer. After dccp_endpoint_transmit(), the length of the packet.
   */
  size_t len;
  /**
   * Destination of the packet.
   */
  struct dccp_address to;
  /**
   * The program's socket that has to send the packet.
   */
  uint32_t socket;
  /**
   * ECN field of the IP header.
   */
  uint32_t ecn;
};

/**
 * An event of a connection.
 */
struct dccp_event {
  /**
   * sizeof(struct dccp_event)
   */
  size_t size;
  /**
   * Kind of event: DCCP_EVENT_PATH_UP and similar.
   */
  uint32_t kind;
  /**
   * Number of the path: its index in dccp_options.paths, or the result of dccp_add_path().
   */
  uint32_t path;
  /**
   * Largest datagram, bytes; for DCCP_EVENT_SIZE.
   */
  uint64_t max_datagram;
  /**
   * Negative errno value if the connection ended with an error; 0 if the end was orderly.
   */
  int32_t error;
  /**
   * Name of the reason for the end, such as "closed_by_peer".
   */
  char reason[DCCP_REASON_SIZE];
  /**
   * Rate that congestion control allows, bits per second; for DCCP_EVENT_RATE.
   */
  uint64_t rate;
  /**
   * The path whose interface is used; for DCCP_EVENT_PATH_STRAYS.
   */
  uint32_t other_path;
  /**
   * The session of a dccp_endpoint.
   */
  uint64_t session;
  /**
   * The stream of a dccp_endpoint's session; for DCCP_EVENT_STREAM_OPENED and similar.
   */
  uint64_t stream;
  /**
   * Application error code of the peer; for DCCP_EVENT_STREAM_RESET.
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
   * Datagrams accepted from the application.
   */
  uint64_t sent;
  /**
   * Number of bytes in the accepted datagrams.
   */
  uint64_t sent_bytes;
  /**
   * Accepted datagrams waiting in the queue.
   */
  uint64_t queued;
  /**
   * Accepted datagrams that were dropped because no path could carry them any more, because the peer's
   * application no longer listens, or because the connection failed.
   */
  uint64_t dropped;
  /**
   * Accepted datagrams that were dropped because the queue was full.
   */
  uint64_t displaced;
  /**
   * Accepted datagrams that expired in the queue.
   */
  uint64_t expired;
  /**
   * Data packets that congestion control considers lost. With several paths, some may have been
   * retransmitted. CCIDs 3 and 4 count loss events instead of packets: all losses within one round-trip
   * time are one event.
   */
  uint64_t lost;
  /**
   * Datagrams that arrived.
   */
  uint64_t received;
  /**
   * Number of bytes in the datagrams that arrived.
   */
  uint64_t received_bytes;
  /**
   * Datagrams that arrived but were dropped because the application did not fetch them.
   */
  uint64_t unread;
  /**
   * Measured rate of all paths together, in bits per second. It is 0 while app_limited is 1, because the
   * capacity of the paths is then unknown.
   */
  uint64_t rate;
  /**
   * Rate that congestion control currently allows, in bits per second.
   */
  uint64_t allowed;
  /**
   * Age of the oldest datagram in the queue, in microseconds; 0 if the queue is empty.
   */
  uint64_t oldest_us;
  /**
   * 1 if the application sends less than congestion control allows.
   */
  uint32_t app_limited;
  /**
   * Number of paths for dccp_get_path_stats().
   */
  uint32_t path_count;
};

/**
 * A path of a connection.
 */
struct dccp_path_stats {
  /**
   * sizeof(struct dccp_path_stats)
   */
  size_t size;
  /**
   * Number of the path.
   */
  uint32_t path;
  /**
   * State: DCCP_PATH_UP and similar.
   */
  uint32_t state;
  /**
   * Congestion control for data that this end sends; 0 until it is negotiated.
   */
  uint32_t ccid;
  /**
   * Congestion control for data that the peer sends.
   */
  uint32_t peer_ccid;
  /**
   * Smoothed round-trip time, in microseconds; 0 until it is known.
   */
  uint64_t rtt_us;
  /**
   * Congestion window, bytes.
   */
  uint64_t window;
  /**
   * Measured rate, in bits per second; 0 while the application limits the rate.
   */
  uint64_t rate;
  /**
   * Rate that congestion control currently allows, in bits per second.
   */
  uint64_t allowed;
  /**
   * Number of data packets sent.
   */
  uint64_t sent;
  /**
   * Data packets that congestion control considers lost. For CCIDs 3 and 4, see dccp_stats.lost.
   */
  uint64_t lost;
  /**
   * Address of the peer.
   */
  char peer[DCCP_ADDRESS_SIZE];
  /**
   * Largest IP packet that the path is known to carry, in bytes.
   */
  uint32_t path_mtu;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Version of the library, such as "0.1.0".
 */
const char *dccp_version(void);

/**
 * Connects to a listener at an address such as "example.org:6511", "192.0.2.1:6511" or "[2001:db8::1]:6511";
 * options may be NULL. If a name has several addresses, they are tried until one answers; with
 * DCCP_NONBLOCK, only the first is tried. The name lookup blocks, even with DCCP_NONBLOCK.
 */
int dccp_connect(const char *address,
                 const struct dccp_options *options,
                 struct dccp_conn **conn);

/**
 * State of a connection opened with DCCP_NONBLOCK: -EINPROGRESS until the peer answers, then 0 if the
 * connection is open, or the error. The descriptor becomes readable when the state changes.
 */
int dccp_connected(const struct dccp_conn *conn);

/**
 * Creates a connector, for programs with many connections. All connections of a connector share one thread,
 * whereas each dccp_connect() starts a thread of its own. options may be NULL.
 */
int dccp_connector_new(const struct dccp_options *options,
                       struct dccp_connector **connector);

/**
 * Like dccp_connect(), but with the connector's options. With keys, peer is the peer's public key in base64,
 * or NULL for the first peer in the options.
 */
int dccp_connector_connect(struct dccp_connector *connector,
                           const char *address,
                           const char *peer_key,
                           struct dccp_conn **conn);

/**
 * Closes a connector. Its connections continue.
 */
int dccp_connector_close(struct dccp_connector *connector);

/**
 * Queues a datagram. Waits while the queue is full or the connection is not open yet. Returns the length of
 * the datagram; -EMSGSIZE if it is larger than dccp_max_datagram(), -EINVAL if it is empty, -EPIPE after the
 * end.
 */
ptrdiff_t dccp_send(struct dccp_conn *conn,
                    const void *data,
                    size_t len,
                    int timeout_ms);

/**
 * Like dccp_send(), with a priority from 0 to 255 for DCCP_SEND_PRIORITY. If expires_ms is not 0, the
 * datagram is dropped unless it is sent within that many milliseconds.
 */
ptrdiff_t dccp_send_with(struct dccp_conn *conn,
                         const void *data,
                         size_t len,
                         int timeout_ms,
                         unsigned int priority,
                         unsigned int expires_ms);

/**
 * Waits for a datagram and copies it into the buffer. Returns its length; 0 after an orderly end;
 * -ECONNRESET or -ETIMEDOUT after any other end; -EMSGSIZE if the datagram is larger than the buffer, in
 * which case it stays for the next call; -ECONNABORTED if another thread closes the connection. -ETIMEDOUT
 * can also mean that no datagram arrived in time; after the end, dccp_events() includes DCCP_CLOSED.
 */
ptrdiff_t dccp_recv(struct dccp_conn *conn,
                    void *buffer,
                    size_t len,
                    int timeout_ms);

/**
 * Queues several datagrams, and returns the number queued. Waits only for room for the first datagram. If a
 * later datagram does not fit into the queue, the call returns without queueing it.
 */
int dccp_sendmmsg(struct dccp_conn *conn,
                  const struct dccp_msg *datagrams,
                  unsigned int count,
                  int timeout_ms);

/**
 * Waits for a datagram, then receives up to count available datagrams. Returns the number received, or 0
 * after an orderly end.
 */
int dccp_recvmmsg(struct dccp_conn *conn,
                  struct dccp_msg *datagrams,
                  unsigned int count,
                  int timeout_ms);

/**
 * A descriptor for poll() and epoll, for reading only. It is readable while datagrams are available, and
 * after the end. Two changes also make it readable until dccp_events() is called: a new event, and room in
 * the queue after a sender found none. It works edge-triggered or level-triggered. It belongs to the
 * connection: do not read, write or close it.
 */
int dccp_fd(struct dccp_conn *conn);

/**
 * Returns which operations would not wait now: DCCP_READABLE and similar flags.
 */
int dccp_events(struct dccp_conn *conn);

/**
 * Adds a path to a client's multipath session, and returns the number of the path. An event reports when the
 * path is up. -EINVAL for a plain connection; see DCCP_MULTIPATH.
 */
int dccp_add_path(struct dccp_conn *conn,
                  const struct dccp_path *path_to_add);

/**
 * Closes a path gracefully. -ENOENT if there is no such path.
 */
int dccp_remove_path(struct dccp_conn *conn, unsigned int number);

/**
 * Changes the priority of a path at both ends: 0 never, 1 standby, 2 overflow, 3 to 15 primary. -ENOENT if
 * there is no such path.
 */
int dccp_set_priority(struct dccp_conn *conn,
                      unsigned int number,
                      unsigned int priority);

/**
 * Changes the scheduler, which chooses the path of each datagram that this end sends; see
 * dccp_options.scheduler. The peer has its own scheduler.
 */
int dccp_set_scheduler(struct dccp_conn *conn, const char *scheduler);

/**
 * Changes the congestion control for data that this end sends, on all paths, while data flows.
 */
int dccp_set_ccid(struct dccp_conn *conn, unsigned int ccid);

/**
 * Sends at this rate, in bits per second, for duration_ms, with padding when there is no other data. In this
 * way, dccp_stats.allowed shows the capacity of the path before the program sends more. The padding is
 * subject to congestion control. A new probe replaces a running one.
 */
int dccp_probe(struct dccp_conn *conn,
               uint64_t rate,
               unsigned int duration_ms);

/**
 * Sends the queue, waits until everything has been acknowledged or given up as lost, and closes the
 * connection. Received data can still be read. The handle stays valid until dccp_close().
 */
int dccp_finish(struct dccp_conn *conn, int timeout_ms);

/**
 * Closes the handle, and finishes the connection in the background like dccp_finish(), as long as the
 * process lives. Calls waiting in other threads return -ECONNABORTED, except dccp_finish(), which
 * continues to wait.
 */
int dccp_close(struct dccp_conn *conn);

/**
 * Closes the handle, ends the connection immediately and drops the queue. Unless the text is NULL, it is
 * sent to the peer.
 */
int dccp_abort(struct dccp_conn *conn,
               const char *why);

/**
 * The reason for the end: 0 if the end was orderly, -EINPROGRESS before the end, or a negative errno value.
 */
int dccp_end(const struct dccp_conn *conn);

/**
 * Creates an endpoint. The seed is 32 random bytes from the system, from which keys are derived. Options
 * about sockets, paths and queues have no effect here. With a private key, everything is encrypted, and each
 * connection goes to the first peer in the options. Times must then count from 1970; otherwise, peers would
 * reject the handshakes of a restarted endpoint as old.
 */
int dccp_endpoint_new(const uint8_t *seed,
                      const struct dccp_options *options,
                      struct dccp_endpoint **endpoint);

/**
 * Accepts sessions from now on, at the DCCP port in the options.
 */
int dccp_endpoint_listen(struct dccp_endpoint *endpoint);

/**
 * Starts a session over one of the program's sockets, which the program identifies by the number socket.
 * dccp_endpoint_transmit() returns the session's first packet. No other session with this peer may use
 * local_port as its DCCP port.
 */
int dccp_endpoint_connect(struct dccp_endpoint *endpoint,
                          uint64_t now_ns,
                          uint32_t socket,
                          const struct dccp_address *to,
                          uint16_t local_port,
                          uint64_t *session);

/**
 * Adds a path to a client's multipath session, and returns the number of the path.
 */
int dccp_endpoint_add_path(struct dccp_endpoint *endpoint,
                           uint64_t now_ns,
                           uint64_t session,
                           uint32_t socket,
                           const struct dccp_address *to,
                           uint16_t local_port);

/**
 * Handles the payload of a UDP datagram that arrived with this ECN field on the program's socket of this
 * number.
 */
int dccp_endpoint_receive(struct dccp_endpoint *endpoint,
                          uint64_t now_ns,
                          uint32_t socket,
                          const struct dccp_address *from,
                          uint32_t ecn,
                          const void *data,
                          size_t len);

/**
 * Writes the next packet for the network. Returns 1, or 0 if no packet may be sent now; -EMSGSIZE if the
 * packet is larger than the buffer, in which case it stays for the next call.
 */
int dccp_endpoint_transmit(struct dccp_endpoint *endpoint,
                           uint64_t now_ns,
                           struct dccp_packet *packet);

/**
 * When to call dccp_endpoint_handle_timeout() next, in nanoseconds of the program's clock; INT64_MAX for
 * never.
 */
int64_t dccp_endpoint_timeout(const struct dccp_endpoint *endpoint);

/**
 * Handles the timers that have expired. Call dccp_endpoint_transmit() afterwards for any packets.
 */
int dccp_endpoint_handle_timeout(struct dccp_endpoint *endpoint, uint64_t now_ns);

/**
 * Queues a datagram of a session. If the queue is full, datagrams are dropped, so check
 * dccp_endpoint_queued() first.
 */
int dccp_endpoint_send(struct dccp_endpoint *endpoint,
                       uint64_t now_ns,
                       uint64_t session,
                       const void *data,
                       size_t len);

/**
 * Number of a session's datagrams waiting for the congestion window.
 */
int dccp_endpoint_queued(const struct dccp_endpoint *endpoint, uint64_t session);

/**
 * Copies the next received datagram, and writes the number of its session. Returns its length; -EAGAIN if
 * there is none; -EMSGSIZE if it is larger than the buffer, in which case it stays for the next call.
 */
ptrdiff_t dccp_endpoint_recv(struct dccp_endpoint *endpoint,
                             uint64_t *session,
                             void *buffer,
                             size_t len);

/**
 * Writes the next event. Returns 1, or 0 if there is none. dccp_event.session is the session that the event
 * belongs to.
 */
int dccp_endpoint_next_event(struct dccp_endpoint *endpoint,
                             struct dccp_event *event);

/**
 * Closes a session gracefully. Its queue is dropped.
 */
int dccp_endpoint_close(struct dccp_endpoint *endpoint, uint64_t now_ns, uint64_t session);

/**
 * Frees the endpoint and all its sessions without telling their peers.
 */
int dccp_endpoint_free(struct dccp_endpoint *endpoint);

/**
 * Writes the public key of a session's peer in base64, and returns its length. -ENODATA if the session is
 * not encrypted.
 */
int dccp_endpoint_peer_key(const struct dccp_endpoint *endpoint,
                           uint64_t session,
                           char *into,
                           size_t size);

/**
 * Opens a stream in a session, and writes the stream's number. The peer accepts the stream. Returns
 * -EOPNOTSUPP unless both ends have set DCCP_STREAMS and the session is open, and -EAGAIN while the peer
 * allows no more streams.
 */
int dccp_endpoint_open_stream(struct dccp_endpoint *endpoint,
                              uint64_t now_ns,
                              uint64_t session,
                              uint64_t *stream);

/**
 * Reads bytes from a stream. Returns the number of bytes read, or 0 after the last; -EAGAIN if no bytes are
 * available, until DCCP_EVENT_STREAM_READABLE reports some; -ECONNRESET if this end has reset the stream, or
 * if the peer has and no bytes are left. Bytes that arrived before the session ended can be read until
 * DCCP_EVENT_CLOSED has been fetched.
 */
ptrdiff_t dccp_endpoint_stream_read(struct dccp_endpoint *endpoint,
                                    uint64_t now_ns,
                                    uint64_t session,
                                    uint64_t stream,
                                    void *buffer,
                                    size_t len);

/**
 * Writes bytes to a stream. Returns the number of bytes accepted; -EAGAIN if there is no room, until
 * DCCP_EVENT_STREAM_WRITABLE reports some; -EPIPE if this end has ended the stream; -ECONNRESET if either
 * end has reset it.
 */
ptrdiff_t dccp_endpoint_stream_write(struct dccp_endpoint *endpoint,
                                     uint64_t now_ns,
                                     uint64_t session,
                                     uint64_t stream,
                                     const void *data,
                                     size_t len);

/**
 * Ends writing on a stream. The peer can read all bytes before the end, and this end can still read.
 * DCCP_EVENT_STREAM_DELIVERED reports when the peer has received everything.
 */
int dccp_endpoint_stream_end(struct dccp_endpoint *endpoint,
                             uint64_t now_ns,
                             uint64_t session,
                             uint64_t stream);

/**
 * Resets both directions of a stream immediately. The peer receives this application error code.
 */
int dccp_endpoint_stream_reset(struct dccp_endpoint *endpoint,
                               uint64_t now_ns,
                               uint64_t session,
                               uint64_t stream,
                               uint16_t code);

/**
 * Text of the last error in this thread, valid until the thread's next error.
 */
const char *dccp_last_error(void);

/**
 * Listens on an address of this host, such as "0.0.0.0:6511". Port 0 selects any free port. options may be
 * NULL.
 */
int dccp_listen(const char *address,
                const struct dccp_options *options,
                struct dccp_listener **listener);

/**
 * Waits for the next connection.
 */
int dccp_accept(struct dccp_listener *listener, int timeout_ms, struct dccp_conn **conn);

/**
 * A descriptor for poll() and epoll, readable while a connection is waiting to be accepted. Do not read,
 * write or close it.
 */
int dccp_listener_fd(struct dccp_listener *listener);

/**
 * Writes the listening address, such as "192.0.2.1:6511", and a terminating null byte; DCCP_ADDRESS_SIZE
 * bytes are enough. Returns the length of the address, or -ERANGE.
 */
int dccp_listener_address(const struct dccp_listener *listener,
                          char *into,
                          size_t size);

/**
 * Accepts a peer by its public key from now on. preshared_key may be NULL.
 */
int dccp_add_peer(struct dccp_listener *listener,
                  const char *public_key,
                  const char *preshared_key);

/**
 * Stops accepting a peer and ends its connections. Returns -EINVAL if the listener has no key and therefore
 * accepts every client.
 */
int dccp_remove_peer(struct dccp_listener *listener,
                     const char *public_key);

/**
 * Closes the listener. Accepted connections continue. A dccp_accept() call in another thread returns
 * -ECONNABORTED.
 */
int dccp_listener_close(struct dccp_listener *listener);

/**
 * Counters and state of a connection.
 */
int dccp_get_stats(const struct dccp_conn *conn, struct dccp_stats *stats);

/**
 * State of the path with this index, from 0 to dccp_stats.path_count - 1. -ENOENT for any other index.
 */
int dccp_get_path_stats(const struct dccp_conn *conn,
                        unsigned int index,
                        struct dccp_path_stats *stats);

/**
 * Waits for the next event, stores it and returns 0; returns -EPIPE after DCCP_EVENT_CLOSED. Only the newest
 * 256 unread events are kept.
 */
int dccp_next_event(struct dccp_conn *conn,
                    int timeout_ms,
                    struct dccp_event *event);

/**
 * Largest datagram that all paths can currently carry, in bytes.
 */
ptrdiff_t dccp_max_datagram(const struct dccp_conn *conn);

/**
 * Returns 1 if the connection is a multipath session (RFC 9897), otherwise 0.
 */
int dccp_is_multipath(const struct dccp_conn *conn);

/**
 * Writes the peer's address at the time the connection opened; DCCP_ADDRESS_SIZE bytes are enough. Returns
 * the length of the address, or -ERANGE.
 */
int dccp_peer_address(const struct dccp_conn *conn,
                      char *into,
                      size_t size);

/**
 * Writes the address of this host from which the connection was opened, or on which it was accepted. See
 * dccp_peer_address().
 */
int dccp_local_address(const struct dccp_conn *conn,
                       char *into,
                       size_t size);

/**
 * Writes the peer's public key in base64; DCCP_KEY_SIZE bytes are enough. Returns -ENODATA without
 * encryption.
 */
int dccp_peer_key(const struct dccp_conn *conn, char *into, size_t size);

/**
 * Writes the connection's Service Code.
 */
int dccp_service(const struct dccp_conn *conn, char *into, size_t size);

/**
 * Writes the text with which the peer gave its reason for ending the connection. Returns -ENODATA if there
 * is none.
 */
int dccp_peer_said(const struct dccp_conn *conn,
                   char *into,
                   size_t size);

/**
 * Opens a stream, which the peer accepts. Returns -EOPNOTSUPP unless both ends have set DCCP_STREAMS, and
 * -EAGAIN while the peer allows no more streams.
 */
int dccp_open_stream(struct dccp_conn *conn,
                     struct dccp_stream **stream);

/**
 * Waits for the peer to open a stream. dccp_events() includes DCCP_STREAM while one is available.
 */
int dccp_accept_stream(struct dccp_conn *conn, int timeout_ms, struct dccp_stream **stream);

/**
 * Reads bytes, and waits until some are available. Returns the number of bytes read, or 0 after the last;
 * -ECONNRESET if the peer has reset the stream, or has closed the connection before the end of the stream.
 */
ptrdiff_t dccp_stream_read(struct dccp_stream *stream,
                           void *buffer,
                           size_t len,
                           int timeout_ms);

/**
 * Writes bytes, and waits until there is room for some. Returns the number of bytes accepted, at least one;
 * -EPIPE if the peer has stopped reading or this end has ended the stream.
 */
ptrdiff_t dccp_stream_write(struct dccp_stream *stream,
                            const void *data,
                            size_t len,
                            int timeout_ms);

/**
 * Ends writing. The peer can read all bytes before the end, and this end can still read.
 */
int dccp_stream_end(struct dccp_stream *stream);

/**
 * Ends writing, and waits until the peer has received everything. Returns -EPIPE if the peer stopped reading
 * before that.
 */
int dccp_stream_finish(struct dccp_stream *stream,
                       int timeout_ms);

/**
 * Closes the handle and immediately resets both directions. The peer receives this application error code.
 */
int dccp_stream_reset(struct dccp_stream *stream,
                      uint16_t code);

/**
 * Closes the handle. Bytes that were written still arrive as long as the connection lives. Bytes from the
 * peer are discarded.
 */
int dccp_stream_close(struct dccp_stream *stream);

/**
 * A descriptor for poll() and epoll, for reading only. It is readable while bytes are available, and at the
 * end. Two changes also make it readable. One is that the peer has received everything, until the next call
 * for this stream. The other is that there is room after a dccp_stream_write() found too little, until the
 * next dccp_stream_write() or dccp_stream_end(). Do not read, write or close it.
 */
int dccp_stream_fd(struct dccp_stream *stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DCCP_H */
