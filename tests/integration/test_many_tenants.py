"""Tenants after the 64th share one value of each metric, named (others)."""

import re

import numpy as np

from daemon import PATIENCE_S
from test_tensors import Tensors

NAMED, TENANTS = 64, 70


def test_tenants_after_the_first_share_a_value(start, tmp_path):
    path = tmp_path / "tokens"
    path.write_text("".join(f"t{i}:token-number-{i:03}\n" for i in range(TENANTS)))
    path.chmod(0o600)
    daemon = start("--token-file", str(path), "--metrics-tenant", "t0")
    array = np.ones((4, 4), np.float32)
    for i in (0, NAMED - 1, NAMED, TENANTS - 1):
        assert Tensors(daemon.url, f"token-number-{i:03}").put(f"w{i}", array).status_code == 201
    refused = Tensors(daemon.url, f"token-number-{TENANTS - 1:03}")
    assert refused.session.get(f"{refused.url}/no-such", timeout=PATIENCE_S).status_code == 404

    def scrape(tenant):
        text = daemon.session.get(f"{daemon.url}/metrics", timeout=PATIENCE_S,
                                  headers={"Authorization": f"Bearer token-number-{tenant:03}"}).text
        return {(name, who): float(value) for name, who, value in re.findall(
            r'^(gemmd_tenant_\w+)\{tenant="([^"]*)"[^}]*\} (\S+)$', text, re.M)}

    series = scrape(0)
    names = {who for _, who in series}
    assert len(names) == NAMED + 1 and {"t0", f"t{NAMED - 1}", "(others)"} <= names, names
    assert f"t{NAMED}" not in names
    sizes = {who: value for (name, who), value in series.items() if name == "gemmd_tenant_tensor_bytes"}
    assert sizes["(others)"] == 2 * sizes["t0"] == 2 * sizes[f"t{NAMED - 1}"] > 0, sizes
    assert {who for _, who in scrape(TENANTS - 1)} == {f"t{TENANTS - 1}"}
