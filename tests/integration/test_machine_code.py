"""The machine code of the kernels that serve, as the compiler left it: nothing in local memory, and
Hopper's own matrix instructions where they are meant. Needs no GPU."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SERVING = re.compile(r"register_tiled_kernel|grouped_(f32_)?kernel|tensor_core_kernel|sm90_gemm|"
                     r"attention_wgmma|attention_\w*_kernel|reduce_shuffle_|softmax_(online|clustered)_|"
                     r"sm90_conv_|conv_depthwise_|packed_(many_)?kernel")


@pytest.fixture(scope="module")
def cuobjdump(gemmd):
    """Runs the disassembler on the daemon or on an object file, from the toolkit or from its PyPI package."""
    packaged = Path(sys.prefix).glob("lib/python3*/site-packages/nvidia/*/bin/cuobjdump")
    program = (shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
               or next(map(str, packaged), None))
    assert program is not None, "there is no cuobjdump; it is in tests/requirements-all.txt"

    def run(*arguments, file=gemmd, check=True):
        return subprocess.run([program, *arguments, str(file)], check=check, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    listing = run("--list-elf", check=False)
    if "does not contain device code" in listing.stdout + listing.stderr:
        pytest.skip("this daemon was built without CUDA")
    assert "ELF file" in listing.stdout, listing.stderr
    run.program = program
    return run


@pytest.fixture(scope="module")
def assembled(gemmd):
    """Says of a pattern of file names whether the files have machine code, which most builds have of all files
    (GEMMD_CUDA_SHARE)."""
    left_out = gemmd.parents[1] / "kernels" / "unassembled.txt"
    names = left_out.read_text().split(";") if left_out.exists() else []

    def all_of(pattern):
        return not any(re.search(pattern, name) for name in names)

    return all_of


def need_code(assembled, pattern):
    if not assembled(pattern):
        pytest.skip(f"this build has no machine code of {pattern}")


def resource_usage(cuobjdump, architecture=None, **more):
    """What each kernel uses, by its name."""
    only = ["--gpu-architecture", architecture] if architecture else []
    return dict(re.findall(r"Function (\S+):\s+(REG:.*)", cuobjdump("--dump-resource-usage", *only, **more).stdout))


def test_serving_kernels_stay_in_registers(cuobjdump, assembled):
    kernels = resource_usage(cuobjdump)
    serving = {name: used for name, used in kernels.items() if SERVING.search(name)}
    assert len(serving) > 20
    for kernel, files in (("attention_tiled", "attention/tiled_"), ("attention_wgmma", "sm90/attention/"),
                          ("attention_flash_mma", "flash_mma"), ("attention_decode", "decode"),
                          ("packed_kernel", "packed/packed"), ("packed_many_kernel", "packed/packed_many"),
                          ("register_tiled_kernel_specialised", "register_tiled_sm90")):
        assert any(kernel in name for name in serving) or not assembled(files), kernel
    spilled = [f"{name}: {used}" for name, used in serving.items()
               if not re.search(r"STACK:0 .*LOCAL:0 ", used)]
    assert not spilled, "\n".join(spilled)


@pytest.fixture(scope="module", name="disassemble")
def code_of_kernels(cuobjdump, gemmd):
    """A function that returns the code of the daemon's kernels whose names have a pattern. It reads the object files
    that the daemon is linked from, where the build has them, since to disassemble the daemon takes as long as all of
    its kernels."""
    objects = sorted((gemmd.parents[1] / "kernels").rglob("*.cu.o")) or [gemmd]
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    names = dict(zip(objects, pool.map(lambda file: set(resource_usage(cuobjdump, file=file)), objects)))

    def code(pattern, architecture):
        kernels = {name for name in resource_usage(cuobjdump) if re.search(pattern, name)}
        files = [file for file in objects if names[file] & kernels]
        listings = pool.map(lambda file: cuobjdump("--dump-sass", "--gpu-architecture", architecture,
                                                   file=file).stdout, files)
        functions = [function for listing in listings for function in listing.split("Function : ")[1:]]
        found = {function.split(None, 1)[0]: function for function in functions}
        assert kernels, f"the daemon has no kernel called {pattern}"
        return {name: found[name] for name in kernels}

    return code


def test_hopper_kernels_use_hopper_instructions(disassemble):
    """HGMMA for f16, bf16 and tf32, IGMMA for i8, QGMMA for f8; HMMA where each warp multiplies by itself. Every share
    of the files has such kernels."""
    hopper = disassemble("sm90_gemm|sm90_conv|attention_wgmma|grouped_(f32_)?kernel", "sm_90a")
    without = [name for name, code in hopper.items()
               if not re.search(r"\bHMMA\b" if re.search("gemm_(streamed|one_row)", name) else r"\b[HIQ]GMMA\b", code)]
    assert not without, "\n".join(without)


@pytest.mark.parametrize("kernel, file", [("grouped_kernel", "grouped/grouped.cu"),
                                          ("grouped_f32_kernel", "grouped/grouped_f32_sm90.cu")])
def test_grouped_products_are_not_waited_for_one_by_one(disassemble, assembled, kernel, file):
    """What the compiler does where it finds no registers: a wait after each of six."""
    need_code(assembled, file)
    code, = disassemble(rf"7grouped\d+{kernel}", "sm_90a").values()
    assert code.count("WARPGROUP.DEPBAR") * 6 <= len(re.findall(r"\bHGMMA\b", code))


def test_grouped_f32_leaves_room_for_five_blocks(cuobjdump, assembled):
    """65,536 registers, of which a warp gets multiples of 256."""
    need_code(assembled, "grouped/grouped_f32_sm90.cu")
    used, = [used for name, used in resource_usage(cuobjdump).items() if "18grouped_f32_kernel" in name]
    assert int(re.match(r"REG:(\d+)", used)[1]) <= 96


@pytest.mark.parametrize("kernel, file, product", [
    ("tensor_core_kernel", "tensor_core_f16", "HMMA.16816"), ("tensor_core_kernel", "tensor_core_bf16", "HMMA.16816"),
    ("tensor_core_kernel", "tensor_core_tf32", "HMMA.1688.F32.TF32"),
    ("tensor_core_kernel", "tensor_core_i8", "IMMA.16832.S8.S8"), ("flash_mma_kernel", "flash_mma", "HMMA.16816"),
    ("attention_decode.*split", "attention/decode", "HMMA.16816")])
def test_kernels_for_every_gpu_use_tensor_cores(cuobjdump, disassemble, assembled, kernel, file, product):
    """For sm_80, or for Hopper where the build has no other architecture."""
    need_code(assembled, file)
    architecture = "sm_80" if ".sm_80." in cuobjdump("--list-elf").stdout else "sm_90a"
    kernels = disassemble(kernel, architecture).values()
    assert any(product in code for code in kernels)
    assert all(re.search(r"HMMA\.16816|HMMA\.1688\.F32\.TF32|IMMA\.16832", code)
               and "LDSM" in code and "LDGSTS" in code for code in kernels)


@pytest.mark.nightly
@pytest.mark.parametrize("architecture", ["sm_100", "sm_103", "sm_120"])
def test_drivers_of_newer_gpus_can_compile_the_kernels(architecture, cuobjdump, gemmd, tmp_path):
    """As the driver of such a GPU does with the PTX of the kernels that are not for Hopper alone. No optimisation:
    whether every instruction is there does not depend on it."""
    assembler = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
    assert assembler is not None, "there is no ptxas"
    listing = cuobjdump("--list-ptx", check=False).stdout
    names = re.findall(r"PTX file +\d+: (\S+\.sm_80\.ptx)", listing)
    if not names:
        pytest.skip("the build is for Hopper alone")
    subprocess.run([cuobjdump.program, "--extract-ptx", "all", str(gemmd)], cwd=tmp_path, check=True,
                   stdout=subprocess.DEVNULL)
    files = sorted(tmp_path.glob("*.ptx"))
    assert len(files) == len(names) > 20

    def assemble(file):
        return subprocess.run([assembler, "-O0", f"--gpu-name={architecture}", file, "-o", file.with_suffix(".cubin")],
                              check=False, capture_output=True, text=True)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        failed = [f"{file.name}: {run.stderr}" for file, run in zip(files, pool.map(assemble, files)) if run.returncode]
    assert not failed, "\n".join(failed)


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["sm_100f", "sm_120f"])
def test_newer_gpus_have_machine_code(family, cuobjdump):
    """Of the kernels that are not for Hopper alone (GEMMD_CUDA_FAMILIES)."""
    if ".sm_80." not in cuobjdump("--list-elf").stdout:
        pytest.skip("the build is for Hopper alone")
    ours, others = (set(resource_usage(cuobjdump, architecture=name)) for name in (family, "sm_80"))
    assert len(ours) > 20 and ours == others
