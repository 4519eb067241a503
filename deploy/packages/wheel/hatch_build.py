"""Puts gemmd, gemmctl and libgemmd of a build in the wheel, which is then for the platform of the build. The
environment's GEMMD_BUILD names the folder of the build."""

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramsHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if "GEMMD_BUILD" not in os.environ:
            raise RuntimeError("the wheel needs GEMMD_BUILD, the folder of a build of gemmd")
        for name in ("bin/gemmd", "bin/gemmctl", "lib/libgemmd.so.0"):
            path = os.path.realpath(os.path.join(os.environ["GEMMD_BUILD"], name))
            build_data["force_include"][path] = f"gemmd_server/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
