"""The SDK: rubrics kept in the workspace's store, and judges made of them."""
