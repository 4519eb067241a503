"""What an error answer must look like: RFC 9457, with one sentence that helps."""

import json
import re

MEMBERS = {"type", "title", "status", "detail", "request_id", "error"}


def assert_problem(answer, status, says=None, field=None):
    """`answer` is requests' or wire's; `says` is a pattern that the sentence must hold."""
    got = getattr(answer, "status_code", None) or answer.status
    body = getattr(answer, "content", None) or answer.body
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert got == status, f"status {got}, not {status}: {body[:500]!r}"
    assert headers.get("content-type", "").split(";")[0] == "application/problem+json", headers
    assert body.endswith(b"}\n"), f"no line feed ends {body[-40:]!r}"
    document = json.loads(body)
    assert document["request_id"] == headers["x-request-id"]
    assert MEMBERS <= set(document) <= MEMBERS | {"field"}, f"members {sorted(document)}"
    assert document["status"] == status
    assert document["error"] == document["detail"]
    assert len(document["detail"].split()) >= 4, f"no sentence: {document['detail']!r}"
    if says is not None:
        assert re.search(says, document["detail"]), f"{says!r} is not in {document['detail']!r}"
    assert document.get("field") == field, f"field {document.get('field')!r}, not {field!r}"
    return document
