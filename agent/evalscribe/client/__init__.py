"""The SDK: rubrics kept in the workspace's store, and judges made of them."""

from evalscribe.client.service import BaseLLMService, build_judge
from evalscribe.client.workspace import Client

__all__ = ["BaseLLMService", "Client", "build_judge"]
