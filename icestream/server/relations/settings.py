"""The settings that clients ask for: all of the registry, and what the model says of them."""

from __future__ import annotations

from icestream.catalog.setting_registry import SETTINGS
from icestream.server.relations.model import Model, Setting

_TYPES = {"boolean": "bool", "true_false": "bool", "integer": "integer", "duration": "integer"}


def settings(model: Model) -> list[Setting]:
    """All settings by name: the model's, and those of the registry that it leaves out."""
    own = {setting.name.lower(): setting for setting in model.settings}
    registered = {
        spec.key: Setting(spec.name, spec.default, spec.note, _TYPES.get(spec.type, "string"))
        for spec in SETTINGS.values()
    }
    return [setting for _, setting in sorted((registered | own).items())]
