"""Bytes of low-communication algorithms: ratios of the papers, and messages against real encodings."""

import math

import numpy as np
import pytest
from learning_runs import ADAMW, built, job, quadratic

from windtunnel.learning.algorithms import ALGORITHMS

SHAPES = ((64, 48), (48,), (48, 30), (30,))
ENTRIES = sum(math.prod(s) for s in SHAPES)
TARGET = ((4096, 11008), (11008, 4096), (4096, 4096), (4096,))
OURS = (
    "co2",
    "des-loc",
    "detonation",
    "diloco",
    "eager-diloco",
    "gossip",
    "intellect-1",
    "local_adam",
    "local_sgd",
    "mt-dao",
    "noloco",
    "qsr",
    "sparseloco",
    "streaming-diloco",
    "swarm",
)


def the_job(steps: int = 3072, workers: int = 4):
    task = quadratic(np.ones((workers, ENTRIES)), 0.0)
    return job(task, steps=steps, lr=0.01, inner=ADAMW, shapes=SHAPES)


def sent(algorithm, steps: int, shapes=TARGET) -> float:
    """Payload bytes of a worker over some steps."""
    return sum(m.nbytes(shapes) for step in range(steps) for m in algorithm.messages(step))


def over_data_parallel(id: str, steps: int, shapes=TARGET, **knobs) -> float:
    to = the_job(steps)
    return sent(built("data_parallel", to), steps, shapes) / sent(built(id, to, **knobs), steps, shapes)


def test_diloco_sends_a_five_hundredth():
    assert over_data_parallel("diloco", 3000, period=500) == 500.0


def test_intellect_1_sends_a_four_hundredth():
    assert over_data_parallel("intellect-1", 1000) == pytest.approx(400.0, rel=1e-6)


def test_streaming_sends_a_period_times_its_bits():
    assert over_data_parallel("streaming-diloco", 1000, period=100) == pytest.approx(100 * 32 / 4, rel=1e-4)


def test_des_loc_over_data_parallel_and_over_local_adam():
    steps = 6 * 256 * 2
    to = the_job(steps)
    assert over_data_parallel("des-loc", steps, period=256) == pytest.approx(256 / 1.5, rel=1e-12)
    local, des = built("local_adam", to, period=256), built("des-loc", to, period=256)
    assert sent(local, steps) / sent(des, steps) == pytest.approx(2.0, rel=1e-12)


def test_mt_dao_with_one_momentum():
    assert over_data_parallel("mt-dao", 320, period=32) == pytest.approx(32 / 3, rel=1e-12)


def test_sparseloco_sends_values_and_positions_alone():
    to = the_job(30)
    algorithm = built(
        "sparseloco", to, period=15, compressor={"chain": {"fraction": 0.03125, "chunk": 4096, "bits": 2}}
    )
    chunks = 2**20 // 4096
    payload = algorithm.messages(14)[0].nbytes(((2**20,),))
    assert payload == chunks * (128 * (2 + 12) + 32) / 8  # two bits and a position each, and a scale a chunk


@pytest.mark.parametrize("node", [1, 2])
def test_detonation_sends_k_of_each_chunk(node):
    to = the_job(2)
    demo = built("detonation", to, node=node, chunk=64, k=32)
    between = [m for m in demo.messages(0) if m.kind == "all_gather"]
    shapes = ((4096, 4096),)
    assert len(between) == node
    assert sum(m.nbytes(shapes) for m in between) == 4096 * 4096 * 32 / 64**2 * (4 + 4)
    packed = built("detonation", to, chunk=64, k=32, positions="packed").messages(0)[0]
    assert packed.nbytes(shapes) == 4096 * 4096 * 32 / 64**2 * (32 + 12) / 8


def test_noloco_sends_two_models_and_gossip_one_to_each_neighbour():
    to = the_job(100)
    model = 4.0 * sum(math.prod(s) for s in TARGET)
    assert sent(built("noloco", to, period=50), 100) == 2 * 2 * model
    ring = built("gossip", to, graph="ring", rounds=3).messages(0)
    assert len(ring) == 3 and all(m.degree == 2 and m.nbytes(TARGET) == model for m in ring)


@pytest.mark.parametrize("id", OURS)
def test_messages_have_the_bytes_of_real_encodings(id):
    to = the_job(100)
    knobs = {"period": 4} if "period" in ALGORITHMS.get(id).knobs else {}
    algorithm = built(id, to, **knobs)
    row = np.random.default_rng(1).normal(size=ENTRIES)
    seen = 0
    for step in range(24):
        for message in algorithm.messages(step):
            if not hasattr(message.wire, "encode"):
                continue
            shapes = message.fragment.shapes(SHAPES)
            entries = sum(math.prod(s) for s in shapes)
            real = len(message.wire.encode(row[:entries], shapes, to.draws, 0, step))
            assert abs(message.nbytes(SHAPES) / message.copies - real) < 1.0
            seen += 1
    assert seen or id == "detonation"


@pytest.mark.parametrize("id", OURS)
def test_messages_say_nothing_of_what_was_learned(id):
    to = the_job(64)
    knobs = {"period": 4} if "period" in ALGORITHMS.get(id).knobs else {}
    algorithm = built(id, to, **knobs)
    before = [algorithm.messages(step) for step in range(64)]
    state = algorithm.start(np.ones(ENTRIES))
    for step in range(64):
        gradients = np.ones_like(state.params)
        algorithm.before_step(state, gradients, step)
        algorithm.step(state, gradients, step)
        algorithm.after_step(state, step)
    assert [algorithm.messages(step) for step in range(64)] == before
