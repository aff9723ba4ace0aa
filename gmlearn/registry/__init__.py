"""What is registered, by whom, and how it is found by name. Knows names, not mathematics."""

from gmlearn.registry.hookspecs import hookimpl
from gmlearn.registry.manager import (
    KINDS,
    Entry,
    Kind,
    PluginError,
    PluginWarning,
    Registry,
    UnknownNameError,
    expected_things,
    plugins,
    register,
    registry,
)
from gmlearn.registry.manifest import Manifest, described, package_of, read_manifest

__all__ = [
    "KINDS",
    "Entry",
    "Kind",
    "Manifest",
    "PluginError",
    "PluginWarning",
    "Registry",
    "UnknownNameError",
    "described",
    "expected_things",
    "hookimpl",
    "package_of",
    "plugins",
    "read_manifest",
    "register",
    "registry",
]
