"""What is registered, by whom, and how it is found by name. Knows names, not mathematics."""

from gmlearn.registry.hookspecs import hookimpl
from gmlearn.registry.manager import (
    KINDS,
    Entry,
    PluginError,
    PluginWarning,
    Registry,
    UnknownNameError,
    plugins,
    register,
    registry,
)

__all__ = [
    "KINDS",
    "Entry",
    "PluginError",
    "PluginWarning",
    "Registry",
    "UnknownNameError",
    "hookimpl",
    "plugins",
    "register",
    "registry",
]
