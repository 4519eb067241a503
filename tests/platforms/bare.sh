#!/usr/bin/env bash
# bare.sh FOLDER SUITE FILES - goes from nothing to a checked product in three ways, each in a root of its own that has
# apt and the essential packages of SUITE alone (bookworm, trixie; noble of Ubuntu): with the Debian packages in the
# folder FILES, with the wheels in FILES, and with deploy/quickstart.sh. Prints the seconds of each way, downloads
# included. Needs root, mmdebstrap and openssl. Exits with status 77 if the archive of the suite cannot be reached.
set -euo pipefail
# shellcheck source=tests/platforms/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"

folder=$1 suite=$2 files=$3
bare=$folder/$suite
make_root "$bare" "$suite" amd64 '' || exit 77
connect "$bare"
mkdir -p "$bare/files"
cp "$files"/{gemmd,gemmctl,libgemmd0}_*.deb "$files"/gemmd_{client,server}-*.whl "$bare/files"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -keyout "$bare/files/key.pem" -out "$bare/files/certificate.pem" 2>/dev/null

# What the scripts in the roots share.
# shellcheck disable=SC2016  # the script's own variables
functions='
apt() { apt-get -qq -o Acquire::Retries=3 "$@" </dev/null >/dev/null; }
# serve COMMAND...: starts a daemon, and sets the address on which the daemon listens.
serve() {
    rm -f /log
    "$@" --backend cpu --pinned-bytes 64M --device-bytes 64M --tensor-bytes 16M >/log &
    trap "kill $! 2>/dev/null || true" EXIT
    until grep -qs "listening on" /log; do
        kill -0 $! || exit 1
        sleep 0.1
    done
    address=$(grep -oE "127\.0\.0\.1:[0-9]+" /log | head -n 1)
}
# The daemon of the package, run as its unit does.
installed() {
    exec setpriv --reuid=gemmd --regid=gemmd --init-groups \
        $(sed -n "s/^ExecStart=//p" /usr/lib/systemd/system/gemmd.service) "$@"
}
stop() { kill $! && wait $!; }
'

# way NAME SCRIPT [MORE]: runs the script in a fresh root, and prints how long the script took. Then MORE runs in the
# same root.
way() {
    local name=$1 script=$2 more=${3-} root=$folder/$suite-$1 begin end
    cp -a "$bare" "$root"
    begin=$(date +%s%N)
    inside "$root" "$functions $script"
    end=$(date +%s%N)
    [[ -z $more ]] || inside "$root" "$functions $more"
    rm -rf "$root"
    echo "bare: $suite, $name: $(((end - begin) / 1000000000)) seconds"
}

# shellcheck disable=SC2016
way packages '
apt update
apt install -y /files/*.deb 2>/dev/null
serve installed --listen 127.0.0.1:0
until gemmctl --quiet ready --url "http://$address"; do sleep 0.1; done
gemmctl gemm --random 200x150x100 --check --url "http://$address"
stop
' '
chown gemmd /files/key.pem
serve installed --listen 127.0.0.1:0 --tls-cert /files/certificate.pem --tls-key /files/key.pem
gemmctl gemm --random 200x150x100 --check --url "https://localhost:${address#*:}" --ca-file /files/certificate.pem
stop
'
# shellcheck disable=SC2016
way wheel '
apt update
apt install -y --no-install-recommends python3-venv
python3 -m venv /venv
PATH=/venv/bin:$PATH
pip install --quiet --disable-pip-version-check /files/*.whl
serve gemmd --listen 127.0.0.1:0
until gemmctl --quiet ready --url "http://$address"; do sleep 0.1; done
python3 -c "
import sys, numpy, gemmd_client
a, b = numpy.random.default_rng(0).integers(-9, 9, (2, 50, 50)).astype(numpy.float32)
client = gemmd_client.Client(sys.argv[1])
assert client.transport == \"library\"
assert (client.gemm(a, b) == a @ b).all()
" "http://$address"
stop
'
way quickstart 'deploy/quickstart.sh --cpu --port 0 --once'
echo "bare: products checked"
