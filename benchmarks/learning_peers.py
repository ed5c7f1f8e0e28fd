"""The worker-steps of `bench_learning.py` by other simulators, each in an interpreter that has it.

    PYTHON benchmarks/learning_peers.py {flower,fedjax} {logistic,mlp} [ROUNDS]

Federated averaging, 8 clients, 25 steps of SGD a round on batches of 32 of the same Gaussian inputs, ten classes.
Prints one line of JSON: worker-steps, seconds without start and first round, and the version.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

import numpy as np

CLIENTS, LOCAL_STEPS, BATCH, LR = 8, 25, 32, 0.01
SIZES = {"logistic": (784, 10), "mlp": (784, 128, 10)}


def samples(client: int) -> tuple[np.ndarray, np.ndarray]:
    """1,024 inputs and labels of one client."""
    draws = np.random.default_rng(client)
    return draws.normal(size=(1024, 784)).astype(np.float32), draws.integers(0, 10, 1024)


def start(sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Weights and biases of each layer."""
    draws = np.random.default_rng(99)
    out = []
    for a, b in pairwise(sizes):
        out += [(draws.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32), np.zeros(b, np.float32)]
    return out


def numpy_steps(weights: list[np.ndarray], x: np.ndarray, y: np.ndarray, seed: int) -> list[np.ndarray]:
    """`LOCAL_STEPS` of SGD on softmax cross-entropy, as one writes it in NumPy."""
    draws = np.random.default_rng(seed)
    weights = [w.copy() for w in weights]
    for _ in range(LOCAL_STEPS):
        at = draws.integers(0, len(x), BATCH)
        layers = [x[at]]
        for i in range(0, len(weights), 2):
            z = layers[-1] @ weights[i] + weights[i + 1]
            layers.append(np.maximum(z, 0.0) if i + 2 < len(weights) else z)
        z = layers[-1]
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(BATCH), y[at]] -= 1.0
        dz = p / np.float32(BATCH)
        for i in range(len(weights) - 2, -1, -2):
            below = layers[i // 2]
            dw, db = below.T @ dz, dz.sum(axis=0)
            if i:
                dz = (dz @ weights[i].T) * (below > 0)
            weights[i] -= np.float32(LR) * dw
            weights[i + 1] -= np.float32(LR) * db
    return weights


def flower(task: str, rounds: int) -> dict[str, object]:
    """Flower's simulation: Ray actors on one core, NumPy in the clients."""
    import flwr
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    began: list[float] = []

    class Client(NumPyClient):
        def __init__(self, number: int) -> None:
            self.number = number

        def fit(self, parameters, config):
            x, y = samples(self.number)
            return numpy_steps(parameters, x, y, int(config["round"])), len(x), {}

    def client_of(context):
        return Client(int(context.node_config["partition-id"])).to_client()

    def settings(number: int) -> dict[str, int]:
        began.append(time.perf_counter())
        return {"round": number}

    def server_of(context):
        strategy = FedAvg(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=CLIENTS,
            min_available_clients=CLIENTS,
            initial_parameters=ndarrays_to_parameters(start(SIZES[task])),
            on_fit_config_fn=settings,
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds + 2))

    run_simulation(
        server_app=ServerApp(server_fn=server_of),
        client_app=ClientApp(client_fn=client_of),
        num_supernodes=CLIENTS,
        backend_config={"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return {"version": flwr.__version__, "rounds": rounds, "s": began[rounds + 1] - began[1]}


def fedjax(task: str, rounds: int) -> dict[str, object]:
    """FedJAX's federated averaging, compiled, on one core."""
    import fedjax as peer
    import jax
    import jax.numpy as jnp
    from fedjax.version import __version__ as version

    def loss(params, batch, rng):
        x = batch["x"]
        for i in range(0, len(params), 2):
            x = x @ params[i] + params[i + 1]
            x = jnp.maximum(x, 0.0) if i + 2 < len(params) else x
        chosen = jnp.take_along_axis(jax.nn.log_softmax(x), batch["y"][:, None], axis=1)
        return -chosen.mean()

    algorithm = peer.algorithms.fed_avg.federated_averaging(
        jax.grad(loss),
        peer.optimizers.sgd(LR),
        peer.optimizers.sgd(1.0),
        peer.ShuffleRepeatBatchHParams(batch_size=BATCH, num_steps=LOCAL_STEPS, num_epochs=None),
    )
    state = algorithm.init([jnp.asarray(w) for w in start(SIZES[task])])
    data = [peer.ClientDataset(dict(zip("xy", samples(i), strict=True))) for i in range(CLIENTS)]
    begun = 0.0
    for number in range(rounds + 2):
        if number == 2:
            jax.block_until_ready(state.params)
            begun = time.perf_counter()
        keys = jax.random.split(jax.random.PRNGKey(number), CLIENTS)
        state, _ = algorithm.apply(state, [(f"{i}".encode(), data[i], keys[i]) for i in range(CLIENTS)])
    jax.block_until_ready(state.params)
    return {"version": version, "rounds": rounds, "s": time.perf_counter() - begun}


if __name__ == "__main__":
    which, what = sys.argv[1:3]
    turns = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    told = {"flower": flower, "fedjax": fedjax}[which](what, turns)
    print(json.dumps({**told, "worker_steps": CLIENTS * LOCAL_STEPS * turns}))
