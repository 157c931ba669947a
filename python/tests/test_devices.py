# SPDX-License-Identifier: Apache-2.0
"""Sessions on a device, by the fake driver (DUCTILE_CUDA) or a real one: arrays of the host and of the device in,
Tensors out, DLPack, graphs."""

import unittest

from support import main, np

import ductile
from ductile import ops


def program(x):
    return ops.softmax(x * 2 + 1, -1)


def made(**options):
    return ductile.function(program, inputs=[ductile.Input("x", "f32", ["n", 4])], **options)


class Devices(unittest.TestCase):
    def setUp(self):
        if ductile.runtime().device_count("cuda") == 0:
            self.skipTest("no device")
        self.x = np.arange(12, dtype="f4").reshape(3, 4)
        self.want = made()(self.x)

    def test_calls(self):
        f = made()
        f.prepare("cuda")
        with ductile.Session("cuda") as session:
            self.assertNotEqual(session.stream, 0)
            y = f(self.x)
            self.assertEqual((y.device, y.shape, y.dtype), ("cuda:0", (3, 4), "f32"))
            z = f(y)
            self.assertTrue(np.allclose(y.numpy(), self.want, atol=1e-6))
            self.assertEqual(z.numpy().shape, (3, 4))
            room = f(self.x[:2])
            self.assertIs(f.run([self.x[:2]], out=[room]), room)
            self.assertTrue(np.allclose(room.numpy(), self.want[:2], atol=1e-6))
            with self.assertRaises(ductile.ArgumentError):
                f.run([self.x], out=[np.empty((3, 4), "f4")])
            with self.assertRaises(BufferError):
                memoryview(y)
            session.wait()
        self.assertTrue(np.allclose(f(self.x), self.want))
        self.assertTrue(np.allclose(y.numpy(), self.want, atol=1e-6))
        session.close()
        with self.assertRaises(ductile.StateError):
            y.numpy()

    def test_dlpack(self):
        f = made()
        with ductile.Session("cuda:0") as session:
            y = f(self.x)
            self.assertEqual(y.__dlpack_device__(), (2, 0))
            for stream in (None, -1, session.stream):
                again = ductile.from_dlpack(y.__dlpack__(stream=stream, max_version=(1, 0)))
                self.assertEqual(again.device, "cuda:0")
                self.assertEqual(f(again).numpy().shape, (3, 4))
            with self.assertRaises(TypeError):
                y.__dlpack__(stream="first")

            class Giver:
                """One that must be told on which stream it is read."""
                streams = []

                def __dlpack__(self, *, stream=None, max_version=None):
                    self.streams.append(stream)
                    return y.__dlpack__(stream=stream, max_version=max_version)
            f(Giver())
            self.assertEqual(Giver.streams, [session.stream])

    def test_graphs(self):
        f = made(call_mode="reduce-overhead")
        with ductile.Session("cuda") as session:
            for n in (3, 1, 3):
                session.step_begin()
                y = f(self.x[:n])
                self.assertTrue(np.allclose(y.numpy(), self.want[:n], atol=1e-6))
            self.assertGreater(session.stats()["generation"], 1)
            session.step_begin()
            with self.assertRaises(ductile.StateError):
                y.numpy()

    def test_profile(self):
        f = made(call_mode="reduce-overhead")
        for whole in (False, True):
            with ductile.Session("cuda") as session:
                for _ in range(2):
                    session.step_begin()
                    f(self.x).numpy()
                with ductile.Profile(whole_graphs=whole) as profile:
                    for _ in range(3):
                        session.step_begin()
                        f(self.x).numpy()
                    session.wait()
            (variant,) = profile.report()["variants"]
            self.assertEqual((variant["calls"], variant["device_calls"]), (3, 3))
            self.assertNotEqual(variant["device"], "the CPU")
            self.assertGreaterEqual(variant["device_ns"], variant["kernels_ns"])
            self.assertEqual(variant["to_device"]["copies"], 3)
            self.assertEqual(any(kernel["name"].startswith("graph of ") for kernel in variant["kernels"]), whole)
            self.assertEqual(variant["split_graphs"], 0 if whole else 3)
            self.assertIn("on the device: ", profile.text())

    def test_failures(self):
        with self.assertRaises(ductile.UnsupportedError):
            ductile.Session("cuda:63")
        gather = ductile.function(lambda x, k: x[k], inputs=[ductile.Input("x", "f32", [None, 4]),
                                                             ductile.Input("k", "i64", [None])])
        with ductile.Session("cuda") as session:
            with self.assertRaises(ductile.RangeError):
                gather(self.x, np.array([9]))
                session.wait()


if __name__ == "__main__":
    main()
