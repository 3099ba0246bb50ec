from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, Protocol, TypeVar, overload

from typing_extensions import Unpack

from keytally._options import CallOptions

Input = Mapping[str, Any] | None
Call = Callable[[str, Input, CallOptions], object]
AsyncCall = Callable[[str, Input, CallOptions], Coroutine[Any, Any, object]]

_Call = TypeVar("_Call")
_In = TypeVar("_In", contravariant=True)
_Out = TypeVar("_Out", covariant=True)


class Group(Generic[_Call]):
    """Operations as methods: they answer, or they are awaited, as its call does."""

    def __init__(self, call: _Call) -> None:
        self._call = call


class Method(Protocol[_In, _Out]):
    def __call__(self, input: _In, **options: Unpack[CallOptions]) -> _Out: ...


class OptionalMethod(Protocol[_In, _Out]):
    def __call__(self, input: _In | None = None, **options: Unpack[CallOptions]) -> _Out: ...


class _Operation(Generic[_In, _Out]):
    def __init__(self, operation: str, about: str) -> None:
        self._operation = operation
        self.__doc__ = about

    def __set_name__(self, _: object, name: str) -> None:
        self._name = name

    def _of(self, group: Group[Any] | None) -> Any:
        if group is None:
            return self

        def method(input: Input = None, **options: Unpack[CallOptions]) -> Any:
            return group._call(self._operation, input, options)

        method.__name__, method.__doc__ = self._name, self.__doc__
        return method


class Operation(_Operation[_In, _Out]):
    """An operation of the API. In a group it is a method."""

    @overload
    def __get__(self, group: Group[Call], owner: object) -> Method[_In, _Out]: ...
    @overload
    def __get__(self, group: Group[AsyncCall], owner: object) -> Method[_In, Coroutine[Any, Any, _Out]]: ...
    def __get__(self, group: Any, owner: object) -> Any:
        return self._of(group)


class OptionalOperation(_Operation[_In, _Out]):
    """One whose input may be left out."""

    @overload
    def __get__(self, group: Group[Call], owner: object) -> OptionalMethod[_In, _Out]: ...
    @overload
    def __get__(self, group: Group[AsyncCall], owner: object) -> OptionalMethod[_In, Coroutine[Any, Any, _Out]]: ...
    def __get__(self, group: Any, owner: object) -> Any:
        return self._of(group)
