"""What language models and conversations share: protocols, reading in blocks, replies, effective context."""
