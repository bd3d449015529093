"""Language models and models of conversations: tasks, protocols, reading in blocks, replies, use of context."""
