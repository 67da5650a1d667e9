"""What a model directory says about the model's text."""

from pathlib import Path
from typing import TypeVar

import msgspec

from ...protocol.errors import InvalidModel
from ...protocol.models import TextSource, VocabularySource
from .directory_config import ConfigJson, read_json

T = TypeVar("T", bound=msgspec.Struct)


class NamedTemplate(msgspec.Struct, frozen=True):
    """One of several chat templates."""

    name: str
    template: str


class TokenJson(msgspec.Struct, frozen=True):
    """A special token, written out."""

    content: str


class TokenizerConfigJson(msgspec.Struct, frozen=True):
    """What of ``tokenizer_config.json`` matters here."""

    chat_template: str | list[NamedTemplate] | None = None
    bos_token: str | TokenJson | None = None
    eos_token: str | TokenJson | None = None
    unk_token: str | TokenJson | None = None
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None


class GenerationJson(msgspec.Struct, frozen=True):
    """What of ``generation_config.json`` matters here."""

    eos_token_id: int | list[int] | None = None
    do_sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None


class AddedTokenJson(msgspec.Struct, frozen=True):
    """An entry of ``added_tokens``."""

    id: int
    content: str


class VocabularyJson(msgspec.Struct, frozen=True):
    """The ``model`` of ``tokenizer.json``."""

    vocab: dict[str, int] | list[tuple[str, float]] = {}


class ProcessorJson(msgspec.Struct, frozen=True):
    """The ``post_processor``: what it puts around one text."""

    single: list[dict[str, dict[str, str | int]]] = []
    processors: list["ProcessorJson"] = []

    def puts_first(self, token: str) -> bool:
        """Whether it begins a text with a token."""
        special = self.single[0].get("SpecialToken", {}) if self.single else {}
        nested = (part.puts_first(token) for part in self.processors)
        return special.get("id") == token or any(nested)


class TokenizerJson(msgspec.Struct, frozen=True):
    """What of ``tokenizer.json`` matters here."""

    model: VocabularyJson
    added_tokens: list[AddedTokenJson] = []
    post_processor: ProcessorJson | None = None

    def id_of(self, token: str) -> int | None:
        """Look a special token up."""
        for added in self.added_tokens:
            if added.content == token:
                return added.id
        if isinstance(self.model.vocab, dict):
            return self.model.vocab.get(token)
        return None


def directory_text(folder: Path, config: ConfigJson) -> TextSource:
    """Read everything about the text.

    Raises:
        InvalidModel: ``tokenizer.json`` is missing, or a file is malformed.
    """
    tokenizer = read_json(folder / "tokenizer.json", TokenizerJson)
    settings = _optional(folder / "tokenizer_config.json", TokenizerConfigJson)
    generation = _optional(folder / "generation_config.json", GenerationJson)
    bos, eos = _content(settings.bos_token), _content(settings.eos_token)
    adds_bos = settings.add_bos_token
    if adds_bos is None:
        processor = tokenizer.post_processor
        adds_bos = bool(bos and processor and processor.puts_first(bos))
    eos_id = tokenizer.id_of(eos) if eos else None
    ends = {*_ids(generation.eos_token_id), *_ids(config.eos_token_id), *_ids(eos_id)}
    return TextSource(
        vocabulary=VocabularySource(
            kind="json",
            json_path=str(folder / "tokenizer.json"),
            bos_id=tokenizer.id_of(bos) if bos else None,
            eos_id=eos_id,
            unk_id=tokenizer.id_of(_content(settings.unk_token)),
            add_bos=adds_bos,
            add_eos=bool(settings.add_eos_token),
        ),
        chat_template=_template(folder, settings),
        stop_ids=tuple(sorted(ends)),
        bos_token=bos,
        eos_token=eos,
        defaults=_defaults(generation),
    )


def _optional(path: Path, kind: type[T]) -> T:
    return read_json(path, kind) if path.exists() else kind()


def _content(token: str | TokenJson | None) -> str:
    return token.content if isinstance(token, TokenJson) else token or ""


def _ids(value: int | list[int] | None) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else value


def _defaults(generation: GenerationJson) -> dict[str, float]:
    if not generation.do_sample:
        return {}
    given = {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "top_k": generation.top_k,
    }
    return {name: float(value) for name, value in given.items() if value is not None}


def _template(folder: Path, settings: TokenizerConfigJson) -> str | None:
    path = folder / "chat_template.jinja"
    if path.exists():
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidModel(f"{path} is not UTF-8: {error}") from error
    given = settings.chat_template
    if isinstance(given, list):
        named = {entry.name: entry.template for entry in given}
        return named.get("default")
    return given
