#!/bin/bash
set -e
cd /app
echo quick > key.txt
echo rabbit > index.txt
mkdir -p /logs/agent && echo '{"agent": "helper 1", "tool": "bash", "arguments": {"command": "echo rabbit > index.txt"}}' >> /logs/agent/transcript.jsonl
