"""A test bed for the commands in this directory: two hosts in namespaces, links between them, and a tunnel over the links. Needs root
and a built mpdccp."""
import json
import os
import signal
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INNER = {"c": "10.8.0.1", "s": "10.8.0.2"}


def sh(*args, check=True, **kw):
    return subprocess.run(args, check=check, capture_output=True, text=True, **kw)


def milliseconds(text):
    number, unit = text.split()
    return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]


def bits(text):
    number, unit = text.split()
    return float(number) * {"kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}[unit]


def profiles():
    """The sixteen pairs of paths of scenarios/multipath/profiles.toml."""
    text = tomllib.loads((ROOT / "scenarios/multipath/profiles.toml").read_text())
    usual = {path.pop("name"): path for path in text["path"]}
    return {cell["name"]: [{**usual[name], **cell.get("path", {}).get(name, {})} for name in sorted(usual)]
            for cell in text["cell"]}


def link_options(path, queue):
    """Options of `mpdccp link` for a path of these profiles. `queue` is "long" (1,000 packets) or "short" (a bandwidth-delay product, but at
    least 20 ms)."""
    delay = milliseconds(path["owd"])
    out = ["--rate", path["rate"], "--delay", f"{delay}ms"]
    if queue == "short":
        out += ["--queue", f"{round(bits(path['rate']) / 8 * max(2 * delay, 20) / 1e3)}B"]
    if jitter := path.get("jitter"):
        reorder = ", reorder = true" if jitter.get("reorder") else ""
        out += ["--key", f'jitter = {{ spread = "uniform", by = "{jitter["by"]}"{reorder} }}']
    if loss := path.get("loss"):
        out += ["--loss", loss.replace(" ", "")]
    return out


class Bed:
    """Namespaces for the client's and the server's host. `paths` has a list of options of `mpdccp link` for each path; an empty list makes
    a veth without emulation."""

    def __init__(self, program, paths, mtu=1500):
        self.program, self.processes = str(program), []
        self.directory = tempfile.TemporaryDirectory(prefix="mpdccp-tcp-")
        self.dir = Path(self.directory.name)
        tag = f"mt{os.getpid()}"
        self.space = {end: f"{tag}{end}" for end in "cs"}
        self.spaces = list(self.space.values())
        self.links = []
        self.paths = len(paths)
        try:
            for space in self.spaces:
                sh("ip", "netns", "add", space)
                sh("ip", "-n", space, "link", "set", "lo", "up")
            for i, options in enumerate(paths):
                self.link(i, options, mtu)
        except BaseException:
            self.close()
            raise
        keys = [sh(self.program, "genkey").stdout.strip() for _ in range(2)]
        self.keys = {end: (key, sh(self.program, "pubkey", input=key).stdout.strip()) for end, key in zip("cs", keys)}

    def link(self, i, options, mtu):
        c, s = self.spaces[:2]
        addresses = (f"10.77.{i}.1", f"10.77.{i}.2")
        if options:
            self.links.append(self.spawn([self.program, "link", "--a", f"path{i}@{c}", "--b", f"path{i}@{s}", "--a-addr", addresses[0] + "/24",
                                          "--b-addr", addresses[1] + "/24", "--mtu", str(mtu), *options], "link"))
            for space in (c, s):
                while sh("ip", "-n", space, "addr", "show", f"path{i}", check=False).stdout.count("inet ") == 0:
                    if self.links[-1].poll() is not None:
                        raise RuntimeError("`mpdccp link` ended; its log:\n" + (self.dir / "link.log").read_text())
                    time.sleep(0.05)
        else:
            sh("ip", "link", "add", f"path{i}", "netns", c, "type", "veth", "peer", "name", f"path{i}", "netns", s)
            for space, address in zip((c, s), addresses):
                sh("ip", "-n", space, "addr", "add", address + "/24", "dev", f"path{i}")
                sh("ip", "-n", space, "link", "set", f"path{i}", "up", "mtu", str(mtu))

    def spawn(self, command, name):
        with open(self.dir / f"{name}.log", "a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def inside(self, end, *command):
        return ["ip", "netns", "exec", self.space.get(end, end), *map(str, command)]

    def run(self, end, *command, **kw):
        return sh(*self.inside(end, *command), **{"check": False, **kw})

    def text(self, end, tcp, settings, allowed):
        other = "s" if end == "c" else "c"
        extra = "".join(f', "{net}"' for net in allowed.get(other, []))
        out = f"""role = "{'client' if end == 'c' else 'server'}"
interface = "tun{end}"
control = "{self.dir}/{end}.sock"
state = "{self.dir}/state-{end}"
addresses = ["{INNER[end]}/24"]
private_key = "{self.keys[end][0]}"
tcp = "{tcp}"
{settings}
"""
        if end == "s":
            out += 'listen = ["0.0.0.0:6511"]\n'
        out += f"""[[peer]]
name = "{other}"
public_key = "{self.keys[other][1]}"
allowed_ips = ["{INNER[other]}/32"{extra}]
"""
        for i in range(self.paths if end == "c" else 0):
            out += f'[[peer.path]]\nname = "p{i}"\nlocal = "10.77.{i}.1"\nremote = "10.77.{i}.2:6511"\n'
        return out

    def up(self, tcp, settings="", allowed={}):
        self.tunnels = {}
        for end in "sc":
            (self.dir / f"{end}.toml").write_text(self.text(end, tcp, settings, allowed))
            self.start(end)
        self.wait_until_up("cs", self.paths)

    def wait_until_up(self, ends, paths):
        """Waits until this many paths are up at each of the ends."""
        deadline = time.monotonic() + 60
        while any(len(self.up_paths(end)) < paths for end in ends):
            ended = any(tunnel.poll() is not None for tunnel in self.tunnels.values())
            if ended or time.monotonic() > deadline:
                logs = "".join((self.dir / f"{end}.log").read_text() for end in self.tunnels)
                raise RuntimeError(f"the tunnel did not come up; its logs:\n{logs}")
            time.sleep(0.01)

    def start(self, end):
        (self.dir / f"{end}.sock").unlink(missing_ok=True)
        command = self.inside(end, self.program, "tunnel", "up", "--config", self.dir / f"{end}.toml")
        self.tunnels[end] = self.spawn(command, end)

    def status(self, end):
        out = sh(self.program, "tunnel", "status", "--json", "--config", f"{self.dir}/{end}.sock", check=False)
        return json.loads(out.stdout) if out.returncode == 0 else {}

    def up_paths(self, end):
        peers = self.status(end).get("peers") or [{}]
        return [path for path in peers[0].get("paths") or [] if path["state"] == "up"]

    def down(self):
        self.end(self.tunnels.values())

    def end(self, processes):
        processes = list(processes)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = [process for process in self.processes if process not in processes]

    def close(self):
        self.end(self.processes)
        for space in self.spaces:
            sh("ip", "netns", "del", space, check=False)
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
