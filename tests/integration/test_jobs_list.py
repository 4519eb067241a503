"""GET /jobs: the caller's own jobs, in pages."""

import pytest

from problem import assert_problem
from test_jobs import UNKNOWN, assert_nothing_held, eventually, jobs, listed, start_jobs  # noqa: F401


@pytest.fixture
def tenant_jobs(start_jobs, tmp_path):
    """Jobs of a daemon that requires a token, which is what lists of jobs with ids need."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:the-token-of-alice\n")
    tokens.chmod(0o600)
    daemon, jobs = start_jobs("--token-file", tokens)
    daemon.session.headers["Authorization"] = "Bearer the-token-of-alice"
    return jobs


def test_list_without_tokens(start_jobs):
    """The ids are secrets: all clients are one tenant."""
    _, jobs = start_jobs()
    path = jobs.make()
    assert jobs.result(path).status_code == 200
    described = jobs.view(path)
    assert described.pop("id") in path
    assert jobs.get("/jobs").json() == {"jobs": [described], "next": None}
    assert jobs.delete(path).status_code == 200


def test_list(tenant_jobs):
    """The newest first, each with its own description, from being accepted until it is deleted."""
    jobs = tenant_jobs
    assert jobs.get("/jobs").json() == {"jobs": [], "next": None}
    first = jobs.make()
    assert jobs.result(first).status_code == 200
    long = jobs.make_endless()
    waiting = jobs.make()
    failed = jobs.make({"m": 2, "n": 2, "k": 2, "timeout_ms": 1})
    assert jobs.result(failed).status_code == 504
    paths, document = listed(jobs)
    assert paths == [failed, waiting, long, first]
    assert document["next"] is None
    done = document["jobs"][3]
    assert done == jobs.view(first)
    assert (done["state"], done["op"], done["status"]) == ("done", "gemm", 200)
    assert document["jobs"][0]["state"] == "failed"
    assert jobs.delete(first).status_code == 200
    assert listed(jobs)[0] == [failed, waiting, long]
    for path in (waiting, long):
        assert jobs.delete(path).json()["state"] == "cancelled"
    eventually(lambda: listed(jobs)[0] == [failed], "cancelled jobs stay in the list")
    assert jobs.delete(failed).status_code == 200
    assert listed(jobs)[0] == []
    assert_nothing_held(jobs)


def test_pages_of_the_list(tenant_jobs):
    """Pages of each length put together are the list, also if jobs end in between."""
    jobs = tenant_jobs
    made = [jobs.make() for _ in range(7)]
    newest = made[::-1]
    for limit in (1, 3, 6, 7, 8):
        found, after = [], {}
        while after is not None:
            page, document = listed(jobs, limit=limit, **after)
            assert 1 <= len(page) <= limit
            found += page
            after = None if document["next"] is None else {"after": document["next"]}
        assert found == newest
    page, document = listed(jobs, limit=2)
    assert page == newest[:2]
    for path in (newest[1], newest[3]):
        jobs.delete(path)
    assert listed(jobs, limit=2, after=document["next"])[0] == [newest[2], newest[4]]
    for path in made:
        jobs.delete(path)


@pytest.mark.parametrize("query, field", [
    ("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("limit=1&limit=1", "limit"),
    ("after=0", "after"), ("after=", "after"), ("after=-1", "after"), (f"after={UNKNOWN}", "after"),
    ("after=1&after=1", "after"), ("state=done", "state")])
def test_wrong_parameters_of_the_list(query, field, jobs):
    assert_problem(jobs.get(f"/jobs?{query}"), 400, field=field)
