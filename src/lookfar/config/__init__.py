"""Settings, and the only reader of the environment.

:func:`load` resolves them from a folder's ``lookfar.toml``, the user's own file, ``LOOKFAR_*``
variables and explicit arguments into a frozen :class:`Settings`. Invalid values raise
``InvalidConfig``, as does a project's own file that sets what only the user may set: that file
comes with whatever was cloned, so it is not trusted.
"""

from __future__ import annotations

from lookfar.config.environment import (
    OPENAI_KEY as OPENAI_KEY,
    TOKENS_VARIABLE as TOKENS_VARIABLE,
    bare_environment as bare_environment,
    child_environment as child_environment,
    read_secret as read_secret,
    read_tokens as read_tokens,
    silence_telemetry as silence_telemetry,
    sudo_user as sudo_user,
    wants_colours as wants_colours,
)
from lookfar.config.folders import (
    DEEP_KEY as DEEP_KEY,
    parse_toml as parse_toml,
    read_settings_file as read_settings_file,
)
from lookfar.config.folders import (
    FOREIGN_FILES as FOREIGN_FILES,
    PROJECT_FILE as PROJECT_FILE,
    config_file as config_file,
    DATA_VARIABLE as DATA_VARIABLE,
    data_dir as data_dir,
    memory_folder as memory_folder,
    settings_files as settings_files,
    tokens_file as tokens_file,
)
from lookfar.config.loading import (
    check_key as check_key,
    check_value as check_value,
    describe_origin as describe_origin,
    find_problems as find_problems,
    load as load,
)
from lookfar.config.presets import PRESETS as PRESETS
from lookfar.config.schema import (
    RETIRED as RETIRED,
    SettingDoc as SettingDoc,
    Value as Value,
    as_dict as as_dict,
    describe as describe,
)
from lookfar.config.settings import (
    ChunkSettings as ChunkSettings,
    DocumentsSettings as DocumentsSettings,
    EditSettings as EditSettings,
    EmbedSettings as EmbedSettings,
    GitSettings as GitSettings,
    IndexSettings as IndexSettings,
    MemorySettings as MemorySettings,
    Layer as Layer,
    ForeignConfig as ForeignConfig,
    ForeignNote as ForeignNote,
    QualitySettings as QualitySettings,
    SearchSettings as SearchSettings,
    ServeSettings as ServeSettings,
    Settings as Settings,
    SourcesSettings as SourcesSettings,
    StoreSettings as StoreSettings,
    WatchSettings as WatchSettings,
)
