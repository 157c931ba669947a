# SPDX-License-Identifier: Apache-2.0
"""usage: test_models.py COMMAND FOLDER[/EVERY]…  Runs models from Python and by the command, and compares their
results bit by bit; where one refuses, the other must. A FOLDER has a folder for each model, with model.onnx and
test_data_set_K/input_K.pb; of FOLDER/12 each twelfth is taken. Skipped (77) without onnx and numpy."""

import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError:
    print("SKIP: no onnx: scripts/deps --python")
    sys.exit(77)

import ductile


def read(path):
    with open(path, "rb") as file:
        return numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))


def files(folder):
    """input_K.pb of a set, in order."""
    named = [re.match(r"input_(\d+)\.pb$", name) for name in os.listdir(folder)]
    return [os.path.join(folder, m[0]) for m in sorted(filter(None, named), key=lambda m: int(m[1]))]


def by_command(command, model, inputs, n, work):
    """The bytes of each result by the command, or what it says."""
    outs = [os.path.join(work, f"{k}.npy") for k in range(n)]
    arguments = [f"--input={k}={path}" for k, path in enumerate(inputs)]
    arguments += [f"--output={k}={path}" for k, path in enumerate(outs)]
    done = subprocess.run([command, "run", model, *arguments], capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    return [np.load(path) for path in outs]


def equal(result, expected):
    """Bit by bit. What numpy has no elements of the command writes as f32, whose NaN has no sign, or as bytes."""
    few = result.dtype.name.startswith(("bfloat16", "float8"))
    if few and expected.dtype == np.float32:
        return np.array_equal(result.astype(np.float32), expected, equal_nan=True)
    fits = few and expected.dtype.kind == "V" or result.dtype == expected.dtype
    return fits and result.shape == expected.shape and result.tobytes() == expected.tobytes()


class Tally:
    def __init__(self):
        self.equal = self.refused = self.sets = self.unread = 0
        self.wrong = []


def compare(command, model, function, inputs, work, tally):
    """One set of inputs."""
    try:
        arrays = [read(path) for path in inputs]
    except Exception:  # strings, sequences: no tensors
        tally.unread += 1
        return
    if any(a.dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn") for a in arrays):
        tally.unread += 1
        return
    try:
        results = function.run(arrays)
    except (ductile.Error, TypeError) as failed:
        results = failed
    n = len(results) if isinstance(results, tuple) else 1
    expected = by_command(command, model, inputs, n, work)
    if isinstance(results, Exception) or isinstance(expected, str):
        both = isinstance(results, Exception) and isinstance(expected, str)
        tally.refused += both
        if not both:
            tally.wrong.append((model, results, expected))
        return
    results = results if isinstance(results, tuple) else (results,)
    tally.sets += 1
    if any(isinstance(result, ductile.Tensor) for result in results):
        tally.unread += 1  # the command writes a byte for each packed element
    elif all(map(equal, results, expected)):
        tally.equal += 1
    else:
        tally.wrong.append((model, results, expected))


def run_folder(command, folder, tally):
    model = os.path.join(folder, "model.onnx")
    sets = sorted(name for name in os.listdir(folder) if name.startswith("test_data_set_"))
    with tempfile.TemporaryDirectory() as work:
        try:
            ductile.load(model)
        except ductile.Error as failed:
            said = by_command(command, model, [], 0, work)
            tally.refused += isinstance(said, str)
            if not isinstance(said, str):
                tally.wrong.append((model, failed, said))
            return False
        for name in sets:
            # A process of the command begins with the set, and code is made for the sizes of a first call.
            function = ductile.load(model)
            compare(command, model, function, files(os.path.join(folder, name)), work, tally)
    return True


def main():
    command, *folders = sys.argv[1:]
    failures = 0
    for given in folders:
        folder, every = re.match(r"(.*?)(?:/(\d+))?$", given).groups()
        tally, models = Tally(), 0
        for name in sorted(os.listdir(folder))[::int(every or 1)]:
            if os.path.exists(os.path.join(folder, name, "model.onnx")):
                models += run_folder(command, os.path.join(folder, name), tally)
        for model, results, expected in tally.wrong:
            print(f"{model}: {str(results)[:300]}\n  by the command: {str(expected)[:300]}")
        failures += len(tally.wrong)
        print(f"{os.path.basename(folder)}: {models} models, {tally.sets} calls, {tally.equal} equal bit by bit, "
              f"{tally.refused} refused by both, {tally.unread} of no tensors of numpy, {len(tally.wrong)} wrong")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
