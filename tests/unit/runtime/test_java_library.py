"""The jar with the file system that syncs."""

from __future__ import annotations

import zipfile

from icestream.runtime import java_library


def test_the_jar_is_built_from_the_source() -> None:
    assert java_library.built_from() == java_library.hash_sources()
    with zipfile.ZipFile(java_library.JAR) as jar:
        assert f"{java_library.FILE_SYSTEM.replace('.', '/')}.class" in jar.namelist()
