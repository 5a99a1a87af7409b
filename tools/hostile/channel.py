"""Encrypted channels (docs/channels.md), and DCCP in channels or in plain UDP (docs/wire.md, RFC 4340), for tools/hostile/run. This
implementation is based only on these documents and shares no code with the program."""
import copy
import hashlib
import hmac
import os
import socket
import struct
import time

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NAME, PROLOGUE = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s", b"mpdccp channel v1"
INITIATION, RESPONSE, COOKIE = (2**64 - n for n in (1, 2, 3))


def blake(data, key=b"", size=32):
    return hashlib.blake2s(data, key=key, digest_size=size).digest()


def hkdf(key, data, n):
    secret, out, last = hmac.new(key, data, hashlib.blake2s).digest(), [], b""
    for i in range(n):
        last = hmac.new(secret, last + bytes([i + 1]), hashlib.blake2s).digest()
        out.append(last)
    return out


def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(private, peer):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(peer))


class Noise:
    def __init__(self):
        self.h = self.ck = blake(NAME)
        self.mix_hash(PROLOGUE)

    def mix_hash(self, data):
        self.h = blake(self.h + data)

    def mix_key(self, data):
        self.ck, self.k = hkdf(self.ck, data, 2)
        self.n = 0

    def nonce(self):
        self.n += 1
        return b"\0" * 4 + struct.pack("<Q", self.n - 1)

    def encrypt(self, plain):
        sealed = ChaCha20Poly1305(self.k).encrypt(self.nonce(), plain, self.h)
        self.mix_hash(sealed)
        return sealed

    def decrypt(self, sealed):
        plain = ChaCha20Poly1305(self.k).decrypt(self.nonce(), sealed, self.h)
        self.mix_hash(sealed)
        return plain


class Channel:
    """The initiator's end of a channel. `private` and `server` are 32-byte keys."""

    def __init__(self, private, server):
        self.private, self.server = private, server
        self.number, self.index = os.urandom(8), os.urandom(4)
        self.cookie, self.mac1 = b"", b""
        self.counter = 0

    def initiation(self):
        self.noise, self.ephemeral = Noise(), os.urandom(32)
        noise = self.noise
        noise.mix_hash(self.server)
        first = public(self.ephemeral)
        noise.mix_hash(first)
        noise.mix_key(first)
        noise.mix_key(dh(self.ephemeral, self.server))
        first += noise.encrypt(public(self.private))
        noise.mix_key(dh(self.private, self.server))
        now = time.time_ns()
        stamp = struct.pack(">QI", 2**62 + 10 + now // 10**9, now % 10**9)
        first += noise.encrypt(bytes([1, 1, 0, 0]) + self.number + stamp)
        return self.macs(struct.pack(">B3sB3sQ", 0x52, b"\0" * 3, 255, b"\xff" * 3, INITIATION) + self.index + first)

    def macs(self, message):
        self.mac1 = blake(message, blake(b"mpdccp mac1" + self.server), 16)
        message += self.mac1
        return message + (blake(message, self.cookie, 16) if self.cookie else bytes(16))

    def on_response(self, message):
        # Work on a copy, because a message that does not belong to this handshake must not change its state.
        noise = copy.copy(self.noise)
        second, body = message[16:48], message[48:72]
        noise.mix_hash(second)
        noise.mix_key(second)
        noise.mix_key(dh(self.ephemeral, second))
        noise.mix_key(dh(self.private, second))
        noise.ck, temporary, noise.k = hkdf(noise.ck, bytes(32), 3)
        noise.mix_hash(temporary)
        noise.n = 0
        answer = noise.decrypt(message[48:72]) if len(body) == 24 else b""
        label = b"mpdccp record\0" + noise.h
        forward, reverse = (ChaCha20Poly1305(blake(label, secret)) for secret in hkdf(noise.ck, b"", 2))
        self.forward, self.reverse, self.peer = forward, reverse, answer[1:8]

    def on_cookie(self, message):
        """XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha): HChaCha20 derives the key from the first 16 bytes of the nonce."""
        key = hchacha(blake(b"mpdccp cookie" + self.server), message[16:32])
        self.cookie = ChaCha20Poly1305(key).decrypt(bytes(4) + message[32:40], message[40:], self.mac1)

    def seal(self, packet):
        header = b"\x52" + self.peer + struct.pack(">Q", self.counter)
        self.counter += 1
        return header + self.forward.encrypt(bytes(4) + header[8:], packet, header)

    def open(self, record):
        return self.reverse.decrypt(bytes(4) + record[8:16], record[16:], record[:16])

    def connect(self, sock, patience):
        """Performs the handshake over a connected socket. Returns its duration in seconds, or None if it failed."""
        begun = time.monotonic()
        while (left := patience - (time.monotonic() - begun)) > 0:
            sock.send(self.initiation())
            until = time.monotonic() + min(1, left)
            while (rest := until - time.monotonic()) > 0:
                sock.settimeout(rest)
                try:
                    message = sock.recv(2048)
                except (TimeoutError, ConnectionRefusedError):
                    break
                kind = struct.unpack(">Q", message[8:16])[0] if len(message) >= 16 else 0
                try:
                    if kind == COOKIE:
                        self.on_cookie(message)
                        break
                    if kind == RESPONSE:
                        self.on_response(message)
                        return time.monotonic() - begun
                except InvalidTag:
                    # The message answers an earlier initiation.
                    continue
        return None


def hchacha(key, nonce):
    """HChaCha20, draft-irtf-cfrg-xchacha-03 section 2.2."""
    s = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))

    def quarter(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) & 0xFFFFFFFF
            v = s[z] ^ s[x]
            s[z] = (v << turn | v >> (32 - turn)) & 0xFFFFFFFF

    for _ in range(10):
        for i in range(4):
            quarter(i, i + 4, i + 8, i + 12)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<8I", *s[:4], *s[12:])


