"""Reads documents of `mpdccp perf -J` with parsers of iperf3's documents: iperf3, and with Python 3.12 or later iperf3-lib.

parse.py PROGRAM
"""

import importlib.util
import json
import subprocess
import sys
import tempfile

MESSAGES, SIZE = 200, 500
PARSERS = [name for name in ("iperf3", "iperf3_lib") if importlib.util.find_spec(name)]


def documents(program, *flags):
    """The client's and the server's document of one test."""
    with tempfile.NamedTemporaryFile("r") as log:
        common = ["-J", "-i", "0.1", "--queue", str(MESSAGES)]
        server = [program, "perf", "-s", "-1", "-B", "127.0.0.1", "-p", "0", "--logfile", log.name, *common]
        with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as listening:
            port = listening.stdout.readline().split(",")[0].rsplit(":", 1)[1]
            client = [program, "perf", "-c", "127.0.0.1", "-p", port, *common]
            client += ["-k", str(MESSAGES), "-l", str(SIZE), "-b", "4M", *flags]
            text = subprocess.run(client, check=True, stdout=subprocess.PIPE, text=True).stdout
            assert listening.wait() == 0
        return text, log.read()


def check_iperf3(text, role, streams, reverse):
    from iperf3.iperf3 import TestResult

    result = TestResult(text)
    assert result.error is None and result.protocol == "UDP", text
    assert (result.type, result.num_streams, result.reverse) == (role, streams, reverse), text
    assert (result.local_host, result.remote_host) == ("127.0.0.1", "127.0.0.1"), text
    assert result.local_port != result.remote_port and result.blksize == SIZE, text
    assert (result.packets, result.bytes) == (MESSAGES * streams, MESSAGES * streams * SIZE), text
    assert result.lost_packets == result.lost_percent == 0 and result.jitter_ms > 0, text
    assert result.Mbps > 0 and result.seconds > 0 and result.timesecs > 1.7e9, text
    assert result.remote_cpu_total >= 0 and result.system_info.startswith("Linux "), text


def check_iperf3_lib(text, role, streams, flags):
    from iperf3_lib.result import result_from_iperf_json

    result = result_from_iperf_json(json.loads(text), reporting_role=role)
    # Ignore two kinds of warnings that iperf3's own documents cause too: about stream results, and about unknown
    # versions.
    notes = [(note.code, note.path or "", note.message) for note in result.diagnostics]
    notes = [note for note in notes if note[0] != "provenance.mixed_udp_summary" and not note[1].startswith("/cpu/")]
    assert not notes, (notes, text)
    ways = {"-R": ["server_to_client"], "--bidir": ["client_to_server", "server_to_client"]}
    expected = ways[flags[0]] if flags and flags[0] in ways else ["client_to_server"]
    assert [flow.direction for flow in result.flows] == expected, text
    for flow in result.flows:
        for end in (flow.sender, flow.receiver):
            assert (end.packets, end.bytes) == (MESSAGES * streams, MESSAGES * streams * SIZE), text
        assert flow.receiver.lost_packets == 0 and flow.receiver.jitter_ms > 0, text


def main():
    for flags, streams in [((), 1), (("-R",), 1), (("-P", "3"), 3), (("--bidir",), 1), (("--bidir", "-P", "2"), 2)]:
        for role, text in zip(("client", "server"), documents(sys.argv[1], *flags)):
            if "iperf3" in PARSERS:
                check_iperf3(text, role, streams, "-R" in flags)
            if "iperf3_lib" in PARSERS:
                check_iperf3_lib(text, role, streams, flags)
    print("perf -J: read by", " and ".join(PARSERS))


if __name__ == "__main__":
    main()
