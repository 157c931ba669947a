# SPDX-License-Identifier: Apache-2.0
"""Opens libductile.so from an interpreter that is already running, and uses it a little."""

import ctypes
import sys


def main() -> int:
    library = ctypes.CDLL(sys.argv[1])
    library.dt_version.restype = ctypes.c_char_p
    version = library.dt_version().decode()
    print("version", version)

    create = library.dt_tensor_create_empty
    create.restype = ctypes.c_void_p
    library.dt_tensor_count.restype = ctypes.c_int64
    library.dt_tensor_count.argtypes = [ctypes.c_void_p]
    library.dt_tensor_release.argtypes = [ctypes.c_void_p]
    tensor = ctypes.c_void_p()
    sizes = (ctypes.c_int64 * 2)(3, 5)
    float32 = 12
    status = create(float32, 2, sizes, ctypes.byref(tensor))
    if status:
        print("dt_tensor_create_empty failed")
        return 1
    count = library.dt_tensor_count(tensor)
    library.dt_tensor_release(tensor)
    print("count", count, "expected 15")
    return 0 if version.count(".") == 2 and count == 15 else 1


if __name__ == "__main__":
    sys.exit(main())
