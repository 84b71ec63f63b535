"""The model judge: a sub-agent that reads the evidence of one failure with tools and submits a verdict."""
