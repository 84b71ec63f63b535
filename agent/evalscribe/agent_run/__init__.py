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
from evalscribe.agent_run.parse import parse_agent_run, parse_agent_runs

__all__ = [
    "AgentRun",
    "AssistantMessage",
    "ChatMessage",
    "SystemMessage",
    "ToolMessage",
    "Transcript",
    "TranscriptToolCall",
    "UserMessage",
    "parse_agent_run",
    "parse_agent_runs",
]
