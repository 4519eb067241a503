# shellcheck shell=bash disable=SC2154  # out, venv and tier are variables of tests/run.sh
# What tests/run.sh installs: packages of the system, if a program or library is missing, and packages of
# Python into build-tests. Each part is asked for what it needs, so that the first tier installs little.

missing=()
want_command() { command -v "$1" >/dev/null || missing+=("$2"); }
want_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }

find_missing() {
    want_command cmake cmake
    want_command ninja ninja-build
    want_command gcc gcc
    want_command pkg-config pkg-config
    want_command curl curl
    want_command openssl openssl
    want_command git git
    if uses_cuda; then want_command g++ g++; fi
    [[ -e /usr/include/stdio.h ]] || missing+=(libc6-dev)
    want_library libmicrohttpd libmicrohttpd-dev
    want_library libuv libuv1-dev
    want_library jansson libjansson-dev
    want_library gnutls libgnutls28-dev
    want_library nettle nettle-dev
    want_library zlib zlib1g-dev
    want_library libcurl libcurl4-gnutls-dev
    want_library openblas libopenblas-dev
    want_library check check
    # What several builds compile with the same options is compiled once.
    [[ $tier == first ]] || want_command ccache ccache
    if wanted lint; then
        want_command clang-format clang-format
        want_command clang-tidy clang-tidy
        want_command cppcheck cppcheck
        want_command shellcheck shellcheck
    fi
    if wanted unit || wanted integration || wanted asan || wanted tsan || wanted deploy; then
        want_command prometheus prometheus
        want_command promtool prometheus
    fi
    if uses_python; then
        want_command python3 python3
        python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    fi
    if wanted integration || [[ $tier != first ]] && { wanted asan || wanted tsan; }; then
        want_command systemd-analyze systemd
        want_command systemd-sysusers systemd
    fi
    if wanted integration && [[ $tier != first ]]; then
        # Ubuntu's Chromium is a snap, which containers cannot run: there the tests of the page are skipped.
        if grep -q '^ID=debian' /etc/os-release; then
            want_command chromium chromium
            want_command chromedriver chromium-driver
        fi
        want_command fish fish # for the completion of gemmctl
        want_command valgrind valgrind # for test_instructions.py
    fi
    if wanted integration && [[ $tier == nightly ]]; then
        # For the clients that openapi-generator writes.
        want_command java default-jre-headless
        want_command go golang-go
        want_command node nodejs
        want_command tsc node-typescript
        # For perf_analyzer.
        /sbin/ldconfig -p | grep 'libb64\.so\.0d' >/dev/null || missing+=(libb64-0d)
    fi
    if wanted deploy; then
        want_command dpkg-shlibdeps dpkg-dev
        want_command file file
        want_command mandoc mandoc
        want_command mmdebstrap mmdebstrap
        want_command rpmbuild rpm
        want_command eu-strip elfutils
        want_command buildah buildah
        want_command haproxy haproxy
        if [[ $tier == nightly ]]; then
            want_command lintian lintian
            want_command clang clang # for tests/platforms/clang.sh
        fi
    fi
    if wanted msan || wanted fuzz; then
        want_command clang clang
    fi
}

