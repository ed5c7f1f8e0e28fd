"""Time of 20,000 irregular flows on an explicit fabric, with SimGrid's next to it where it is installed.

Run `python benchmarks/bench_flows.py [--flows N] [--tolerance T] [--simgrid CASE]`. SimGrid is used by this file alone
(`pip install simgrid` builds it from source, with Boost and CMake). Both solve the same flows on the same links and
routes: SimGrid by its CM02 model with factors of 1 and no latency, which is plain max-min sharing, its set-up not
counted.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.engine.flows import simulate_flows
from windtunnel.network.topology import FatTree, TwoLevel

FABRIC = FatTree(
    base=TwoLevel(128, 8, 400e9, 8, 50e9), leaf_domains=16, oversubscription=2.0, spines=8, rails=False, spray=False
)
"""1,024 devices, 8 leaves of 16 nodes, 8 spines, ECMP."""
CASES = {"all at once": 0.0, "spread over 0.4 s": 0.4, "spread over 0.1 s": 0.1}


def workload(num_flows: int, spread_s: float, seed: int = 1) -> tuple[Ints, Ints, Floats, Floats]:
    """Random pairs; log-normal sizes of 64 MB in the middle; starts uniform over a while."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, FABRIC.num_devices, num_flows)
    dst = (src + rng.integers(1, FABRIC.num_devices, num_flows)) % FABRIC.num_devices
    size = np.floor(rng.lognormal(np.log(64e6), 1.0, num_flows))
    start = np.sort(rng.uniform(0.0, spread_s, num_flows)) if spread_s else np.zeros(num_flows)
    return src, dst, size, start


def simgrid_times(src: Ints, dst: Ints, size: Floats, start: Floats) -> tuple[float, Floats]:
    """(seconds of wall time, end of each flow) by SimGrid. Once per process: its engine cannot be made twice."""
    import simgrid  # type: ignore[import-not-found, unused-ignore]

    options = [
        "model:CM02",
        "TCP-gamma:0",
        "weight-S:0",
        "bandwidth-factor:1",
        "latency-factor:1",
        "crosstraffic:0",
    ]
    engine = simgrid.Engine(["bench", *(f"--cfg=network/{x}" for x in options), "--log=root.thres:warning"])
    old = not hasattr(simgrid.NetZone, "add_netzone_full")
    zone = simgrid.NetZone.create_full_zone("z") if old else engine.netzone_root.add_netzone_full("z")
    make_host = zone.create_host if old else zone.add_host
    make_link = zone.create_link if old else zone.add_link
    hosts = [make_host(f"h{i}", 1e9) for i in range(FABRIC.num_devices)]
    links = [make_link(f"l{i}", float(c)) for i, c in enumerate(FABRIC.capacity)]
    for link in links:
        link.set_latency(0)
    pairs = {(a, b): i for i, (a, b) in enumerate(zip(src.tolist(), dst.tolist(), strict=True))}
    for row, ((a, b), _) in zip(FABRIC.routes(src, dst)[list(pairs.values())].tolist(), pairs.items(), strict=True):
        path = [simgrid.LinkInRoute(links[x]) for x in row if x >= 0]
        ends = (hosts[a].netpoint, hosts[b].netpoint, None, None) if old else (hosts[a], hosts[b])
        zone.add_route(*ends, path, False)
    zone.seal()
    end = np.zeros(len(src))

    def main() -> None:
        running = []
        for i in np.argsort(start, kind="stable").tolist():
            if start[i] > simgrid.Engine.clock:
                simgrid.this_actor.sleep_until(float(start[i]))
            running.append((i, simgrid.Comm.sendto_async(hosts[src[i]], hosts[dst[i]], int(size[i]))))
        for i, comm in running:
            comm.wait()
            end[i] = comm.finish_time

    (simgrid.Actor.create if old else lambda name, host, code: host.add_actor(name, code))("main", hosts[0], main)
    began = time.perf_counter()
    engine.run()
    return time.perf_counter() - began, end


def main() -> None:
    """Print seconds per case, and the largest difference of completion times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flows", type=int, default=20_000)
    parser.add_argument("--tolerance", type=float, default=0.005)
    parser.add_argument("--simgrid", choices=CASES, help="also run one case in SimGrid")
    options = parser.parse_args()
    small = workload(10, 0.0)
    simulate_flows(FABRIC.routes(*small[:2]), FABRIC.capacity, small[2])
    for name, spread in CASES.items():
        if options.simgrid and name != options.simgrid:
            continue
        src, dst, size, start = workload(options.flows, spread)
        routes, found = FABRIC.routes(src, dst), {}
        for tolerance in (0.0, options.tolerance):
            began = time.perf_counter()
            found[tolerance] = simulate_flows(routes, FABRIC.capacity, size, start_s=start, tolerance=tolerance)
            print(f"{name:20s} tolerance {tolerance:<6g} {time.perf_counter() - began:8.3f} s", end="")
            off = np.abs(found[tolerance].seconds / found[0.0].seconds - 1.0).max()
            print(f"   {found[tolerance].solutions:6d} solutions, at most {off:.2%} from exact")
        if options.simgrid:
            seconds, end = simgrid_times(src, dst, size, start)
            off = np.abs((end - start) / found[0.0].seconds - 1.0).max()
            print(f"{name:20s} SimGrid          {seconds:8.3f} s   completion times at most {off:.1e} from exact")


if __name__ == "__main__":
    main()