def cookie_reply(initiation, server, cookie):
    """The cookie message with which a server that has this public key answers an initiation."""
    nonce, mac1 = os.urandom(24), initiation[140:156]
    key = hchacha(blake(b"mpdccp cookie" + server), nonce[:16])
    sealed = ChaCha20Poly1305(key).encrypt(bytes(4) + nonce[16:], cookie, mac1)
    return struct.pack(">B3sIQ", 0x52, b"\0" * 3, int.from_bytes(initiation[16:20]), COOKIE) + nonce + sealed


def hmac_of(key, message):
    """The HMAC of RFC 9897 section 3.2.6, of which the first 20 bytes are sent."""
    return hmac.new(key, message, hashlib.sha256).digest()[:20]


REQUEST, RESPONSE_TYPE, DATA, ACK, DATAACK, RESET, SYNC, SYNCACK = 0, 1, 2, 3, 4, 7, 8, 9
# Reset Codes (RFC 4340 section 5.6).
NO_CONNECTION, AGGRESSION_PENALTY = 3, 11


def dccp(kind, ports, seq, ack=None, service=None, options=b"", data=b"", reset=None):
    """A packet with long sequence numbers and without a checksum, as in UDP."""
    body = struct.pack(">Q", seq)[2:]
    if ack is not None:
        body += b"\0\0" + struct.pack(">Q", ack)[2:]
    body += service or b""
    body += bytes([reset, 0, 0, 0]) if reset is not None else b""
    body += options + bytes(-len(options) % 4)
    return struct.pack(">HHBBHBB", *ports, (10 + len(body)) // 4, 0, 0, kind << 1 | 1, 0) + body + data


def read(packet):
    """Parses a packet into type, Sequence Number, Acknowledgement Number, options as pairs, and data."""
    kind, seq = packet[8] >> 1 & 15, int.from_bytes(packet[10:16])
    at = 16
    ack = None
    if kind not in (REQUEST, DATA, 10):
        ack, at = int.from_bytes(packet[18:24]), 24
    at += 4 if kind in (REQUEST, RESPONSE_TYPE, RESET, 10) else 0
    area, options = packet[at : packet[4] * 4], []
    while area:
        length = 1 if area[0] < 32 else max(area[1], 2)
        options.append((area[0], area[2:length]))
        area = area[length:]
    return kind, seq, ack, options, packet[packet[4] * 4 :]


def agree(options):
    """Confirm options for all Change options, with the first value of each list."""
    out = b""
    for kind, body in options:
        if kind in (32, 34):
            values = body[1:] if body[0] in (3, 5) else body[1:2] * 2
            out += bytes([35 if kind == 32 else 33, 3 + len(values), body[0]]) + values
    return out


def udp(address, source="127.0.0.1"):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((source, 0))
    sock.connect(address)
    return sock
