"""What an agent did: transcripts of messages, as the SDK's users and importers give them."""

from evalscribe.agent_run.noun import (
    AgentRun,
    AssistantMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    Transcript,
    TranscriptToolCall,
    UserMessage,
)

__all__ = [
    "AgentRun",
    "AssistantMessage",
    "ChatMessage",
    "SystemMessage",
    "ToolMessage",
    "Transcript",
    "TranscriptToolCall",
    "UserMessage",
]
