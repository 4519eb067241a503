"""A certificate authority for tests, made with the openssl command."""

import subprocess


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    def __init__(self, folder, name="authority"):
        self.folder = folder
        self.key, self.certificate = folder / f"{name}.key", folder / f"{name}.pem"
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", self.key, "-out", self.certificate, "-days", "2", "-subj", f"/CN={name}")

    def issue(self, name, alternatives, usage, days=2):
        """The (certificate, key) files of a new certificate with the CN `name`."""
        key, request, extensions, certificate = (
            self.folder / f"{name}.{kind}" for kind in ("key", "csr", "ext", "pem"))
        extensions.write_text(f"subjectAltName={alternatives}\nextendedKeyUsage={usage}\n")
        _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
                 "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", certificate)
        return certificate, key

    def server(self):
        return self.issue("localhost", "DNS:localhost,IP:127.0.0.1", "serverAuth")

    def client(self, name):
        return self.issue(name, f"URI:spiffe://test/{name},DNS:{name}.example", "clientAuth")
