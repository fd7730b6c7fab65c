"""Identity of a build. It distinguishes builds with the same name and version."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import InvalidVersion, Version


@dataclass(frozen=True)
class Build:
    """Identity of a build. A trace stores the identity and, separately, the patches."""

    argument: str
    """``--engine`` argument that opens the build."""
    name: str
    version: str = ""
    """Version reported by the engine. A copy with changed files reports the same version."""
    release: str | None = None
    """Release with the same Python files as this build. Empty if no release matches, or if the
    files were not compared. None if the engine has no releases."""
    label: str = ""
    """Name that the user gave to the build."""
    commit: str = ""
    """Commit of the source tree. Ends in ``+modified`` if files differ from that commit."""
    fingerprint: str = ""
    """Digest of the build's Python files."""

    def to_json(self) -> dict[str, str]:
        """Return the fields as JSON. An engine without releases has no key ``release``."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def title(self) -> str:
        """Name of the build with its label or version, as all output prints it.

        >>> Build("sglang==0.5.23", "sglang", "0.5.23", "0.5.23").title
        'sglang 0.5.23'
        >>> Build("sglang", "sglang", "0.0.0.dev0", "", commit="3f2c1ab90").title
        'sglang 0.0.0.dev0 at 3f2c1ab90'
        """
        return f"{self.name} {self.number}".strip()

    @property
    def number(self) -> str:
        """Label of the build, or its version and source."""
        return self.label or self.described

    @property
    def described(self) -> str:
        """Version and source of the build. For an unchanged release, this is only the version.

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
    """Return True if the package index may have a release with this version."""
    try:
        number = Version(version)
    except InvalidVersion:
        return False
    return not (number.local or number.is_devrelease)
