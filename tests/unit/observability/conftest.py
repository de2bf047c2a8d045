from tests.unit.observability.spans import spans

__all__ = ["spans"]