install_missing() {
    local sudo=()
    ((${#missing[@]})) || return 0
    printf 'installing %s\n' "${missing[*]}"
    command -v apt-get >/dev/null || return 1
    if ((EUID != 0)); then
        command -v sudo >/dev/null || return 1
        sudo=(sudo)
    fi
    apt() {
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 \
            -o Acquire::Retries=3 "$@" </dev/null >/dev/null
    }
    apt update
    apt install -y --no-install-recommends "${missing[@]}"
}

# The runtime libraries of clang's sanitizers are in a package that clang only recommends, and whose name
# has clang's version.
can_fuzz() {
    command -v clang >/dev/null &&
        echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -x c -fsanitize=fuzzer,address,undefined -o "$out/can_fuzz" - 2>/dev/null
}
can_use_msan() {
    command -v clang >/dev/null &&
        echo 'int main(void) { return 0; }' | clang -x c -fsanitize=memory -o "$out/can_use_msan" - 2>/dev/null
}

# pip_once NAME FOLDER PIP_COMMAND...: runs pip with the packages of tests/NAME.txt, unless the copy of that
# file in FOLDER says that they are there. Every list names all that its packages depend on.
pip_once() {
    local list=tests/$1.txt stamp=$2/${1##*/}.txt
    shift 2
    ! cmp -s "$list" "$stamp" || return 0
    "$venv/bin/pip" "$@" --quiet --disable-pip-version-check --no-deps -r "$list" && cp "$list" "$stamp"
}

# One environment for all parts. The first tier's packages are in requirements.txt; the other lists add to
# them. Python compiles the modules that are imported, and pip none.
python_environment() {
    local lacking
    if [[ -e $venv/requirements.txt ]] && ! cmp -s tests/requirements.txt "$venv/requirements.txt"; then
        rm -rf "$venv"
    fi
    [[ -e $venv/bin/pip ]] || python3 -m venv "$venv" || return 1
    pip_once requirements "$venv" install --no-compile || return 1
    [[ $tier == first ]] || pip_once requirements-all "$venv" install --no-compile || return 1
    [[ $tier != nightly ]] || pip_once requirements-nightly "$venv" install --no-compile || return 1
    # A package that a list forgets is missed here, and not by some test. KServe's own list is cut short on purpose.
    lacking=$("$venv/bin/pip" check --disable-pip-version-check | grep 'is not installed' | grep -v '^kserve ')
    [[ -z $lacking ]] || { printf '%s\n' "$lacking" && return 1; }
}

# Triton's load generator, for test_perf_analyzer.py; there is one for x86-64 only.
perf_analyzer() {
    local to=$out/perf_analyzer wheel
    if [[ $(uname -m) != x86_64 ]] || cmp -s tests/perf_analyzer.txt "$to/perf_analyzer.txt"; then
        return 0
    fi
    rm -rf "$to"
    pip_once perf_analyzer "$to" download --dest "$to" || return 1
    for wheel in "$to"/*.whl; do
        python3 -m zipfile -e "$wheel" "$to" && rm "$wheel" || return 1
    done
    chmod +x "$to"/tritonclient-*/data/bin/perf_analyzer
}

# Programs and models for tests/deploy, beside the environment of the other tests, and the schemas of
# Kubernetes, which are read from their wheel. Sphinx is apart from both: it needs another docutils than they do.
deploy_tools() {
    local to=$out/deploy schemas=$out/kubernetes-schemas site=$out/site
    if ! cmp -s tests/deploy.txt "$to/deploy.txt"; then rm -rf "$to"; fi
    pip_once deploy "$to" install --no-compile --target "$to" || return 1
    if ! cmp -s tests/kubernetes_schemas.txt "$schemas/kubernetes_schemas.txt"; then rm -rf "$schemas"; fi
    pip_once kubernetes_schemas "$schemas" download --dest "$schemas" || return 1
    if ! cmp -s deploy/site/requirements.txt "$site/requirements.txt"; then rm -rf "$site"; fi
    pip_once ../deploy/site/requirements "$site" install --no-compile --target "$site"
}

install_all() {
    find_missing
    step "packages" install_missing
    if { wanted fuzz && ! can_fuzz; } || { wanted msan && ! can_use_msan; } && command -v clang >/dev/null; then
        missing=("libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev")
        step "packages (clang)" install_missing
    fi
    if uses_python; then step "Python packages" python_environment; fi
    if wanted integration && [[ $tier == nightly ]]; then step "perf_analyzer" perf_analyzer; fi
    if wanted deploy; then step "tools for deploy/" deploy_tools; fi
}
