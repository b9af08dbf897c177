"""Prints what a wheel requires, without extras and without the torch family, which is installed apart."""
import re
import sys
import zipfile

wheel = zipfile.ZipFile(sys.argv[1])
metadata = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for line in wheel.read(metadata).decode().splitlines():
    if line.startswith("Requires-Dist:") and "extra ==" not in line:
        requirement = line.split(":", 1)[1].strip()
        if re.split(r"[^A-Za-z0-9_.-]", requirement)[0] not in ("torch", "torchaudio", "torchvision", "torchcodec"):
            print(requirement)
