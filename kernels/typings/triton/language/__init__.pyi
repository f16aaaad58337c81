from typing import Any, TypeAlias

constexpr: TypeAlias = Any
tensor: TypeAlias = Any

def __getattr__(name: str) -> Any: ...
