# SPDX-License-Identifier: Apache-2.0
"""usage: install.py SOURCES BUILD HOME. Makes a wheel of a build, looks at it, and installs it into a new
environment at HOME, which finds numpy and others where this interpreter has them."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile


def look(path):
    """What a wheel promises of itself holds."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        record = next(name for name in names if name.endswith("/RECORD"))
        rows = [line.rsplit(",", 2) for line in wheel.read(record).decode().splitlines()]
        assert sorted(name for name, _, _ in rows) == sorted(names), "RECORD has other files"
        for name, digest, size in rows:
            if name == record:
                continue
            data = wheel.read(name)
            known = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert digest == f"sha256={known}" and int(size) == len(data), name
        tags = next(wheel.read(name).decode() for name in names if name.endswith("/WHEEL"))
        assert f"Tag: {os.path.basename(path)[:-4].split('-', 2)[2]}\n" in tags, tags
    assert any(name.endswith("licenses/LICENSE") for name in names)
    return names


# What each shared object of a wheel shows others: all of it is of these names.
SHOWN = {"_core.abi3.so": r"PyInit__core", "libductile.so.1": r"dt_[a-z]\w*",
         "libductile-jit.so": r"dt_jit_enter", "libductile-onnxruntime.so": r"(Create|Release)EpFactor(y|ies)"}


def exports(path):
    """The symbols that a file gives others, without the names of its versions."""
    listed = subprocess.run(["nm", "-D", "--defined-only", path], stdout=subprocess.PIPE, text=True, check=True)
    parts = [line.split()[-2:] for line in listed.stdout.splitlines()]
    return [name.split("@")[0] for kind, name in parts if kind != "A"]


def look_at_objects(folder):
    """Each shows what its row says, and no more."""
    for name in sorted(name for name in os.listdir(folder) if ".so" in name):
        shown = exports(os.path.join(folder, name))
        odd = [symbol for symbol in shown if not re.fullmatch(SHOWN[name], symbol)]
        assert shown and not odd, f"{name} shows {odd or 'nothing'}"


def main():
    sources, build, home = sys.argv[1:]
    made = []
    for turn in ("dist", "again"):
        done = subprocess.run([os.path.join(sources, "scripts", "wheel"), "--build", build,
                               "--out", os.path.join(build, "python", turn)],
                              stdout=subprocess.PIPE, text=True)
        if done.returncode:
            return done.returncode
        made.append(done.stdout.strip())
    contents = [open(path, "rb").read() for path in made]
    assert contents[0] == contents[1], "two wheels of one build differ"
    names = look(made[0])
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    paths = sysconfig.get_paths("venv", vars={"base": home, "platbase": home})
    with open(os.path.join(paths["purelib"], "others.pth"), "w", encoding="utf-8") as file:
        file.write("\n".join(path for path in sys.path if path.endswith("-packages")))
    if subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL).returncode == 0:
        subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install",
                        "--no-index", "--no-deps", "--target", paths["platlib"], made[0]], check=True)
    else:
        with zipfile.ZipFile(made[0]) as wheel:
            wheel.extractall(paths["platlib"])
    look_at_objects(os.path.join(paths["platlib"], "ductile"))
    print(f"{os.path.basename(made[0])}: {len(names)} files, installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
