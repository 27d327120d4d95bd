"""The one part of the package that is compiled. Where there is no compiler the install goes on without it."""

from setuptools import Extension, setup


def _part(part: str, name: str, *sources: str, headers: tuple[str, ...]) -> Extension:
    folder = f"src/gpuledger/{part}/native"
    return Extension(
        f"gpuledger.{part}.native.{name}",
        sources=[f"{folder}/{each}" for each in sources],
        depends=[f"{folder}/{each}" for each in headers],
        extra_compile_args=["-O3", "-std=c11"],
        py_limited_api=True,
        optional=True,
    )


setup(
    ext_modules=[
        _part("trace", "_btree", "btree.c", "btree_module.c", headers=("btree.h",)),
        _part("trace", "_sweep", "sweep.c", "sweep_module.c", headers=("sweep.h",)),
        _part("replay", "_replay", "replay.c", "replay_module.c", headers=("replay.h",)),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
