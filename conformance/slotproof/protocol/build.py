"""The identity of a build: of all that gives the same name and version, the one that was tested."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version


@dataclass(frozen=True)
class Build:
    """The identity of a build. A trace stores it, and its patches beside it."""

    argument: str
    """The ``--engine`` argument that opens it."""
    name: str
    version: str = ""
    """The version that the engine gave, which a copy with other files gives, too."""
    release: str | None = None
    """The release whose Python files it has; empty if it has other ones, or if nobody compared
    them. None: the engine has no releases."""
    label: str = ""
    """The name that the user gave it."""
    commit: str = ""
    """The commit of its source tree, with ``+modified`` if the tree has other files."""
    fingerprint: str = ""
    """A digest of its Python files."""

    def to_json(self) -> dict[str, str]:
        """Return its fields, without ``release`` where there are no releases."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def title(self) -> str:
        """Its name in all that is shown.

        >>> Build("sglang==0.5.23", "sglang", "0.5.23", "0.5.23").title
        'sglang 0.5.23'
        >>> Build("sglang", "sglang", "0.0.0.dev0", "", commit="3f2c1ab90").title
        'sglang 0.0.0.dev0 at 3f2c1ab90'
        """
        return f"{self.name} {self.number}".strip()

    @property
    def number(self) -> str:
        """The title without the name."""
        return self.label or self.described

    @property
    def described(self) -> str:
        """Version and source, whatever its label is. The version alone is that of the release.

        >>> Build("sglang", "sglang", "0.5.23", "", fingerprint="9e296ba9").described
        '0.5.23+modified (fingerprint 9e296ba9)'
        >>> commit = "3f2c1ab90+modified"
        >>> Build("sglang", "sglang", "0.5.24.dev1", "", "", commit, "9e296ba9").described
        '0.5.24.dev1 at 3f2c1ab90+modified (fingerprint 9e296ba9)'
        """
        if self.release is None or self.release:
            return self.release or self.version
        version = self.version
        if _is_final(version):
            version += "+" + ("modified" if self.fingerprint else "unverified")
        if self.commit:
            version += f" at {self.commit}"
            if not self.commit.endswith("+modified"):
                return version
        return f"{version} (fingerprint {self.fingerprint})" if self.fingerprint else version


def _is_final(version: str) -> bool:
    """Whether the package index may have a release of that number."""
    try:
        number = Version(version)
    except InvalidVersion:
        return False
    return not (number.local or number.is_devrelease)
