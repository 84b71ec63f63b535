"""The SDK: a client for workspaces, and a service that calls models for judges that are built in code."""
