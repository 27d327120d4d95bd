"""The one part of the package that is compiled. Where there is no compiler the install goes on without it."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "gpuledger.native._btree",
            sources=["src/gpuledger/native/btree.c", "src/gpuledger/native/module.c"],
            depends=["src/gpuledger/native/btree.h"],
            extra_compile_args=["-O3", "-std=c11"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
