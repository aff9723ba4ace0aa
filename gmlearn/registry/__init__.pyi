# What `registry.get` and `registry.objects` return depends on the kind: one overload each.
from typing import Literal, overload

import gmlearn as gm
from gmlearn.registry.hookspecs import hookimpl as hookimpl
from gmlearn.registry.manager import (
    KINDS as KINDS,
    Entry as Entry,
    Kind as Kind,
    PluginError as PluginError,
    PluginWarning as PluginWarning,
    Registry as Registry,
    UnknownNameError as UnknownNameError,
    expected_things as expected_things,
    plugins as plugins,
    register as register,
)
from gmlearn.registry.manifest import (
    Manifest as Manifest,
    described as described,
    package_of as package_of,
    read_manifest as read_manifest,
)

class _TypedRegistry(Registry):
    @overload  # type: ignore[override]  # an unknown kind is an error
    def get(self, kind: Literal["potential"], name: str) -> type[gm.Block]: ...
    @overload
    def get(self, kind: Literal["slave solver"], name: str) -> gm.SlaveSolver: ...
    @overload
    def get(self, kind: Literal["decomposition"], name: str) -> gm.Decomposition: ...
    @overload
    def get(self, kind: Literal["loss"], name: str) -> type[gm.Loss]: ...
    @overload
    def get(self, kind: Literal["solver"], name: str) -> gm.MapSolver: ...
    @overload
    def get(self, kind: Literal["marginal method"], name: str) -> gm.MarginalMethod: ...
    @overload
    def get(self, kind: Literal["optimizer"], name: str) -> type[gm.Optimizer]: ...
    @overload
    def get(self, kind: Literal["trainer"], name: str) -> gm.Trainer: ...
    @overload
    def get(self, kind: Literal["format"], name: str) -> gm.FileFormat: ...
    @overload
    def get(self, kind: Literal["experiment"], name: str) -> gm.Experiment: ...
    @overload  # type: ignore[override]  # an unknown kind is an error
    def objects(self, kind: Literal["potential"]) -> list[type[gm.Block]]: ...
    @overload
    def objects(self, kind: Literal["slave solver"]) -> list[gm.SlaveSolver]: ...
    @overload
    def objects(self, kind: Literal["decomposition"]) -> list[gm.Decomposition]: ...
    @overload
    def objects(self, kind: Literal["loss"]) -> list[type[gm.Loss]]: ...
    @overload
    def objects(self, kind: Literal["solver"]) -> list[gm.MapSolver]: ...
    @overload
    def objects(self, kind: Literal["marginal method"]) -> list[gm.MarginalMethod]: ...
    @overload
    def objects(self, kind: Literal["optimizer"]) -> list[type[gm.Optimizer]]: ...
    @overload
    def objects(self, kind: Literal["trainer"]) -> list[gm.Trainer]: ...
    @overload
    def objects(self, kind: Literal["format"]) -> list[gm.FileFormat]: ...
    @overload
    def objects(self, kind: Literal["experiment"]) -> list[gm.Experiment]: ...

registry: _TypedRegistry
