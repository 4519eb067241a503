"""Puts libgemmd in the wheel if the environment's GEMMD_LIBRARY names the file. The wheel is then for the
platform of the library."""

import os
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LibraryHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        library = os.environ.get("GEMMD_LIBRARY")
        if not library:
            return
        if not os.path.isfile(library):
            raise FileNotFoundError(f"GEMMD_LIBRARY is {library}, which is not a file")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["force_include"][os.path.realpath(library)] = "gemmd_client/libgemmd.so.0"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
