"""YAML as people write it by hand: a key that stands twice is a mistake, and a small file stays small."""

from collections.abc import Hashable

import yaml

_MOST = 1_000_000
"""Values in a document, with what its aliases repeat."""


class DocumentError(ValueError):
    """Not a document. The message has the line, as far as it is known."""


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True) if key_node.tag != "tag:yaml.org,2002:merge" else None
            if key is not None and isinstance(key, Hashable):
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} stands here a second time; take one out", key_node.start_mark
                    )
                seen.add(key)
        return super().construct_mapping(node, deep)


def read_document(text: str) -> object:
    """The value of the only document in a text of YAML; None: there is none. Raises DocumentError."""
    documents = read_documents(text)
    if len(documents) > 1:
        raise DocumentError("more than one document; take out what follows the first ---")
    return documents[0] if documents else None


def read_documents(text: str) -> list[object]:
    """The values of all documents in a text of YAML. Raises DocumentError."""
    loader = None
    documents = []
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            if _size(node, {}) > _MOST:
                raise DocumentError(f"aliases make it larger than {_MOST:,} values; write less")
            documents.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark is not None else ""
        what = "" if isinstance(error, yaml.constructor.ConstructorError) else "not YAML: "
        raise DocumentError(f"{where}{what}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise DocumentError(f"not YAML: {error.reason}, at character {error.position}") from None
    except RecursionError:
        raise DocumentError("it is nested too deeply") from None
    except ValueError as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"a value cannot be read: {str(error).split(';')[0]}") from None
    finally:
        if loader is not None:
            loader.dispose()
    return documents


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values it has when its aliases are written out. One that contains itself has too many."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = _MOST + 1
    size = 1
    if isinstance(node, yaml.MappingNode):
        size += sum(_size(key, known) + _size(value, known) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_size(value, known) for value in node.value)
    elif any("\ud800" <= char <= "\udfff" for char in node.value):
        raise DocumentError(f"line {node.start_mark.line + 1}: half of a character (a surrogate); write the whole of it")
    known[id(node)] = size
    return size
