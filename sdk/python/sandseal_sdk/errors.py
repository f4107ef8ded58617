"""Every way in which the SDK says no, grouped by who must act.

SandsealError (sandseal_signing)
└── SdkError
    ├── PluginFolderInvalid     the plugin's author: plugin.toml or the files it names
    ├── BuildError              the plugin's author: the compiler refuses the source
    ├── CaseInvalid             the plugin's author: a test case that cannot be read
    ├── ModelUnreadable         the publisher: not an ONNX model that a manifest can describe
    ├── FileExists              the user: something is already there
    ├── BundleNotFound          the user: no such file, folder or bundle
    ├── PackageUnavailable      the user: a package on PyPI that pip cannot get
    ├── ExtraMissing            the user: an optional part of the installation
    ├── NotLoggedIn             the user: no host and token to talk to
    ├── HostUnreachable         the user, or the operator: no answer
    └── HostRefused             whoever the host's own code and hint name
"""

from collections.abc import Mapping
from typing import Any

from sandseal_signing.errors import SandsealError


class SdkError(SandsealError):
    """Anything the SDK refuses or fails at."""


class PluginFolderInvalid(SdkError):
    """The plugin's author: plugin.toml, or a file that it names, is not right."""

    code = "plugin_folder_invalid"
    hint = "`sandseal new` writes a folder that works; compare with it"


class BuildError(SdkError):
    """The plugin's author: the compiler refuses the source; the message has file, line and its text."""

    code = "build_failed"
    hint = "correct the source at the line named, then build again"


class CaseInvalid(SdkError):
    """The plugin's author: a file under cases/ is not a test case."""

    code = "case_invalid"


class ModelUnreadable(SdkError):
    """The publisher: not an ONNX model, or not one that a manifest can describe."""

    code = "model_unreadable"


class FileExists(SdkError):
    """The user: something is already there and is not overwritten."""

    code = "file_exists"


class BundleNotFound(SdkError):
    """The user: nothing of this name can be verified."""

    code = "bundle_not_found"
    hint = "name a .seal file, a folder, or a bundle id together with the host's --data folder"


class PackageUnavailable(SdkError):
    """The user: pip cannot get a package, or it is not the file that was asked for."""

    code = "package_unavailable"
    hint = "check the connection, and that pip reaches PyPI or a mirror of it"


class ExtraMissing(SdkError):
    """The user: this part of Sandseal needs packages of an extra."""

    code = "extra_missing"


class NotLoggedIn(SdkError):
    """The user: no host and token are known."""

    code = "not_logged_in"
    hint = "run `sandseal login URL`, or set SANDSEAL_URL and SANDSEAL_TOKEN"


class HostUnreachable(SdkError):
    """The host does not answer."""

    code = "host_unreachable"
    hint = "check the address, and that the host runs: `sandseal serve`"


class HostRefused(SdkError):
    """The host answered with an error; `code` and `hint` are its own.

    Args:
        status: the HTTP status.
        code: the host's stable code.
        retry_after: seconds to wait, when the host says so.
        facts: what else the host's answer holds, under whatever names; kept as `data`.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        hint: str | None = None,
        retry_after: float | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.data = dict(facts or {})
        self.status = status
        self.code = code  # type: ignore[misc]  # the host's code, not this class's
        self.retry_after = retry_after
