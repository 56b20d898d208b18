"""Objects of a checkpoint, read from the store or from one that holds copies. Source: schemas/SPEC.md#checkpoints."""

from collections.abc import Sequence
from dataclasses import dataclass

from shardrel.errors import IntegrityError, NotFoundError
from shardrel.records.descriptor import Descriptor
from shardrel.store.objects import get, unversioned
from shardrel.store.port import Store


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Reads by digest, checked.

    Attributes:
        store: The run's.
        replicas: Stores that hold copies of the objects, in the order in which they are asked for what is absent or
            damaged in the run's own.
    """

    store: Store
    replicas: Sequence[Store] = ()

    def read(self, descriptor: Descriptor) -> bytes:
        """The bytes of an object.

        Raises:
            NotFoundError, IntegrityError: What the run's own store says, where no replica has it either.
        """
        try:
            return get(self.store, descriptor)
        except (NotFoundError, IntegrityError):
            found = self._of_a_replica(descriptor)
            if found is None:
                raise
            return found

    def _of_a_replica(self, descriptor: Descriptor) -> bytes | None:
        # A version names bytes in one store; the digest names them in every one.
        anywhere = unversioned(descriptor)
        for store in self.replicas:
            try:
                return get(store, anywhere)
            except (NotFoundError, IntegrityError):
                continue
        return None
