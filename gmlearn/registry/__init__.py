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

__all__ = [
    "KINDS",
    "Entry",
    "Kind",
    "PluginError",
    "PluginWarning",
    "Registry",
    "UnknownNameError",
    "expected_things",
    "hookimpl",
    "plugins",
    "register",
    "registry",
]
