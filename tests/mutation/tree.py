"""Where the package is, and copies of the tree in which it may be spoilt."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tree:
    """A checkout or a copy of one. package: its folder, below root."""

    root: Path
    package: Path

    @classmethod
    def of(cls, root: Path) -> Tree:
        """Return the tree whose pyproject.toml names the package, by the command it installs."""
        scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
        name = next(iter(scripts.values())).split(":")[0].split(".")[0]
        for folder in (root, *sorted(p for p in root.iterdir() if p.is_dir())):
            if (folder / name / "__init__.py").exists() and folder.name[0] != ".":
                return cls(root, (folder / name).relative_to(root))
        raise FileNotFoundError(f"{root}: pyproject.toml names package {name}, which is not there")

    @property
    def sources(self) -> Path:
        """Return the package's folder."""
        return self.root / self.package

    def text(self, file: str) -> str:
        """Return a source file; `file` is below the package."""
        return (self.sources / file).read_text(encoding="utf-8")

    def files(self, wanted: list[str]) -> list[str]:
        """Return the source files of these packages and files, all below the package."""
        found: dict[str, None] = {}
        for name in wanted:
            place = self.sources / name
            paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
            for path in paths:
                if not path.exists():
                    raise FileNotFoundError(f"{path}: no such package or file")
                found.setdefault(path.relative_to(self.sources).as_posix())
        return list(found)

    def copied_to(self, folder: Path) -> Tree:
        """Return a copy, without what git ignores.

        Compiled files in it are checked by their source's hash: a mutant may be as long as the
        original and written in the same second.
        """
        listed = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        names = subprocess.run(listed, cwd=self.root, capture_output=True, check=True, text=True)
        for name in filter(None, names.stdout.split("\0")):
            if (self.root / name).is_file():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self.root / name, target)
        copy = Tree(folder, self.package)
        mode = ["--invalidation-mode", "checked-hash", "-q"]
        subprocess.run([sys.executable, "-m", "compileall", *mode, copy.sources], check=True)
        copy.check_import()
        return copy

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment in which Python takes the package from this tree."""
        paths = [self.sources.parent, self.root / "tests", Path(__file__).resolve().parents[1]]
        own = {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "MUTATION_PACKAGE": str(self.sources),
            "NUMBA_CACHE_DIR": str(self.root / ".numba"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        return os.environ | own | more

    def check_import(self) -> None:
        """Raise RuntimeError unless Python takes the package from this tree."""
        name = self.package.name
        line = f"import {name}; print({name}.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", line], cwd=self.root, env=self.environment(), text=True,
            capture_output=True,
        )  # fmt: skip
        if not done.stdout.startswith(str(self.sources)):
            raise RuntimeError(f"{name} is imported from {done.stdout or done.stderr}")
