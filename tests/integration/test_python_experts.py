"""The Python client's experts(): arrays of several libraries' manners, residents, jobs, coroutines and mistakes."""

import asyncio
import re

import numpy as np
import pytest

from test_experts import Experts
from test_python_client import CLIENT  # noqa: F401 (makes the package be found)

from gemmd_client import AsyncClient, Client  # isort: skip


@pytest.fixture
def client(url):
    with Client(url) as made:
        yield made


@pytest.fixture
def problem(rng):
    return Experts(rng, 10, 12, 14, 3, 2, dtype="f16", glu=True, weights=True, bias=True, act="silu")


def options_of(problem):
    return {"weights": problem.weights, "bias": problem.bias, "glu": True, "act": "silu"}


def test_experts(client, problem):
    found = client.experts(problem.a, problem.w, problem.experts, **options_of(problem))
    assert found.dtype == np.float16
    problem.assert_close(found)
    wide = client.experts(problem.a, problem.w, problem.experts.astype(np.int64), **options_of(problem),
                          out_dtype="f32")
    assert wide.dtype == np.float32
    turned = client.experts(problem.a, np.swapaxes(problem.w, 1, 2), problem.experts, **options_of(problem), transb=True)
    assert np.array_equal(turned, found)
    room = np.empty_like(found)
    assert client.experts(problem.a, problem.w, problem.experts, **options_of(problem), out=room) is room
    assert np.array_equal(room, found)


def test_one_place_of_a_row(client, rng):
    problem = Experts(rng, 10, 12, 14, 3)
    problem.assert_close(client.experts(problem.a, problem.w, problem.experts[:, 0]))
    promoted = client.experts(problem.a.astype(np.float16).astype(np.float64), problem.w, problem.experts)
    assert promoted.dtype == np.float64


def test_residents_jobs_and_stored_results(client, problem):
    wanted = client.experts(problem.a, problem.w, problem.experts, **options_of(problem))
    w = client.put("python.experts", problem.w)
    try:
        assert np.array_equal(client.experts(problem.a, w, problem.experts, **options_of(problem)), wanted)
        job = client.experts_job(problem.a, w, problem.experts, **options_of(problem))
        assert np.array_equal(job.result(timeout=60), wanted)
        job.cancel()
        stored = client.experts_store("python.hidden", problem.a, w, problem.experts, **options_of(problem))
        assert np.array_equal(client.get(stored), wanted)
        down = np.ones((3, 12, 2), np.float16)
        assert np.array_equal(client.experts(stored, down, problem.experts[:, :1]),
                              client.experts(wanted, down, problem.experts[:, :1]))
        client.delete(stored)
    finally:
        client.delete(w)


def test_coroutines(client, url, problem):
    async def all_of():
        async with AsyncClient(url) as made:
            found = await made.experts(problem.a, problem.w, problem.experts, **options_of(problem))
            job = await made.experts_job(problem.a, problem.w, problem.experts, **options_of(problem))
            stored = await made.experts_store("python.async", problem.a, problem.w, problem.experts,
                                              **options_of(problem))
            kept = await made.get(stored)
            await made.delete(stored)
            of_job = await job
            await job.cancel()
            return found, of_job, kept
    wanted = client.experts(problem.a, problem.w, problem.experts, **options_of(problem))
    assert all(np.array_equal(found, wanted) for found in asyncio.run(all_of()))


@pytest.mark.parametrize("change, error, text", [
    ({"experts": np.full((4, 2), 3)}, ValueError, "w has the experts 0 to 2"),
    ({"experts": np.full((4, 2), -2)}, ValueError, "numbers from -2"),
    ({"experts": np.zeros((4, 2))}, TypeError, "whole"),
    ({"experts": np.zeros((3, 2), int)}, ValueError, "experts has the shape (3, 2)"),
    ({"weights": np.zeros((4, 3))}, ValueError, "weights are for 3 places"),
    ({"w": np.zeros((3, 6, 4), np.float32)}, ValueError, "experts of 6"),
    ({"w": np.zeros((5, 4), np.float32)}, ValueError, "w has 2 dimensions"),
    ({"a": np.zeros((0, 5), np.float32)}, ValueError, "must not be empty"),
    ({"bias": np.zeros(4, np.float32)}, ValueError, "it must have (3, 4)"),
    ({"w": np.zeros((3, 5, 3), np.float32), "glu": True}, ValueError, "even"),
    ({"a": np.zeros((4, 5), np.int8), "w": np.zeros((3, 5, 4), np.int8)}, TypeError,
     "a and w have the type int8; the daemon does this with float64, float32, float16, bfloat16"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_mistakes(change, error, text, client):
    arguments = {"a": np.zeros((4, 5), np.float32), "w": np.zeros((3, 5, 4), np.float32),
                 "experts": np.zeros((4, 2), np.int64), **change}
    with pytest.raises(error, match=re.escape(text)):
        client.experts(**arguments)
